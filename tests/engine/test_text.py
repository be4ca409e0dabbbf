"""Streaming text: nothing lost, nothing taken back, cut at the first stop string."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holotron.engine.text import TextStream
from holotron.model.processor import byte_tokenizer

TOKENIZER = byte_tokenizer()
TEXT = st.text(st.sampled_from("abcä€🙂\n"), max_size=30)


@given(TEXT, st.lists(st.text(st.sampled_from("abcä€"), min_size=1, max_size=4), max_size=3))
def test_text_ends_at_the_first_stop_string(text: str, stops: list[str]) -> None:
    stream, shown, stopped = TextStream(TOKENIZER, stops), "", None
    for token in TOKENIZER.encode(text):
        piece, stopped = stream.push(token)
        shown += piece
        assert text.startswith(shown)
        if stopped:
            break
    # The stop string whose end comes first ends the text; of several that end there, the one that begins first.
    ends = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    if not ends:
        assert stopped is None
        assert shown + stream.finish() == text
    else:
        assert stopped in stops
        end = min(ends)[0]
        assert shown == text[: min(start for e, start in ends if e == end)]


def test_control_tokens_are_silent_and_no_tokenizer_means_no_text() -> None:
    stream = TextStream(TOKENIZER, ["stop"])
    assert stream.push(260) == ("", None)
    assert [stream.push(token) for token in b"sto"] == [("", None)] * 3
    assert stream.finish() == "sto"
    assert TextStream(None).push(5) == ("", None)
