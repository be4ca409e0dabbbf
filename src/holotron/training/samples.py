"""What one sample is: pictures, token sequences that look at them, and perhaps labels for what is written there.

Several sequences may share a picture (ten questions about one page), which is then encoded once. Only the pictures are
torch tensors: worker processes hand those over through shared memory, and everything small by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from holotron.model.processor import PromptImage

NOTHING = np.empty((0, 2), np.int32)
NOWHERE = np.empty((0, 4), np.int32)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a click should land, and what is needed to understand one."""

    box: tuple[float, float, float, float]  # CSS pixels
    dialect: str
    image: tuple[int, int]
    viewport: tuple[int, int]


@dataclass(frozen=True, slots=True)
class TokenSequence:
    ids: np.ndarray  # int32 [T]
    learn: np.ndarray  # bool [T]: tokens the model should have written
    # int32 [i, 2]: for every image placeholder, in order, one of the sample's tiles and the row of it that it stands
    # for. A whole picture shows all rows of its tiles; one that is told as changes, those that changed.
    shown: np.ndarray = field(default_factory=lambda: NOTHING)
    numbers: np.ndarray | None = None  # int32 [i]: which tile of its picture that is
    prompt: int = 0  # tokens before the first reply
    target: Target | None = None  # of a first reply that is a click
    # int32 [p, 4]: questions to image tokens. The token that asks, its picture (the first of its placeholders, and how
    # many there are), and the one of them that is the answer. `points`: the token before a picture asks for the first
    # place that the reply to it will name. `aims`: the token before the first digit of a place asks for that place.
    points: np.ndarray = field(default_factory=lambda: NOWHERE)
    aims: np.ndarray = field(default_factory=lambda: NOWHERE)

    def __len__(self) -> int:
        return len(self.ids)

    def moved(self, places: np.ndarray) -> TokenSequence:
        """The same with tile n at place `places[n]`."""
        return replace(self, shown=np.stack([places[self.shown[:, 0]], self.shown[:, 1]], 1).astype(np.int32))


# int32 [n, 2]: height and width of each tile, where pictures of several sizes lie in one tensor, filled up at their
# lower and right edges. None: they all fill it.
Sizes = np.ndarray | None


@dataclass(frozen=True, slots=True)
class Sample:
    tiles: Tensor  # uint8 [n, 3, height, width]
    sequences: tuple[TokenSequence, ...] = ()
    slots: np.ndarray | None = None  # uint8 [labelled tiles, rows, columns * SLOTS], see `characters`
    name: str = ""  # of the task, for figures by task
    sizes: Sizes = None
    # int32 [K, 2]: of sparse pictures `tiles` are K groups of tiles, and this says for each which look it belongs to,
    # and where in its tile it lies; see `sparse`. A look is used by a sequence as a whole, or not at all.
    looks: np.ndarray | None = None


def rows_shown(images: Sequence[PromptImage]) -> np.ndarray:
    """What the placeholders of these pictures stand for, as `TokenSequence.shown` has it, with their tiles numbered one
    after the other."""
    parts = [NOTHING]
    first = 0
    for image in images:
        for run in image.shown:
            rows = np.arange(run.first, run.first + run.count, dtype=np.int32)
            parts.append(np.stack([np.full_like(rows, first + run.tile), rows], 1))
        first += len(image.tiles)
    return np.concatenate(parts)


def tile_numbers(images: Sequence[PromptImage]) -> np.ndarray:
    """Which tile of its picture each of these pictures' placeholders belongs to, as `TokenSequence.numbers` has it."""
    runs = [run for image in images for run in image.shown]
    return np.repeat(np.array([run.tile for run in runs], np.int32), [run.count for run in runs])


def without_unseen(sample: Sample) -> Sample:
    """The same without the tiles that no sequence shows anything of: nobody has to encode them."""
    used = np.unique(np.concatenate([NOTHING[:, 0], *(sequence.shown[:, 0] for sequence in sample.sequences)]))
    if len(used) == len(sample.tiles):
        return sample
    places = np.zeros(len(sample.tiles), np.int32)
    places[used] = np.arange(len(used))
    sequences = tuple(sequence.moved(places) for sequence in sample.sequences)
    sizes = sample.sizes[used] if sample.sizes is not None else None
    looks = sample.looks[used] if sample.looks is not None else None
    return replace(sample, tiles=sample.tiles[used], sequences=sequences, sizes=sizes, looks=looks)


def joined(tiles: Sequence[Tensor], sizes: Sequence[Sizes] | None = None) -> tuple[Tensor, Sizes]:
    """Tiles of any sizes in one tensor. Tensors without a tile have no say in how large it is."""
    sizes = sizes if sizes is not None else [None] * len(tiles)
    some = [(part, size) for part, size in zip(tiles, sizes, strict=True) if len(part)]
    shapes = {part.shape[1:] for part, _ in some}
    if len(shapes) <= 1 and all(size is None for _, size in some):
        return torch.cat([part for part, _ in some] or list(tiles[:1])), None
    height, width = (max(shape[axis] for shape in shapes) for axis in (1, 2))
    count = sum(len(part) for part, _ in some)
    result, own, first = some[0][0].new_zeros((count, 3, height, width)), np.empty((count, 2), np.int32), 0
    for part, size in some:
        mine = slice(first, first + len(part))
        result[mine, :, : part.shape[2], : part.shape[3]] = part
        own[mine] = size if size is not None else part.shape[2:]
        first += len(part)
    return result, own
