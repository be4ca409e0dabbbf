"""Greedy replies of the network being trained, many at once. For evaluation: serving is the engine's work."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import torch
from torch import Tensor

from holotron.model.positions import Shown
from holotron.training.batches import pictures_shown
from holotron.training.learner import Learner
from holotron.training.samples import TokenSequence

LONGEST = 48  # tokens; a reply of a small policy is a line


@torch.no_grad()
def greedy(
    learner: Learner, prompts: Sequence[tuple[Tensor, TokenSequence]], eos: Collection[int], longest: int = LONGEST
) -> list[list[int]]:
    """The reply to each prompt, given as tiles and a sequence of which the part before its first reply is read."""
    model = learner.model
    device = model.device
    ids = [torch.from_numpy(sequence.ids[: sequence.prompt]).long().to(device) for _, sequence in prompts]
    rows = _rows(learner, prompts)
    state = model.new_state(len(prompts), capacity=max(map(len, ids)) + longest)
    x, deep = model.merge(torch.cat(ids), rows)
    layout = state.advance([len(t) for t in ids], None, _pictures(learner, prompts))
    hidden = model.language_model(x, layout, state.cache, deep)[layout.starts_S1[1:].long() - 1]
    replies: list[list[int]] = [[] for _ in prompts]
    running = set(range(len(prompts)))
    for _ in range(longest):
        chosen = model.language_model.logits(hidden).argmax(-1)
        for n, index in enumerate(chosen.tolist()):
            if n in running and index in eos:
                running.discard(n)
            elif n in running:
                replies[n].append(index)
        if not running:
            break
        layout = state.advance([1] * len(prompts))
        hidden = model.language_model(model.language_model.embed(chosen), layout, state.cache)
    return replies


def _pictures(learner: Learner, prompts: Sequence[tuple[Tensor, TokenSequence]]) -> list[list[Shown]] | None:
    config = learner.model.config
    if not config.axes:
        return None
    return [pictures_shown(sequence, tiles, config, sequence.prompt) for tiles, sequence in prompts]


def _rows(learner: Learner, prompts: Sequence[tuple[Tensor, TokenSequence]]) -> Tensor | None:
    """What the image placeholders before every first reply stand for, one after the other."""
    config = learner.model.config
    seen: list[Tensor] = []  # tiles
    places: list[np.ndarray] = []
    for tiles, sequence in prompts:
        count = int((sequence.ids[: sequence.prompt] == config.tokens.image).sum())
        if not count:
            continue
        used, place = np.unique(sequence.shown[:count, 0], return_inverse=True)
        per_tile = config.image.tokens(*tiles.shape[-2:])
        places.append((sum(map(len, seen)) + place) * per_tile + sequence.shown[:count, 1])
        seen.append(tiles[used])
    if not seen:
        return None
    rows = learner.model.encode_tiles(learner.pixels(torch.cat(seen).to(learner.model.device)))
    return rows[torch.from_numpy(np.concatenate(places)).to(rows.device)]
