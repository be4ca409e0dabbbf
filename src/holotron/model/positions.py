"""Positions of M-RoPE: where pictures stand among words.

A word has one position, the number of steps before it. A token of a picture has three: the time of the picture, which
is the position a word would have in its place, and beside it its row and its column, counted from there. The word
behind a picture goes on behind its longer side, so a picture of 4 x 6 tokens takes 6 steps, not 24:

    token            the  [   a   b   c   d   e   f   ]   red              a picture of 2 rows, 3 columns
    time               0   1   2   2   2   2   2   2   5    6
    row                0   1   2   2   2   3   3   3   5    6
    column             0   1   2   3   4   2   3   4   5    6

All of it follows from where pictures begin and how large they are, so nobody keeps positions: an engine's log, a packed
batch and a plain state hold the *shift* between a token's index and its position instead, which pictures alone change.

A picture that is shown in part (told as changes, or cut off by a rewind) stands where the whole would: row and column
are those within the whole picture, and what follows it goes on behind the whole picture's longer side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np


@dataclass(frozen=True, slots=True)
class Shown:
    """`count` tokens from `start` on show a picture of so many rows and columns, from its token `offset` on."""

    start: int
    count: int
    offset: int
    rows: int
    columns: int

    @property
    def end(self) -> int:
        return self.start + self.count

    def after(self, before: int) -> int:
        """The shift behind it, given the one before it."""
        return before + max(self.rows, self.columns) - self.count

    def shifts(self, before: int) -> np.ndarray:
        """Of its own tokens, [3, count]."""
        n = np.arange(self.count)
        row, column = np.divmod(self.offset + n, self.columns)
        return np.stack([before - n, before - n + row, before - n + column])


def shifts(length: int, pictures: Iterable[Shown], before: int = 0) -> tuple[np.ndarray, int]:
    """int64 [3, length]: how far time, row and column of each token are from its index; and the shift behind them. The
    pictures are in order."""
    result = np.full((3, length), before, np.int64)
    for picture in pictures:
        result[:, picture.start : picture.end] = picture.shifts(before)
        before = picture.after(before)
        result[:, picture.end :] = before
    return result, before


def packed_shifts(
    lengths: Sequence[int], pictures: Sequence[Sequence[Shown]], before: Sequence[int] | None = None
) -> tuple[np.ndarray, list[int]]:
    """The same for sequences in one row: int64 [3, T], and the shift behind each."""
    before = before if before is not None else [0] * len(lengths)
    parts = [shifts(*sequence) for sequence in zip(lengths, pictures, before, strict=True)]
    return np.concatenate([part for part, _ in parts], axis=1), [after for _, after in parts]


def stretches(places: np.ndarray, tiles: np.ndarray, rows: np.ndarray) -> Iterator[tuple[int, int, int, int]]:
    """Image tokens as uninterrupted stretches of one tile: where each begins, how long it is, its tile, and the row of
    the tile that it begins with."""
    new = (np.diff(places, prepend=-2) != 1) | (np.diff(tiles, prepend=-1) != 0) | (np.diff(rows, prepend=-2) != 1)
    first = np.flatnonzero(new)
    for begin, end in pairwise([*first, len(places)]):
        yield int(places[begin]), int(end - begin), int(tiles[begin]), int(rows[begin])
