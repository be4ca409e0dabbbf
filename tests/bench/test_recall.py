"""The recall ablation in miniature: its sessions are what they say, its models are of equal size, and it runs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

FILE = Path(__file__).parents[2] / "benchmarks" / "recall.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("recall_benchmark", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


recall = load()


@given(st.integers(0, 1000), st.integers(2, 12), st.integers(1, 10))
def test_what_is_asked_for_was_shown_so_many_steps_ago_and_never_since(seed: int, steps: int, farthest: int):
    sessions = recall.make_sessions(np.random.default_rng(seed), 2, steps, farthest)
    value = recall.VALUE
    for ids, agos in zip(sessions.ids.reshape(2, steps, recall.STEP), sessions.ago, strict=True):
        for step, ago in enumerate(agos):
            question, answer = ids[step, -value - 1], ids[step, -value:]
            if ago < 0:
                assert question == recall.NOTHING
                continue
            assert 1 <= ago <= farthest
            assert question == ids[step - ago, 1]
            assert answer.tolist() == ids[step - ago, 2 : 2 + value].tolist()
            assert question not in ids[step - ago + 1 : step + 1, 1]
            assert question not in ids[:step, -value - 1]


def test_lags_of_all_lengths_occur():
    sessions = recall.make_sessions(np.random.default_rng(0), 64, 24, 8)
    assert {int(ago) for ago in np.unique(sessions.ago)} == {-1, *range(1, 9)}


def test_the_three_models_are_of_equal_size():
    sizes = [recall.Learner(config, recall.torch.device("cpu"), 0, 1e-3).parameters for config in _configs()]
    assert len(sizes) == 3 and max(sizes) < 1.03 * min(sizes)


def _configs() -> list:
    return list(recall.equal_sizes(32).values())


def test_it_runs_and_draws(tmp_path: Path):
    results = recall.ablation(steps=2, farthest=2, sessions=8, batch_tokens=128, say=False)
    assert list(results) == ["pure Mamba", "hybrid", "pure attention"]
    for result in results.values():
        assert list(result["recall"]) == [1, 2, 3, 4, 6, 8]
        assert all(0 <= share <= 1 for share in result["recall"].values())
    recall.draw(results, 2, tmp_path / "recall.png")
    assert (tmp_path / "recall.png").stat().st_size > 5_000
    assert recall.table(results).count("\n") == 1 + 6 + 3


def test_fields_must_not_come_back_within_reach():
    with pytest.raises(recall.ConfigError, match="raise FIELDS"):
        recall.ablation(steps=1, farthest=6, say=False)


@pytest.mark.slow
def test_attention_learns_to_look_back():
    learner, steps = recall.train(
        recall.equal_sizes(32)["pure attention"],
        seconds=None,
        steps=60,
        farthest=2,
        batch_tokens=1024,
        lr=5e-3,
        seed=0,
        device=recall.torch.device("cpu"),
        say=False,
    )
    assert steps == 60
    assert recall.measure(learner, 2, [1, 2], 32, 0)[1] > 0.4  # chance is a sixteenth
