"""Sparse pictures: of a screen, only what is drawn on it. See docs/sparse-pictures.md.

Half of most pages is paper. A *group* is the square of pixels that becomes one token; one that has a single colour, and
goes on from its neighbour on the left or above in that colour, is *blank* and left out: of the token stream, and of the
vision tower, which reads only the groups that are told. With deltas a screen is told as what has changed of it, and
there a changed group is blank only if the neighbour that it goes on from is told as changed as well.

    <img> 0 IMAGE IMAGE IMAGE  1 IMAGE IMAGE IMAGE IMAGE  5 IMAGE </img>       a screen: tile, its groups; tile, ...
    <img> = 1 IMAGE IMAGE  5 IMAGE </img>                                       the next one, as changes

Inside a tile groups need no addresses: the tower knows where each lies and says so in its row. Everything here is a
function of two pictures.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from holotron.errors import ConfigError
from holotron.model.processor.deltas import Cut, Deltas, Run, ShownScreen, changed_groups
from holotron.model.processor.tiling import ImageConfig


def cut_sparse(now: ShownScreen, deltas: Deltas | None, config: ImageConfig) -> Cut:
    """What of a picture has to be told: all that is not blank, or of that what has changed since the screen before."""
    if deltas is not None and deltas.tolerance:
        raise ConfigError(
            "sparse pictures are told exactly: the tolerance of their deltas is 0, and screenshots are PNG"
        )
    before = deltas.screen if deltas is not None else None
    if before is None or before.size != now.size or before.tiles.shape != now.tiles.shape:
        changed, base = None, None
    else:
        changed, base = changed_groups(before.tiles, now.tiles, config), before.key
    runs = tuple(runs_of(told_groups(now.tiles, changed, config)))
    return Cut(runs, base, now)


def told_groups(tiles: Tensor, changed: Tensor | None, config: ImageConfig) -> Tensor:
    """bool [n, groups of a tile]: changed (None: all) and not blank."""
    step = config.patch_size * config.downsample
    pixels = tiles.cpu().contiguous().numpy()
    colour = pixels[:, :, ::step, ::step]  # of the first pixel of each group
    flat = _flat(pixels, colour, step)
    told = np.ones_like(flat) if changed is None else changed.cpu().numpy().reshape(flat.shape)
    blank = np.zeros_like(flat)
    for axis in (2, 1):  # the neighbour on the left, the one above
        here, there = _behind(axis), _before(axis)
        same = (colour[:, :, *here[1:]] == colour[:, :, *there[1:]]).all(1)
        blank[here] |= flat[here] & flat[there] & same & told[there]
    return torch.from_numpy((told & ~blank).reshape(len(tiles), -1))


def _flat(pixels: np.ndarray, colour: np.ndarray, step: int) -> np.ndarray:
    """bool [n, rows, columns]: groups of one colour. Eight values at a time, where a group is so wide."""
    count, colours, height, width = pixels.shape
    side = step
    if step % 8 == 0:
        pixels, colour, side = pixels.view(np.uint64), colour * np.uint64(0x0101010101010101), step // 8
    squares = pixels.reshape(count, colours, height // step, step, width // step, side)
    other = np.bitwise_or.reduce(squares ^ colour[:, :, :, None, :, None], axis=3)  # line by line: the quick way round
    flat: np.ndarray = ~other.any(axis=(1, 4))
    return flat


def _behind(axis: int) -> tuple[slice, ...]:
    return tuple(slice(1, None) if n == axis else slice(None) for n in range(3))


def _before(axis: int) -> tuple[slice, ...]:
    return tuple(slice(None, -1) if n == axis else slice(None) for n in range(3))


def runs_of(told: Tensor) -> Iterator[Run]:
    """Told groups as runs without gaps, tile after tile."""
    for tile, groups in enumerate(told.numpy()):
        yield from runs_of_groups(tile, np.flatnonzero(groups))


def runs_of_groups(tile: int, groups: np.ndarray) -> Iterator[Run]:
    """Some groups of a tile, in order, as runs without gaps."""
    starts = np.flatnonzero(np.diff(groups, prepend=-2) != 1)
    for first, end in pairwise([*starts.tolist(), len(groups)]):
        yield Run(tile, int(groups[first]), end - first)


def by_tile(runs: tuple[Run, ...]) -> dict[int, np.ndarray]:
    """The groups that are told of each tile of which any is, int32, in order."""
    found: dict[int, list[np.ndarray]] = {}
    for run in runs:
        found.setdefault(run.tile, []).append(np.arange(run.first, run.first + run.count, dtype=np.int32))
    return {tile: np.concatenate(parts) for tile, parts in found.items()}
