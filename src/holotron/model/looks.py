"""What the tower reads of sparse pictures: some groups of some tiles, packed one tile after the other.

    patches   | prefix  a a a a  b b b b | prefix  a a a a | ...       two groups of a tile, one of the next

A *look* is a tile with the groups that are read of it. The tower sees nothing else: attention stays inside a look, and
every group knows where in its tile it lies. See `processor.sparse`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from holotron.kernels.layout import upload
from holotron.model.config import ModelConfig, VisionConfig


@dataclass(frozen=True)
class Looks:
    """Legend: K groups of all looks, S looks, T what the tower works on (prefix tokens and patches), P patches."""

    counts: tuple[int, ...]  # groups of each look
    lengths: tuple[int, ...]  # of each in T
    groups_K: Tensor  # where in its tile each group lies
    of_K: Tensor  # which look it belongs to
    starts_S1: Tensor  # int32: where in T looks begin, and where the last ends
    order_T: Tensor  # where in (prefixes of all looks, patches of all groups) each of T is
    patches_P: Tensor  # where in T the patches are, group after group
    longest: int  # what a look can have of T: a bound that does not change from batch to batch


def patches_of_look(config: ModelConfig, groups: int) -> int:
    """What the tower works on for a look of so many groups, prefix tokens included."""
    assert isinstance(config.vision, VisionConfig), "only RADIO towers read groups"
    return config.vision.prefix + config.image.downsample**2 * groups


def looks_of(config: ModelConfig, counts: Sequence[int], groups: np.ndarray, device: torch.device) -> Looks:
    """So many groups of each of several tiles, and where in their tiles they lie."""
    assert isinstance(config.vision, VisionConfig), "only RADIO towers read groups"
    prefix, per_group = config.vision.prefix, config.image.downsample**2
    count_S = np.asarray(counts, np.int64)
    length_S = prefix + per_group * count_S
    starts = np.concatenate([[0], np.cumsum(length_S)])
    of_K = np.repeat(np.arange(len(count_S)), count_S)
    patches = np.arange(len(groups) * per_group) + np.repeat((of_K + 1) * prefix, per_group)
    order = np.empty(int(starts[-1]), np.int64)
    order[patches] = len(count_S) * prefix + np.arange(len(patches))
    order[(starts[:-1, None] + np.arange(prefix)).ravel()] = np.arange(len(count_S) * prefix)
    arrays: list[np.ndarray] = [np.asarray(groups, np.int64), of_K, starts.astype(np.int32), order, patches]
    groups_K, looks_K, starts_S1, order_T, patches_P = upload(arrays, device)
    longest = patches_of_look(config, config.image.tokens_per_tile)
    lengths = tuple(length_S.tolist())
    return Looks(tuple(map(int, counts)), lengths, groups_K, looks_K, starts_S1, order_T, patches_P, longest)
