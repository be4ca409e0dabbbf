"""What a client has of a stream: whole tokens, however the bytes come and wherever they stop."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holotron.fleet.streams import Heard

TOKENS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 99_999), st.integers(0, 3)), max_size=12)


def stream(tokens: list[tuple[int, int, int]]) -> tuple[bytes, list[bytes]]:
    """As a replica writes it; and what each token's events are without the comments."""
    parts = [b'data: {"role":"assistant"}\n\n']
    whole = parts[0] + b": begun\n\n"
    for n, (index, token, events) in enumerate(tokens):
        data = b"".join(b'data: {"n":%d,"e":%d,"text":": 0 1"}\n\n' % (n, e) for e in range(events))
        parts.append(data)
        whole += data + b": %d %d\n\n" % (index, token)
    end = b"data: [DONE]\n\n"
    return whole + b": spent 7\n\n" + end, [*parts, end]


@given(TOKENS, st.data())
def test_whole_tokens_however_the_bytes_come(tokens: list[tuple[int, int, int]], data: st.DataObject) -> None:
    whole, parts = stream(tokens)
    stop = data.draw(st.integers(0, len(whole)))
    heard, out, at = Heard(), b"", 0
    while at < stop:
        step = data.draw(st.integers(1, 40))
        out += heard.passed(whole[at : min(at + step, stop)])
        at += step
    said = sum(map(len, heard.tokens.values()))
    assert out == b"".join(parts[: 1 + said]) * heard.begun, "events of the tokens that it says, and no others"
    for index in range(3):
        mine = [token for which, token, _ in tokens[:said] if which == index]
        assert heard.tokens.get(index, []) == mine
    if stop == len(whole):
        assert out + heard.rest() == b"".join(parts)
        assert heard.spent == 7
    else:
        heard.torn()
        assert heard.rest() == b""
