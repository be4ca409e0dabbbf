"""Samples of sparse pictures: instead of whole tiles they hold the groups that are read.

    tiles    [n, 3, 320, 320]    shown: (tile, group of it)            as the processor tells it
    groups   [K, 3, 32, 32]      shown: (group, 0)                     as the tower reads it; `looks`: where each lies

What the tower makes of a group depends on the others that are read of its tile, and these follow from the stream: image
tokens that stand side by side are one look, for each tile begins with its sign. Several sequences that look alike share
it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from holotron.model.processor.tiling import ImageConfig
from holotron.training.samples import Sample


def condensed(sample: Sample, image: ImageConfig, image_token: int) -> Sample:
    """The same sample with groups in place of tiles; labels go along."""
    found: dict[tuple[int, bytes], int] = {}  # a tile and the groups read of it, to the first of them among all
    parts: list[tuple[int, np.ndarray]] = []
    total, sequences = 0, []
    for sequence in sample.sequences:
        rows = np.zeros_like(sequence.shown)
        for start, end in stretches_of(sequence.shown, sequence.ids, image_token):
            tile, groups = int(sequence.shown[start, 0]), sequence.shown[start:end, 1]
            first = found.setdefault((tile, groups.tobytes()), total)
            if first == total:
                parts.append((tile, groups))
                total += len(groups)
            rows[start:end, 0] = np.arange(first, first + len(groups))
        sequences.append(replace(sequence, shown=rows))
    looks = [np.stack([np.full_like(groups, n), groups], 1) for n, (_, groups) in enumerate(parts)]
    slots = None
    if sample.slots is not None:
        mine = [_labels(sample.slots[tile], groups, image) for tile, groups in parts if tile < len(sample.slots)]
        slots = np.concatenate(mine) if mine else None
    return replace(
        sample,
        tiles=_squares(sample.tiles, parts, image),
        sequences=tuple(sequences),
        looks=np.concatenate([np.empty((0, 2), np.int32), *looks]).astype(np.int32),
        slots=slots,
        sizes=None,
    )


def stretches_of(shown: np.ndarray, ids: np.ndarray, image_token: int) -> list[tuple[int, int]]:
    """A sequence's image tokens, counted from the first, as stretches that show one tile each: a stretch ends with
    whatever stands between image tokens, with the next tile, and where the same one begins again."""
    if not len(shown):
        return []
    new = np.diff(np.flatnonzero(ids == image_token)) != 1
    new |= (np.diff(shown[:, 0]) != 0) | (np.diff(shown[:, 1]) <= 0)
    edges = (np.flatnonzero(new) + 1).tolist()
    return list(zip([0, *edges], [*edges, len(shown)], strict=True))


def _squares(tiles: Tensor, parts: list[tuple[int, np.ndarray]], image: ImageConfig) -> Tensor:
    step = image.patch_size * image.downsample
    side = image.tile_size // step
    if not parts:
        return torch.empty((0, 3, step, step), dtype=torch.uint8)
    squares = tiles.view(-1, 3, side, step, side, step).permute(0, 2, 4, 1, 3, 5)
    tile = np.repeat([tile for tile, _ in parts], [len(groups) for _, groups in parts])
    group = np.concatenate([groups for _, groups in parts]).astype(np.int64)
    return squares[torch.from_numpy(tile), torch.from_numpy(group // side), torch.from_numpy(group % side)]


def _labels(slots_RC: np.ndarray, groups: np.ndarray, image: ImageConfig) -> np.ndarray:
    """What is written in each group, laid out as in a tile of that size."""
    per = image.downsample
    side = len(slots_RC) // per
    cells = slots_RC.reshape(side, per, side, -1).transpose(0, 2, 1, 3)
    return cells[groups // side, groups % side]
