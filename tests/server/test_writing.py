"""Long JSON is written as short JSON is, only that others may run in between."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holotron.server import pictures, writing
from holotron.server.running import LongAnswer
from holotron.server.writing import Rows, dumps, slices

JSON = st.recursive(
    st.text(max_size=20) | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.none() | st.booleans(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=60,
)


@given(JSON, st.integers(0, 8), st.integers(1, 30))
@settings(max_examples=80, deadline=None)
def test_in_pieces_it_is_the_same_text(value: Any, levels: int, letters: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "_LETTERS", letters)
        assert "".join(writing.pieces(value, levels)) == dumps(value)
        rows = Rows(lambda: iter([value, value]))
        assert "".join(writing.pieces({"a": [rows]}, levels=8)) == dumps({"a": [[value, value]]})


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_long_answer_comes_in_several_messages(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "SLICE_SECONDS", seconds)
    body = {"rows": [{"n": n} for n in range(100)], "words": Rows(lambda: map(str, range(50)))}
    sent: list[dict[str, Any]] = []
    turns = 0

    async def play() -> None:
        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            await asyncio.sleep(60)

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.ensure_future(other())
        await LongAnswer(body, asyncio.Event())({"type": "http"}, receive, send)
        beside.cancel()

    asyncio.run(play())
    start, *pieces = sent
    assert json.loads(b"".join(piece["body"] for piece in pieces)) == body | {"words": [str(n) for n in range(50)]}
    assert [piece["more_body"] for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    long = seconds == 0
    assert (len(pieces) > 50) == long and (turns > 50) == long
    assert (b"content-length" in dict(start["headers"])) == (not long)
    assert list(slices([])) == [b"[]"] or long


@given(st.binary(max_size=200), st.lists(st.integers(0, 300), max_size=5), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_base64_in_pieces(data: bytes, blanks: list[int], piece: int) -> None:
    text = base64.b64encode(data).decode()
    for place in blanks:
        text = f"{text[: place % (len(text) + 1)]}\r\n {text[place % (len(text) + 1) :]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pictures, "_PIECE", piece)
        assert b"".join(pictures._unpacked(text, 0)) == data
        for wrong in (f"{text}A", f"{text}!!!!"):
            with pytest.raises(binascii.Error):
                list(pictures._unpacked(wrong, 0))
