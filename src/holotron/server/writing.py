"""Long JSON, written piece by piece, so that the event loop can do other things in between.

A reply of ten thousand tokens with twenty alternatives each is two hundred thousand objects: seconds, if they were made
and written in one go, in which the server would answer nobody.

    body = {"choices": [{"logprobs": {"content": Rows(lambda: map(as_json, events))}}]}
    for data in slices(body): ...                         # bytes, each after about two milliseconds of work
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

SLICE_SECONDS = 0.002
_LEVELS = 6  # as deep as the lists of tokens lie, and no deeper
_LETTERS = 2**18


@dataclass(frozen=True)
class Rows:
    """A list whose values are made when they are written."""

    values: Callable[[], Iterable[Any]]


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def pieces(value: Any, levels: int = _LEVELS) -> Iterator[str]:
    """The same text as `dumps`, in pieces."""
    if isinstance(value, Rows) or (isinstance(value, list) and levels):
        yield "["
        for n, item in enumerate(value.values() if isinstance(value, Rows) else value):
            if n:
                yield ","
            yield from pieces(item, 0 if isinstance(value, Rows) else levels - 1)
        yield "]"
    elif isinstance(value, dict) and levels:
        yield "{"
        for n, (key, item) in enumerate(value.items()):
            yield f"{',' if n else ''}{dumps(key)}:"
            yield from pieces(item, levels - 1)
        yield "}"
    elif isinstance(value, str) and len(value) > _LETTERS:  # a picture, say
        yield '"'
        for start in range(0, len(value), _LETTERS):
            yield dumps(value[start : start + _LETTERS])[1:-1]
        yield '"'
    else:
        yield dumps(value)


def slices(value: Any) -> Iterator[bytes]:
    """Never empty. Whoever takes them lets others run between two."""
    gathered: list[str] = []
    until = time.perf_counter() + SLICE_SECONDS
    for piece in pieces(value):
        gathered.append(piece)
        if time.perf_counter() > until:
            yield "".join(gathered).encode()
            gathered = []
            until = time.perf_counter() + SLICE_SECONDS
    yield "".join(gathered).encode()
