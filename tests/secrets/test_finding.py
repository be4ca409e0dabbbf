"""A value is recognised however it is written; other text is left alone."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import threading
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holotron.envs.effects.gate import Gate
from holotron.envs.effects.judging import Sent
from holotron.envs.patience import Patience
from holotron.envs.secrets import Secret, Secrets
from holotron.envs.secrets.finding import Finder

VALUE = "hunter2-Löng &9"


def finder(value: str = VALUE) -> Finder:
    return Finder([Secret("code", value, hosts=("a.example",))])


@pytest.mark.parametrize(
    "written",
    [
        VALUE,
        VALUE.upper(),
        VALUE.lower(),
        "-".join(VALUE),
        " . ".join(VALUE),
        "\u200b".join(VALUE),
        "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in VALUE),  # full width
        "hunter2-Lo\u0308ng &9",
        "hunter2long9",
        quote(VALUE),
        quote_plus(VALUE),
        quote(quote(VALUE)),
        json.dumps(VALUE),
        html.escape(VALUE),
        "".join(f"&#{ord(c)};" for c in VALUE),
        "".join(f"\\u{ord(c):04x}" for c in VALUE),
        base64.b64encode(VALUE.encode()).decode(),
        base64.b64encode(b"a" + VALUE.encode() + b"b").decode(),
        base64.urlsafe_b64encode(b"ab" + VALUE.encode()).decode().rstrip("="),
        VALUE.encode().hex(),
        VALUE[::-1],
        VALUE[:8],
        VALUE[4:],
    ],
)
def test_it_is_taken_out_however_it_is_written(written: str) -> None:
    told = finder().redact(f"code: {written} (end)")
    assert told.startswith("code: ") and told.endswith("(end)") and "<secret:code>" in told
    for left in ("hunter", "long", written[:7], base64.b64encode(b"hunter").decode()[:6]):
        assert left.casefold() not in told.replace("<secret:code>", "").casefold()


def test_other_text_stays() -> None:
    text = "A hunt in the long night: 2 + 9 & more, hunting and longing"
    assert finder().redact(text) == text


@given(st.text(max_size=60), st.text(max_size=60))
def test_what_stands_around_stays(before: str, after: str) -> None:
    value = "qX7-ZemmW2"
    told = finder(value).redact(f"{before}{value}{after}")
    assert value not in told and "<secret:code>" in told
    around = told.split("<secret:code>")
    assert before.startswith(around[0]) and after.endswith(around[-1])


@given(st.text(min_size=4, max_size=40).filter(lambda text: text.strip()))
def test_any_value_can_be_a_secret(value: str) -> None:
    assert value not in finder(value).redact(f"it is {value}.") or value in "it is <secret:code>."


@given(st.lists(st.integers(1, 9), max_size=6), st.text(alphabet="xyz ", max_size=9))
def test_pieces_are_found_one_after_the_other(cuts: list[int], other: str) -> None:
    value, at, parts = "qX7-ZemmW2", 0, []
    for cut in sorted(set(cuts)):
        parts.append(value[at:cut])
        at = cut
    texts = [other, *parts, value[at:], other]
    found = finder(value).across(texts)
    shown = "".join(
        "".join(letter for at, letter in enumerate(text) if not any(a <= at < b for a, b in found.get(index, ())))
        for index, text in enumerate(texts)
    )
    assert shown == other + other


def test_short_and_odd_ones() -> None:
    assert finder("12 4").redact("the number 1 2 4 and 12 4") == "the number <secret:code> and <secret:code>"
    assert finder("!?%&").redact("say !?%& or ! ? % &, not ?!") == "say <secret:code> or <secret:code>, not ?!"
    long = "".join(chr(97 + (7 * n * n) % 26) for n in range(3000))
    assert finder(long).redact(f"x {long[100:400]} y") != f"x {long[100:400]} y"


def test_only_what_was_typed_is_looked_for_in_what_leaves() -> None:
    secrets = Secrets([Secret("code", VALUE, hosts=("a.example",))])
    assert secrets.taken_away("https://b.example", VALUE) == ""
    secrets.entered(f"my {VALUE}")
    assert secrets.taken_away("https://b.example", VALUE) == "<secret:code>"
    assert secrets.taken_away("http://a.example", VALUE) == "<secret:code>"  # its own site, for everybody to read
    assert secrets.taken_away("https://www.a.example", VALUE) == ""
    assert secrets.taken_away("https://b.example", "harmless=1") == ""


def test_long_texts_are_looked_into_beside_everything_else() -> None:
    """A page that sends much does not keep other sessions waiting."""
    looked: list[bool] = []

    class Watched(Secrets):
        def taken_away(self, url: str, *texts: str) -> str:
            looked.append(threading.current_thread() is threading.main_thread())
            return super().taken_away(url, *texts)

    secrets = Watched([Secret("code", VALUE, hosts=("a.example",))])
    secrets.entered(VALUE)
    gate = Gate(None, Patience(), secrets)
    sent = [Sent("POST", "https://b.example/", "XHR", body=text.encode()) for text in ("x", "x" * 100_000 + VALUE)]
    assert [asyncio.run(gate._taken(one)) for one in sent] == ["", "<secret:code>"]
    assert looked == [True, False]
