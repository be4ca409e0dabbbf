"""Groups to forward passes: sequences packed without padding, and beside every learnt token what the loss needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from holotron.engine.sampler import forbidden
from holotron.errors import InputError
from holotron.model.config import ModelConfig
from holotron.training.batches import Batch, pack
from holotron.training.rl.groups import Group
from holotron.training.rl.record import NO_MASKS, Play, Rollout
from holotron.training.samples import TokenSequence, joined

Weighted = tuple[Rollout, Play, float]  # a sequence, its episode, its advantage


@dataclass(frozen=True)
class Pass:
    """One forward pass. Legend: l learnt tokens."""

    batch: Batch
    advantages_l: Tensor
    logprobs_l: Tensor  # the engine's
    versions_l: Tensor
    masks_uW: Tensor  # what grammars allowed, 32 tokens a word
    mask_l: Tensor | None  # which of them held for the token; None: there was no grammar

    def forbidden(self, vocab: int) -> Tensor | None:
        """What could not have been said instead of each token, [l, vocab]."""
        return None if self.mask_l is None else forbidden(self.masks_uW, vocab).index_select(0, self.mask_l)


def split(groups: Sequence[Group], budget: int) -> list[list[Weighted]]:
    """Sequences into as few passes as a greedy hand manages, the longest first; each pass holds at most `budget`
    tokens."""
    passes: list[tuple[int, list[Weighted]]] = []
    sequences = [item for group in groups for item in group.plays()]
    for item in sorted(sequences, key=lambda item: -len(item[1])):
        size = len(item[1])
        if size > budget:
            raise InputError(
                f"an episode has {size:,} tokens and update.tokens is {budget:,}; raise it, or lower tasks.steps"
            )
        for n, (used, mine) in enumerate(passes):
            if used + size <= budget:
                passes[n] = (used + size, [*mine, item])
                break
        else:
            passes.append((size, [item]))
    return [mine for _, mine in passes]


def make_pass(items: Sequence[Weighted], config: ModelConfig, device: torch.device) -> Pass:
    """Tiles that several sequences look at are encoded once."""
    tiles: dict[bytes, Tensor] = {}
    for rollout, play, _ in items:
        tiles |= {key: rollout.tiles[key] for key in play.tiles}
    place = {key: n for n, key in enumerate(tiles)}
    sequences = [
        TokenSequence(play.ids_T, play.learn_T, play.shown).moved(np.asarray([place[key] for key in play.tiles], int))
        for _, play, _ in items
    ]
    size = config.image.tile_size
    none = torch.empty((0, 3, size, size), dtype=torch.uint8)
    pixels, sizes = joined([tile[None] for tile in tiles.values()] or [none])
    batch = pack([pixels.to(device)], [sequences], [None], config=config, device=device, sizes=[sizes])

    def spread(parts: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.concatenate(parts)).to(device)

    first_mask = np.cumsum([0, *(len(play.masks_uW) for _, play, _ in items)])
    masks = [play.masks_uW for _, play, _ in items if len(play.masks_uW)]
    mask_of = [n + play.mask_l for n, (_, play, _) in zip(first_mask, items, strict=False) if play.mask_l is not None]
    return Pass(
        batch,
        spread([np.full(len(play.logprobs_l), advantage, np.float32) for _, play, advantage in items]),
        spread([play.logprobs_l for _, play, _ in items]),
        spread([play.versions_l.astype(np.int64) for _, play, _ in items]),
        spread(masks or [NO_MASKS]),
        spread(mask_of) if mask_of else None,
    )
