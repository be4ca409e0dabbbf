"""Sequences of similar length together, as the references take them in training: one call for each bucket.

A batch holds `counts[s]` items of sequence s, side by side (tokens for attention, chunks for the scan). Filled up to
the longest of their bucket, sequences become a table; within a bucket each is at most twice as long as another.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from holotron.kernels.layout import upload


class Bucket(NamedTuple):
    items_i: Tensor | None  # which of the batch's items belong to it; None: all of them, in order
    place_i: Tensor  # where those sit in a table of `sequences` x `longest`
    sequences: int
    longest: int

    def take(self, t: Tensor) -> Tensor:
        """The bucket's own items of a batch."""
        return t if self.items_i is None else t.index_select(0, self.items_i)

    def table(self, mine: Tensor) -> Tensor:
        """Its items as [sequences, longest, ...], zeros where a sequence has ended."""
        room = self.sequences * self.longest
        if len(mine) < room:
            mine = mine.new_zeros(room, *mine.shape[1:]).index_copy(0, self.place_i, mine)
        return mine.unflatten(0, (self.sequences, self.longest))

    def items(self, table: Tensor) -> Tensor:
        """Back from a table to items."""
        flat = table.flatten(0, 1)
        return flat if len(flat) == len(self.place_i) else flat.index_select(0, self.place_i)


@lru_cache(maxsize=8)  # the layers of one forward pass share them
def buckets(counts: tuple[int, ...], device: torch.device) -> list[Bucket]:
    count_S = np.asarray(counts)
    start_S = np.cumsum(count_S) - count_S
    # Boundaries start at the longest sequence, so a batch that fits into one bucket makes one.
    level_S = np.floor(np.log2(count_S.max() / count_S)).astype(np.int64)
    found = []
    for level in np.unique(level_S):
        mine = np.flatnonzero(level_S == level)
        own, longest = count_S[mine], int(count_S[mine].max())
        within = np.arange(own.sum()) - np.repeat(np.cumsum(own) - own, own)
        where = within + np.repeat(start_S[mine], own)
        items, place = upload([where, within + np.repeat(np.arange(len(mine)) * longest, own)], device)
        found.append(Bucket(None if len(mine) == len(counts) else items, place, len(mine), longest))
    return found
