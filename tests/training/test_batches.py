from __future__ import annotations

from itertools import count, islice

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from holotron.errors import InputError
from holotron.model.weights import random_model
from holotron.training.batches import Batches, pack
from holotron.training.learner import Learner
from holotron.training.recipe import BatchPart
from holotron.training.samples import Sample, TokenSequence
from tests.training.support import small_config

CONFIG = small_config()
CPU = torch.device("cpu")
IMAGE = CONFIG.tokens.image


def sample(number: int, questions: int = 3) -> Sample:
    """A picture of its own and a few sequences about it, of different lengths."""
    rng = np.random.default_rng(number)
    tiles = torch.from_numpy(rng.integers(0, 256, (1, 3, 64, 64), np.uint8))
    sequences = []
    for _ in range(questions):
        words = rng.integers(0, 250, rng.integers(3, 30))
        ids = np.concatenate([words[:2], np.full(CONFIG.tokens_per_tile, IMAGE), words[2:]]).astype(np.int32)
        learn = np.zeros(len(ids), bool)
        learn[2 + CONFIG.tokens_per_tile :] = rng.random(len(words) - 2) < 0.7
        shown = np.stack([np.zeros(CONFIG.tokens_per_tile, int), np.arange(CONFIG.tokens_per_tile)], 1)
        sequences.append(TokenSequence(ids, learn, shown))
    return Sample(tiles, tuple(sequences))


def batches(recipe: BatchPart, seed: int = 0) -> Batches:
    def stream(start: int):
        return (sample(number) for number in count(start))

    return Batches(stream, recipe, config=CONFIG, device=CPU, seed=seed)


def contents(batch) -> list:
    return [batch.lengths, batch.ids_T.tolist(), batch.targets_l.tolist(), batch.tiles_n3HW.sum().item()]


def test_a_packed_batch_is_its_sequences_one_by_one():
    """Loss and gradient of a row of sequences are the sums over the sequences alone: nothing leaks across an edge."""
    model = random_model(CONFIG, dtype=torch.float64)
    learner = Learner(model)
    samples = [sample(number) for number in range(4)]
    packed = pack([s.tiles for s in samples], [s.sequences for s in samples], [None] * 4, config=CONFIG, device=CPU)
    loss = learner(packed, learner.pixels(packed.tiles_n3HW))[0]
    gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)

    alone = torch.zeros((), dtype=torch.float64)
    for one in samples:
        for sequence in one.sequences:
            ids = torch.from_numpy(sequence.ids).long()
            logits = model(ids, pixels=learner.pixels(one.tiles))
            learnt = torch.from_numpy(np.flatnonzero(sequence.learn))
            alone = alone + F.cross_entropy(logits[learnt - 1].float(), ids[learnt], reduction="sum")
    expected = torch.autograd.grad(alone, list(model.parameters()), allow_unused=True)
    assert loss.item() == pytest.approx(alone.item(), rel=1e-6)
    for mine, theirs in zip(gradients, expected, strict=True):
        if theirs is not None:
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-7)


@given(tokens=st.integers(60, 400), samples=st.one_of(st.none(), st.integers(1, 5)))
@settings(max_examples=25, deadline=None)
def test_budgets_are_kept_and_nothing_is_lost(tokens, samples):
    source = batches(BatchPart(tokens=tokens, samples=samples, sequences=1, too_long="skip"), seed=4)
    seen = 0
    for step in range(6):
        batch = source.step(step)
        assert 0 < batch.tokens <= tokens
        assert samples is None or batch.samples <= samples
        seen += batch.samples
    assert seen + source.skipped == source.position


@pytest.mark.parametrize(
    "recipe",
    [
        BatchPart(tokens=300, sequences=2),
        BatchPart(tokens=4000, samples=6, reuse=3, replay=16),
    ],
    ids=["fresh", "replayed"],
)
def test_a_batch_depends_on_the_position_and_the_step_alone(recipe):
    straight = batches(recipe)
    positions, seen = [], []
    for step in range(12):
        positions.append(straight.position)
        seen.append(contents(straight.step(step)))
    for step in (1, 5, 11):
        resumed = batches(recipe)
        resumed.seek(positions[step])
        for later in range(step, 12):
            assert contents(resumed.step(later)) == seen[later]


def test_replay_shows_samples_as_often_as_asked():
    source = batches(BatchPart(tokens=4000, samples=8, reuse=4, replay=64))
    shown = sum(source.step(step).samples for step in range(40))
    assert shown == 320
    assert source.position == 8 + 39 * 2


def test_too_much_is_refused_with_advice():
    with pytest.raises(InputError, match=r"batch\.tokens is 10"):
        batches(BatchPart(tokens=10)).step(0)
    with pytest.raises(InputError, match=r"batch\.samples"):
        batches(BatchPart(tokens=50, samples=4, reuse=2)).step(0)


def test_pictures_without_questions_count_as_well():
    def stream(start: int):
        return (Sample(sample(number).tiles) for number in count(start))

    budget = 3 * CONFIG.tokens_per_tile
    source = Batches(stream, BatchPart(tokens=budget), config=CONFIG, device=CPU, seed=0)
    assert [source.step(step).samples for step in range(3)] == [3, 3, 3]


def test_streams_are_read_once():
    asked: list[int] = []

    def stream(start: int):
        asked.append(start)
        return (sample(number) for number in count(start))

    source = Batches(stream, BatchPart(tokens=300), config=CONFIG, device=CPU, seed=0)
    list(islice((source.step(step) for step in range(5)), 5))
    assert asked == [0]


def test_a_run_whose_samples_are_all_too_long_says_so():
    with pytest.raises(InputError, match="in a row have more than"):
        batches(BatchPart(tokens=4, sequences=1, too_long="skip")).step(0)


def test_few_samples_are_not_shown_many_times_in_one_step():
    """The budget would hold a hundred of them; there are three for this pass. Who says a number gets that number."""
    budget = BatchPart(tokens=4000)

    def made(recipe: BatchPart, known: int | None) -> Batches:
        return Batches(
            lambda start: (sample(number % 3) for number in count(start)),
            recipe,
            config=CONFIG,
            device=CPU,
            seed=0,
            known=known,
        )

    assert [made(budget, 3).step(step).samples for step in range(3)] == [3, 3, 3]
    assert made(budget, None).step(0).samples > 20
    assert made(BatchPart(tokens=4000, samples=7), 3).step(0).samples == 7
