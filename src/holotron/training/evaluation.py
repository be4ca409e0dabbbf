"""Evaluation while training: fixed held-out samples, looked at again and again as the model learns.

Every suite is a function from a learner to named figures. The samples are made once, from the suite's own data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from holotron.actions import InvalidAction
from holotron.agent.coordinates import Screen
from holotron.agent.dialects import make_dialect
from holotron.agent.dialects.base import Dialect
from holotron.data.labels import contains
from holotron.errors import ConfigError
from holotron.model.processor import Deltas, Processor
from holotron.training.aims import learnt_replies
from holotron.training.batches import Batch, pack
from holotron.training.distributed import gathered
from holotron.training.episodes import Episodes
from holotron.training.generate import greedy
from holotron.training.learner import Learner
from holotron.training.mixture import Source
from holotron.training.reading import Reading, score_reading
from holotron.training.recipe import Eval, LossEval, ReadingEval, ReplyEval, StepEval
from holotron.training.samples import Sample, Target, TokenSequence
from holotron.training.sources import open_source
from holotron.types import Click, Completion

Suite = Callable[[Learner], dict[str, float]]

_AT_ONCE = 32  # samples per forward pass
_SEED = 7_777_777  # of held-out samples: no training recipe should use it


def make_suite(
    recipe: Eval, processor: Processor, learner: Learner, workers: int = 0, deltas: Deltas | None = None
) -> Suite:
    source = open_source(recipe.data, processor, learner.model.config, deltas)
    count = recipe.samples if source.size is None else min(recipe.samples, source.size)
    samples: list[Sample] = []

    def made() -> list[Sample]:
        if not samples:  # on first use: a dry run needs none
            if isinstance(source, Episodes):
                samples.extend(source.held_out(count))
            else:
                samples.extend(_make(source, count, workers))
        return samples

    measure: Callable[[Learner, list[Sample], Processor], dict[str, float]]
    match recipe:
        case ReadingEval():
            measure = _reading
        case LossEval():
            measure = _loss
        case ReplyEval():
            measure = _replies
        case StepEval():
            measure = partial(step_figures, dialect=make_dialect(recipe.data.dialect), near=recipe.near)

    @torch.no_grad()
    def suite(learner: Learner) -> dict[str, float]:
        learner.eval()
        try:
            with gathered(learner):
                figures = measure(learner, made(), processor)
        finally:
            learner.train()
        return {f"{recipe.name}/{name}": value for name, value in figures.items()}

    return suite


def _make(source: Source, count: int, workers: int) -> Iterator[Sample]:
    """The samples of a suite, by as many processes as make the samples to learn from."""
    held_out = HeldOut(source, count)
    for samples in DataLoader(held_out, batch_size=8, num_workers=workers, collate_fn=list):
        yield from samples


class HeldOut(Dataset[Sample]):
    def __init__(self, source: Source, count: int) -> None:
        self._source = source
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, n: int) -> Sample:
        return self._source.sample(n, np.random.default_rng([_SEED, n]))


def _batches(learner: Learner, samples: Sequence[Sample]) -> list[Batch]:
    model = learner.model
    return [
        pack(
            [sample.tiles.to(model.device) for sample in group],
            [sample.sequences for sample in group],
            [sample.slots for sample in group],
            config=model.config,
            device=model.device,
            sizes=[sample.sizes for sample in group],
            looks=[sample.looks for sample in group],
        )
        for group in (samples[n : n + _AT_ONCE] for n in range(0, len(samples), _AT_ONCE))
    ]


def _reading(learner: Learner, samples: list[Sample], processor: Processor) -> dict[str, float]:
    if "reading" not in learner.heads:
        raise ConfigError("a reading evaluation needs the reading loss: set loss.reading")
    totals = {"": Reading(), "rows_": Reading()}
    for batch in _batches(learner, samples):
        assert batch.slots_nRC is not None
        pixels = learner.pixels(batch.tiles_n3HW)
        scores = learner.read(*learner.see(pixels, batch.looks), pixels, batch.slot_tiles)
        totals[""] += score_reading(scores["reading"], batch.slots_nRC)
        totals["rows_"] += score_reading(scores["reading_rows"], batch.slots_nRC)
    return {f"{level}{name}": rate for level, total in totals.items() for name, rate in total.rates().items()}


def _loss(learner: Learner, samples: list[Sample], processor: Processor) -> dict[str, float]:
    loss = tokens = right = replies = 0.0
    for batch in _batches(learner, samples):
        logits = learner.predict(batch, learner.look(batch)).float()
        loss += float(torch.nn.functional.cross_entropy(logits, batch.targets_l, reduction="sum"))
        tokens += len(batch.targets_l)
        # A reply is right when all its tokens are.
        edges = torch.tensor(batch.lengths, device=logits.device).cumsum(0)
        owner = torch.searchsorted(edges, batch.before_l, right=True)
        wrong = torch.zeros(len(batch.lengths), device=logits.device)
        wrong.index_add_(0, owner, (logits.argmax(-1) != batch.targets_l).float())
        learnt = torch.bincount(owner, minlength=len(batch.lengths)) > 0
        right += float(((wrong == 0) & learnt).sum())
        replies += float(learnt.sum())
    return {"loss": loss / max(tokens, 1), "exact": right / max(replies, 1)}


def _replies(learner: Learner, samples: list[Sample], processor: Processor) -> dict[str, float]:
    """Greedy answers to first turns: `hit` counts clicks inside their box, `exact` other texts that are right."""
    tokenizer = processor.tokenizer
    clicks = hits = texts = exact = 0
    for start in range(0, len(samples), _AT_ONCE):
        asked = [(sample, sequence) for sample in samples[start : start + _AT_ONCE] for sequence in sample.sequences]
        answers = greedy(learner, asked, tokenizer.eos_ids)
        for (_, sequence), answer in zip(asked, answers, strict=True):
            said = tokenizer.decode(answer)
            if sequence.target is not None:
                clicks += 1
                hits += hit(said, sequence.target)
            else:
                texts += 1
                exact += said == tokenizer.decode(_first_reply(sequence, tokenizer.eos_ids))
    figures = {}
    if clicks:
        figures["hit"] = hits / clicks
    if texts:
        figures["exact"] = exact / texts
    return figures


def step_figures(
    learner: Learner, samples: list[Sample], processor: Processor, *, dialect: Dialect, near: int
) -> dict[str, float]:
    """Steps of episodes, all from one look: if every token of a reply is the likeliest after those before it, greedy
    decoding would have written that reply. Of a point that is only nearly right the later digits were given, which
    flatters it a little. Names with a second slash are for the curves, not for the terminal."""
    tally: dict[str, list[bool]] = {}
    for start in range(0, len(samples), _AT_ONCE):
        group = samples[start : start + _AT_ONCE]
        (batch,) = _batches(learner, group)
        likeliest = iter(learner.predict(batch, learner.look(batch)).argmax(-1).tolist())
        for sample in group:
            for sequence in sample.sequences:
                for begin, end in learnt_replies(sequence):
                    wanted = sequence.ids[begin:end].tolist()
                    said = [next(likeliest) for _ in wanted]
                    text, answer = (processor.tokenizer.decode(reply[:-1]) for reply in (said, wanted))
                    right = said == wanted or (said[-1] == wanted[-1] and nearly(text, answer, dialect, near))
                    tally.setdefault(sample.name, []).append(right)
    rates = {name: sum(marks) / len(marks) for name, marks in sorted(tally.items())}
    marks = [mark for task in tally.values() for mark in task]
    figures = {"hit": sum(marks) / max(len(marks), 1), "by_task": sum(rates.values()) / max(len(rates), 1)}
    return figures | {f"task/{name}": rate for name, rate in rates.items()}


def nearly(said: str, wanted: str, dialect: Dialect, near: int) -> bool:
    """The same kind of action, its points within `near` units of the dialect's frame, and nothing else different."""
    try:
        actions = [asdict(dialect.read(text)[2]) for text in (said, wanted)]
    except InvalidAction:
        return False
    first, second = actions
    if first.keys() != second.keys():
        return False
    places = [key for key in first if re.fullmatch(r"[xy][12]?", key) and first[key] is not None]
    close = all(second[key] is not None and abs(first[key] - second[key]) <= near for key in places)
    return bool(places) and close and all(first[key] == second[key] for key in first if key not in places)


def _first_reply(sequence: TokenSequence, eos: Any) -> list[int]:
    reply = []
    for index in sequence.ids[sequence.prompt :].tolist():
        if index in eos:
            break
        reply.append(index)
    return reply


def hit(said: str, target: Target) -> bool:
    """Is this reply a click that lands in the target's box?"""
    reply = make_dialect(target.dialect).parse(Completion(said), Screen(target.image, target.viewport))
    return isinstance(reply.action, Click) and contains(target.box, reply.action.x, reply.action.y)
