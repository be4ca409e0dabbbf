"""Groups to forward passes: sequences packed without padding, and beside every learnt token what the loss needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from holotron.engine.sampler import forbidden
from holotron.errors import InputError
from holotron.model.config import ModelConfig
from holotron.training.batches import Batch, pack
from holotron.training.rl.groups import Group
from holotron.training.rl.record import NO_MASKS, Play, Rollout
from holotron.training.rl.sharing import can_share, share
from holotron.training.samples import Sample, TokenSequence, joined
from holotron.training.stream import as_read

Weighted = tuple[Rollout, Play, float]  # a sequence, its episode, its advantage


@dataclass(frozen=True)
class Pass:
    """One forward pass. Legend: l learnt tokens."""

    batch: Batch
    advantages_l: Tensor
    logprobs_l: Tensor  # the engine's
    masks_uW: Tensor  # what grammars allowed, 32 tokens a word
    mask_l: Tensor | None  # which of them held for the token; None: there was no grammar

    def forbidden(self, vocab: int) -> Tensor | None:
        """What could not have been said instead of each token, [l, vocab]."""
        return None if self.mask_l is None else forbidden(self.masks_uW, vocab).index_select(0, self.mask_l)


def split(groups: Sequence[Group], budget: int) -> list[list[Weighted]]:
    """Sequences into as few passes as a greedy hand manages, the longest first; each pass holds at most `budget`
    tokens. Those of a group come one after the other: in one pass, what they have in common is computed once."""
    passes: list[tuple[int, list[Weighted]]] = []
    together = [sorted(group.plays(), key=lambda item: -len(item[1])) for group in groups]
    together.sort(key=lambda plays: -max((len(play) for _, play, _ in plays), default=0))
    for item in (item for plays in together for item in plays):
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


def deal(passes: Sequence[list[Weighted]], ranks: int) -> list[list[list[Weighted]]]:
    """The passes of each rank, equally many for all: some may be empty. Every sequence takes along only what it looks
    at."""
    most = -(-len(passes) // ranks)
    padded = [*passes, *([] for _ in range(most * ranks - len(passes)))]
    if ranks == 1:
        return [padded]
    bare = [[(_bare(rollout, play), play, advantage) for rollout, play, advantage in items] for items in padded]
    return [bare[rank::ranks] for rank in range(ranks)]


def _bare(rollout: Rollout, play: Play) -> Rollout:
    return replace(rollout, plays=(), tiles={key: rollout.tiles[key].clone() for key in play.tiles})


def make_pass(items: Sequence[Weighted], config: ModelConfig, device: torch.device) -> Pass:
    """Tiles that several sequences look at are encoded once, and so is what sequences begin with in common."""
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
    sample = as_read(Sample(pixels, tuple(sequences), sizes=sizes), config.image, config.tokens.image)
    batch = pack(
        [sample.tiles.to(device)],
        [sample.sequences],
        [None],
        config=config,
        device=device,
        sizes=[sample.sizes],
        looks=[sample.looks],
    )
    if can_share(config.decoder):
        batch = share(batch)

    def spread(parts: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.concatenate(parts)).to(device)

    none_l = np.empty(0, np.float32)
    first_mask = np.cumsum([0, *(len(play.masks_uW) for _, play, _ in items)])
    masks = [play.masks_uW for _, play, _ in items if len(play.masks_uW)]
    mask_of = [n + play.mask_l for n, (_, play, _) in zip(first_mask, items, strict=False) if play.mask_l is not None]
    return Pass(
        batch,
        spread([none_l, *(np.full(len(play.logprobs_l), advantage, np.float32) for _, play, advantage in items)]),
        spread([none_l, *(play.logprobs_l for _, play, _ in items)]),
        spread(masks or [NO_MASKS]),
        spread(mask_of) if mask_of else None,
    )
