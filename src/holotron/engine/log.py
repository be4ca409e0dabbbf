"""The token log of a session: what was said and shown, in order. The one thing that is never recomputed or guessed.

Image placeholders all carry the same token id, so each stretch of them also names the tile it shows. Two logs are
equal only if their tiles are: comparison and hashing go by tile content.

A screenshot may be told as changes to the one before (see `processor.deltas`). What has been shown of the screen so far
follows from the log alone (`screen_parts`), so it is right after a fork, a rewind or a compaction too. So do the
positions that a model with M-RoPE rotates by (`shifts`, see `model.positions`): nothing else in the engine knows them.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from holotron.model.positions import Shown
from holotron.model.processor import ImageConfig, Prompt, PromptImage, Run, ShownScreen
from holotron.model.processor.deltas import copy_groups, screen_key
from holotron.model.processor.sparse import by_tile

BLOCK = 64  # tokens per link of the hash chain


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Tile:
    """Pixels for the vision tower, kept for as long as a log shows them."""

    key: bytes  # by content, and by the groups that are read of it
    pixels: Tensor  # uint8 [3, height, width]
    grid: tuple[int, int] = (1, 1)  # rows and columns of its tokens
    groups: np.ndarray | None = None  # int32: those that the tower reads, of a sparse picture; None: all

    @property
    def rows(self) -> int:
        """What the tower makes of it."""
        return self.grid[0] * self.grid[1] if self.groups is None else len(self.groups)


def tile_key(pixels: bytes, scope: bytes, groups: np.ndarray | None = None) -> bytes:
    """The key of a tile: of its pixels (which have one already), in this scope, and of the groups that are read."""
    read = b"" if groups is None else groups.tobytes()
    return blake2b(scope + pixels + read, digest_size=16).digest() if scope or read else pixels


class TileStore:
    """One `Tile` for all logs that show the same pixels."""

    def __init__(self, image: ImageConfig | None = None) -> None:
        self._step = image.patch_size * image.downsample if image is not None else 1  # pixels of a token's side
        self.sparse = image is not None and image.sparse
        self._tiles: WeakValueDictionary[bytes, Tile] = WeakValueDictionary()
        self._lock = threading.Lock()

    def get(self, key: bytes, pixels: Tensor, scope: bytes = b"", groups: np.ndarray | None = None) -> Tile:
        """By content and scope: what the vision tower made of another scope's pixels is not used, see `prefix`."""
        return self.keep(tile_key(key, scope, groups), pixels, groups)

    def keep(self, key: bytes, pixels: Tensor, groups: np.ndarray | None = None) -> Tile:
        """By a key that has its scope in it already."""
        with self._lock:
            tile = self._tiles.get(key)
            if tile is None:
                grid = (pixels.shape[-2] // self._step, pixels.shape[-1] // self._step)
                tile = Tile(key, pixels.clone(), grid, groups)  # a view would keep the whole image alive
                self._tiles[key] = tile
            return tile

    def __len__(self) -> int:
        return len(self._tiles)

    @property
    def nbytes(self) -> int:
        with self._lock:  # the loop counts while workers add to it
            tiles = list(self._tiles.values())
        return sum(tile.pixels.nbytes for tile in tiles)


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

    @property
    def shown(self) -> Shown:
        return Shown(self.start, self.count, self.offset, *self.tile.grid)

    def continues(self, other: TileSpan) -> bool:
        """Whether it goes on where the other ends, as two parts of one stretch."""
        return self.tile.key == other.tile.key and self.start == other.end and self.offset == other.offset + other.count


@dataclass(frozen=True, slots=True)
class Picture:
    """A screenshot in the log: where it stands, and what it does to the screen that was there before."""

    start: int
    end: int
    size: tuple[int, int]
    runs: tuple[Run, ...] | None  # None: the whole screen; else the changes that its spans show
    base: bytes | None  # key of the screen that is changed
    key: bytes  # of the screen after it; empty: not known, a part of the picture is gone

    def moved(self, by: int) -> Picture:
        return replace(self, start=self.start + by, end=self.end + by)

    def within(self, start: int, end: int) -> Picture:
        whole = start <= self.start and self.end <= end
        return self if whole else replace(self, start=max(start, self.start), end=min(end, self.end), key=b"")


class Log:
    __slots__ = ("_before", "_chain", "_starts", "ids", "pictures", "shift", "tiles")

    def __init__(
        self, ids: Sequence[int] = (), tiles: Sequence[TileSpan] = (), pictures: Sequence[Picture] = ()
    ) -> None:
        self.ids = list(ids)
        self.tiles: list[TileSpan] = []
        self.pictures = list(pictures)
        self.shift = 0  # between the index of the next word and its position
        self._starts: list[int] = []  # of every span
        self._before: list[int] = []  # and the shift before it
        for span in tiles:
            self._show(span)
        self._chain: list[bytes] = [b""]  # digest of the first n blocks

    def __len__(self) -> int:
        return len(self.ids)

    @staticmethod
    def of(prompt: Prompt, store: TileStore, scope: bytes = b"") -> Log:
        """A prompt as the processor makes it."""
        spans: list[TileSpan] = []
        pictures: list[Picture] = []
        for image in prompt.images:
            if store.sparse and image.runs is not None:
                spans += _sparse_spans(image, store, scope)
            elif image.runs is None:
                count = image.length // len(image.keys)
                for n, (key, pixels) in enumerate(zip(image.keys, image.tiles, strict=True)):
                    spans.append(TileSpan(image.start + n * count, count, store.get(key, pixels, scope)))
            else:
                for run, place in zip(image.runs, image.places, strict=True):
                    tile = store.get(image.keys[run.tile], image.tiles[run.tile], scope)
                    spans.append(TileSpan(image.start + place, run.count, tile, run.first))
            key = image.screen.key if image.screen is not None else screen_key(image.size, image.keys)
            end = image.start + image.length
            changes = None if store.sparse and image.base is None else image.runs
            pictures.append(Picture(image.start, end, image.size, changes, image.base, key))
        return Log(prompt.ids, spans, pictures)

    def copy(self) -> Log:
        other = Log(self.ids, self.tiles, self.pictures)
        other._chain = list(self._chain)
        return other

    def append(self, token: int) -> None:
        self.ids.append(token)

    def extend(self, other: Log) -> None:
        length = len(self)
        for span in other.tiles:
            self._show(TileSpan(span.start + length, span.count, span.tile, span.offset))
        self.pictures += [picture.moved(length) for picture in other.pictures]
        self.ids.extend(other.ids)

    def _show(self, span: TileSpan) -> None:
        """One more stretch of image tokens. What was cut apart is put together again: positions and hashes must not
        depend on where a picture was once cut."""
        if self.tiles and span.continues(self.tiles[-1]):
            last = self.tiles.pop()
            self.shift = self._before.pop()
            self._starts.pop()
            span = TileSpan(last.start, last.count + span.count, span.tile, last.offset)
        self.tiles.append(span)
        self._starts.append(span.start)
        self._before.append(self.shift)
        self.shift = span.shown.after(self.shift)

    def shifts(self, start: int, end: int) -> np.ndarray:
        """int64 [3, end - start]: how far time, row and column of these tokens are from their indices. `end` may lie
        behind the end of the log: what is generated is text."""
        first = max(0, bisect_right(self._starts, start) - 1)
        result = np.full((3, end - start), self._before[first] if self.tiles else 0, np.int64)
        for span, before in zip(self.tiles[first:], self._before[first:], strict=True):
            if span.start >= end:
                break
            own, after = span.shown.shifts(before), span.shown.after(before)
            skipped = max(0, start - span.start)
            result[:, max(0, span.start - start) : max(0, span.end - start)] = own[:, skipped : end - span.start]
            result[:, max(0, span.end - start) :] = after
        return result

    def cut(self, start: int, end: int) -> Log:
        """A piece of it, as a log of its own."""
        spans = [TileSpan(span.start - start, span.count, span.tile, span.offset) for span in self.shown(start, end)]
        return Log(self.ids[start:end], spans, [picture.moved(-start) for picture in self._pictures(start, end)])

    def truncate(self, length: int) -> None:
        spans = self.shown(0, length)
        self.pictures = self._pictures(0, length)
        del self.ids[length:]
        kept = len(spans)
        del self._starts[kept:], self._before[kept:]
        self.tiles = spans
        self.shift = spans[-1].shown.after(self._before[-1]) if spans else 0
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

    def tiles_behind(self, position: int) -> list[Tile]:
        """Of a picture that is cut by a position, the tiles it shows from there on."""
        for picture in reversed(self.pictures):
            if picture.end <= position:
                break
            if picture.start < position:
                return [span.tile for span in self.shown(position, picture.end)]
        return []

    # ---------------------------------------------------------------------------------------------- the screen so far

    def _pictures(self, start: int, end: int) -> list[Picture]:
        return [picture.within(start, end) for picture in self.pictures if start < picture.end and picture.start < end]

    def follows(self, other: Log) -> bool:
        """Are the first changes this log tells changes to the screen that the other one ends with?"""
        base = self.pictures[0].base if self.pictures else None
        return base is None or bool(other.pictures and other.pictures[-1].key == base)

    def screen_parts(self) -> list[tuple[Picture, list[TileSpan]]]:
        """The last whole screenshot and the changes since, with the tiles they show. Nothing, if what is in the log
        does not give the whole screen."""
        parts: list[tuple[Picture, list[TileSpan]]] = []
        wanted: bytes | None = None
        for picture in reversed(self.pictures):
            if not picture.key or wanted not in (None, picture.key):
                return []
            parts.append((picture, self.shown(picture.start, picture.end)))
            if picture.runs is None:
                return parts[::-1]
            wanted = picture.base
        return []

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


def _sparse_spans(image: PromptImage, store: TileStore, scope: bytes) -> Iterator[TileSpan]:
    """One stretch for each tile of which something is told."""
    places = dict[int, int]()
    for run, place in zip(image.runs or (), image.places, strict=True):
        places.setdefault(run.tile, place)
    for tile, groups in by_tile(image.runs or ()).items():
        shown = store.get(image.keys[tile], image.tiles[tile], scope, groups)
        yield TileSpan(image.start + places[tile], len(groups), shown)


def compose_screen(parts: Sequence[tuple[Picture, list[TileSpan]]], config: ImageConfig) -> ShownScreen | None:
    """The screen that a log has shown (see `Log.screen_parts`). Copies pixels: not for the loop's thread."""
    if not parts:
        return None
    (first, spans), *changes = parts
    step = config.patch_size * config.downsample
    tiles = torch.from_numpy(np.stack([span.tile.pixels.numpy() for span in spans]))
    for picture, shown in changes:
        runs = picture.runs or ()
        if config.sparse:  # told exactly, though not all that has changed is told: what is blank goes on from the rest
            for number, span in zip(dict.fromkeys(run.tile for run in runs), shown, strict=True):
                tiles[number] = span.tile.pixels
        else:
            for run, span in zip(runs, shown, strict=True):
                copy_groups(tiles[run.tile], span.tile.pixels, run, step)
    return ShownScreen(first.size, tiles, parts[-1][0].key)
