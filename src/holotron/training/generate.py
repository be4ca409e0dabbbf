"""Greedy replies of the network being trained, many at once. For evaluation: serving is the engine's work."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import torch

from holotron.model.model import Holotron
from holotron.model.positions import Shown
from holotron.training.batches import pack, pictures_shown, token_grids
from holotron.training.learner import Learner
from holotron.training.samples import Sample, TokenSequence, without_unseen

LONGEST = 48  # tokens; a reply of a small policy is a line


@torch.no_grad()
def greedy(
    learner: Learner, prompts: Sequence[tuple[Sample, TokenSequence]], eos: Collection[int], longest: int = LONGEST
) -> list[list[int]]:
    """The reply to each prompt, given as a sample and one of its sequences, of which the part before its first reply is
    read."""
    model = learner.model
    asked = [without_unseen(replace(sample, sequences=(_before(sequence, model),))) for sample, sequence in prompts]
    batch = pack(
        [sample.tiles.to(model.device) for sample in asked],
        [sample.sequences for sample in asked],
        [None] * len(asked),
        config=model.config,
        device=model.device,
        sizes=[sample.sizes for sample in asked],
        looks=[sample.looks for sample in asked],
    )
    x, deep, rows = model.language_model.embed(batch.ids_T), None, learner.look(batch)
    if rows is not None:
        x, deep = model.show(x, batch.places_i, rows.flatten(0, -2).index_select(0, batch.rows_i))
    state = model.new_state(len(prompts), capacity=max(batch.lengths) + longest)
    layout = state.advance(batch.lengths, None, _pictures(asked, model) if model.config.axes else None)
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


def _before(sequence: TokenSequence, model: Holotron) -> TokenSequence:
    """The part of it before its first reply."""
    ids = sequence.ids[: sequence.prompt]
    count = int((ids == model.config.tokens.image).sum())
    return TokenSequence(ids, sequence.learn[: sequence.prompt], sequence.shown[:count], prompt=sequence.prompt)


def _pictures(samples: Sequence[Sample], model: Holotron) -> list[list[Shown]]:
    grids = [token_grids(sample.tiles, sample.sizes, model.config) for sample in samples]
    return [pictures_shown(s.sequences[0], grid, model.config) for s, grid in zip(samples, grids, strict=True)]
