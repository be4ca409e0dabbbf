"""Greedy replies of the network being trained, many at once. For evaluation: serving is the engine's work."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from holotron.model.config import ModelConfig
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
    pictures = [tiles[list(sequence.tiles[: _shown(sequence, model.config)])] for tiles, sequence in prompts]
    rows = model.encode_tiles(learner.pixels(torch.cat(pictures).to(device))) if any(map(len, pictures)) else None
    state = model.new_state(len(prompts), capacity=max(map(len, ids)) + longest)
    x = model.merge(torch.cat(ids), rows)
    layout = state.advance([len(t) for t in ids])
    hidden = model.language_model(x, layout, state.cache)[layout.starts_S1[1:].long() - 1]
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


def _shown(sequence: TokenSequence, config: ModelConfig) -> int:
    """How many of its tiles a sequence has shown before its first reply."""
    image_tokens = int((sequence.ids[: sequence.prompt] == config.tokens.image).sum())
    return image_tokens // config.tokens_per_tile
