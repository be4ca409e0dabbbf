"""The token log of a session: what was said and shown, in order. The one thing that is never recomputed or guessed.

Image placeholders all carry the same token id, so each stretch of them also names the tile it shows. Two logs are
equal only if their tiles are: comparison and hashing go by tile content.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from weakref import WeakValueDictionary

import numpy as np
from torch import Tensor

from holotron.model.processor import Prompt

BLOCK = 64  # tokens per link of the hash chain


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Tile:
    """Pixels for the vision tower, kept for as long as a log shows them."""

    key: bytes  # by content
    pixels: Tensor  # uint8 [3, height, width]


class TileStore:
    """One `Tile` for all logs that show the same pixels."""

    def __init__(self) -> None:
        self._tiles: WeakValueDictionary[bytes, Tile] = WeakValueDictionary()
        self._lock = threading.Lock()

    def get(self, key: bytes, pixels: Tensor) -> Tile:
        with self._lock:
            tile = self._tiles.get(key)
            if tile is None:
                tile = self._tiles[key] = Tile(key, pixels.clone())  # a view would keep the whole image alive
            return tile

    def __len__(self) -> int:
        return len(self._tiles)

    @property
    def nbytes(self) -> int:
        return sum(tile.pixels.nbytes for tile in list(self._tiles.values()))


@dataclass(frozen=True, slots=True)
class TileSpan:
    """`count` tokens from `start` on show the rows of a tile from `offset` on."""

    start: int
    count: int
    tile: Tile
    offset: int = 0

    @property
    def end(self) -> int:
        return self.start + self.count

    def within(self, start: int, end: int) -> TileSpan:
        """The part of it between two positions."""
        first, last = max(self.start, start), min(self.end, end)
        return TileSpan(first, last - first, self.tile, self.offset + first - self.start)


class Log:
    __slots__ = ("_chain", "_starts", "ids", "tiles")

    def __init__(self, ids: Sequence[int] = (), tiles: Sequence[TileSpan] = ()) -> None:
        self.ids = list(ids)
        self.tiles = list(tiles)
        self._starts = [span.start for span in self.tiles]
        self._chain: list[bytes] = [b""]  # digest of the first n blocks

    def __len__(self) -> int:
        return len(self.ids)

    @staticmethod
    def of(prompt: Prompt, store: TileStore) -> Log:
        """A prompt as the processor makes it."""
        spans: list[TileSpan] = []
        for image in prompt.images:
            count = image.length // len(image.keys)
            for n, (key, pixels) in enumerate(zip(image.keys, image.tiles, strict=True)):
                spans.append(TileSpan(image.start + n * count, count, store.get(key, pixels)))
        return Log(prompt.ids, spans)

    def copy(self) -> Log:
        other = Log(self.ids, self.tiles)
        other._chain = list(self._chain)
        return other

    def append(self, token: int) -> None:
        self.ids.append(token)

    def extend(self, other: Log) -> None:
        shift = len(self)
        for span in other.tiles:
            self.tiles.append(TileSpan(span.start + shift, span.count, span.tile, span.offset))
            self._starts.append(span.start + shift)
        self.ids.extend(other.ids)

    def cut(self, start: int, end: int) -> Log:
        """A piece of it, as a log of its own."""
        spans = [TileSpan(span.start - start, span.count, span.tile, span.offset) for span in self.shown(start, end)]
        return Log(self.ids[start:end], spans)

    def truncate(self, length: int) -> None:
        spans = self.shown(0, length)
        del self.ids[length:]
        self.tiles, self._starts = spans, [span.start for span in spans]
        del self._chain[length // BLOCK + 1 :]

    def shown(self, start: int, end: int) -> list[TileSpan]:
        """The tiles, or parts of tiles, that the tokens from `start` to `end` show."""
        found: list[TileSpan] = []
        for span in self.tiles[max(0, bisect_right(self._starts, start) - 1) :]:
            if span.start >= end:
                break
            if span.end > start:
                found.append(span.within(start, end))
        return found

    # ------------------------------------------------------------------------------------------------ comparing

    def chain(self, length: int | None = None) -> list[bytes]:
        """Digests of the first 0, 1, 2, ... whole blocks; equal digests mean equal tokens and equal tiles."""
        blocks = (len(self) if length is None else length) // BLOCK
        for n in range(len(self._chain) - 1, blocks):
            start = n * BLOCK
            digest = blake2b(self._chain[-1], digest_size=16)
            digest.update(np.array(self.ids[start : start + BLOCK], np.int32).tobytes())
            for span in self.shown(start, start + BLOCK):
                digest.update(span.tile.key + np.array([span.start - start, span.count, span.offset]).tobytes())
            self._chain.append(digest.digest())
        return self._chain[: blocks + 1]

    def common(self, other: Log, start: int = 0) -> int:
        """How many leading tokens are the same, given that the first `start` are."""
        limit = min(len(self), len(other))
        same = limit
        if self.ids[start:limit] != other.ids[start:limit]:
            same = next(n for n in range(start, limit) if self.ids[n] != other.ids[n])
        mine, theirs = self.shown(start, same), other.shown(start, same)
        for a, b in zip(mine, theirs, strict=False):
            if (a.tile.key, a.start, a.offset) != (b.tile.key, b.start, b.offset):
                return min(a.start, b.start)
            same = min(same, a.end, b.end) if a.count != b.count else same
        return same
