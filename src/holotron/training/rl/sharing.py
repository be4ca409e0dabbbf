"""Members of a group begin alike: the same goal, the same first screen, often the same first steps. In a pass of the
trainer, what sequences have in common is computed once.

    batch = share(batch)           # the same hidden vectors, losses and gradients, from fewer rows
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from holotron.kernels.shared import Shared
from holotron.model.config import DecoderConfig
from holotron.training.batches import Batch


def can_share(config: DecoderConfig) -> bool:
    """Whether all layers in which tokens meet know about it; Gated DeltaNet does not."""
    return "G" not in config.pattern


def share(batch: Batch) -> Batch:
    """The batch with every beginning left out that an earlier sequence of it has too. For the loss of replies; dense
    losses ask every token and have no use for it."""
    ids = batch.ids_T.cpu().numpy()
    rows = np.full(len(ids), -1)
    places = batch.places_i.cpu().numpy()
    rows[places] = batch.rows_i.cpu().numpy()
    spread, first = different_tokens(np.stack([ids, rows], 1), batch.lengths)
    if len(first) == len(ids):
        return batch
    kept = np.zeros(len(ids), bool)
    kept[first] = True
    shown = np.flatnonzero(kept[places])

    def send(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(batch.ids_T.device)

    first_U, shown_i = send(first), send(shown)
    return replace(
        batch,
        ids_T=batch.ids_T.index_select(0, first_U),
        places_i=send(spread[places[shown]]),
        rows_i=batch.rows_i.index_select(0, shown_i),
        numbers_i=batch.numbers_i.index_select(0, shown_i),
        before_l=send(spread).index_select(0, batch.before_l),
        shared=Shared(send(spread), first_U),
    )


def different_tokens(tokens_Tk: np.ndarray, lengths: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """For each token which of the different ones it is, and where each of those is met first. Tokens are the same where
    they and all before them in their sequences are."""
    spread = np.empty(len(tokens_Tk), np.int64)
    first: list[np.ndarray] = []
    starts = np.cumsum([0, *lengths])
    different = 0
    for n, (start, length) in enumerate(zip(starts, lengths, strict=False)):
        mine, common, whose = tokens_Tk[start : start + length], 0, 0
        for before, other in zip(starts[:n], lengths, strict=False):
            both = min(length, other)
            equal = (mine[:both] == tokens_Tk[before : before + both]).all(1)
            alike = both if equal.all() else int(equal.argmin())
            if alike > common:
                common, whose = alike, int(before)
        spread[start : start + common] = spread[whose : whose + common]
        spread[start + common : start + length] = different + np.arange(length - common)
        first.append(np.arange(start + common, start + length))
        different += length - common
    return spread, np.concatenate(first) if first else np.empty(0, np.int64)
