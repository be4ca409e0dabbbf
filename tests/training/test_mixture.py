from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holotron.errors import ConfigError
from holotron.training.mixture import Mixture, sample_stream
from holotron.training.samples import Sample


@given(
    seed=st.integers(0, 1000),
    start=st.integers(0, 9000),
    sizes=st.lists(st.one_of(st.none(), st.integers(1, 50)), min_size=1, max_size=3),
)
@settings(max_examples=30, deadline=None)
def test_any_draw_can_be_reached_directly(seed, start, sizes):
    mixture = Mixture([1.0 + n for n in range(len(sizes))], sizes, seed)
    whole = list(islice(mixture.draws(), start + 20))
    assert list(islice(mixture.draws(start), 20)) == whole[start:]
    for draw in whole:
        assert sizes[draw.source] is None or 0 <= draw.index < sizes[draw.source]


def test_every_epoch_shows_every_sample_once_in_a_new_order():
    draws = list(islice(Mixture([1.0], [50], 3).draws(), 150))
    epochs = [[draw.index for draw in draws[n : n + 50]] for n in (0, 50, 100)]
    assert all(sorted(epoch) == list(range(50)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_weights_are_shares():
    counts = Counter(draw.source for draw in islice(Mixture([3.0, 1.0], [None, None], 0).draws(), 20_000))
    assert counts[0] / 20_000 == pytest.approx(0.75, abs=0.02)


def test_endless_sources_never_repeat():
    draws = islice(Mixture([1.0, 1.0], [None, 7], 5).draws(), 12_000)
    seen = [draw.index for draw in draws if draw.source == 0]
    assert seen == list(range(len(seen)))


def test_ranks_share_the_draws():
    mixture = Mixture([2.0, 1.0], [10, None], 1)
    whole = list(islice(mixture.draws(), 60))
    parts = [list(islice(mixture.draws(rank, 3), 20)) for rank in range(3)]
    assert sorted((draw for part in parts for draw in part), key=lambda d: d.number) == whole


def test_an_empty_source_is_refused():
    with pytest.raises(ConfigError, match="source 1 is empty"):
        Mixture([1.0, 1.0], [5, 0], 0)


class Numbers:
    """A source whose pictures say which sample they are, and which random numbers it was given."""

    size = None

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        return Sample(torch.tensor([index % 256, int(rng.integers(256))], dtype=torch.uint8).view(2, 1, 1, 1))


def test_worker_processes_change_nothing():
    def first(workers: int, start: int = 0) -> list[list[int]]:
        stream = sample_stream([Numbers()], [1.0], seed=9, start=start, workers=workers, chunk=3)
        return [sample.tiles.flatten().tolist() for sample in islice(stream, 20)]

    alone = first(0)
    assert first(2) == alone
    assert first(2, start=7)[:13] == alone[7:]
