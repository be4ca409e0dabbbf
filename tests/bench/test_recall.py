"""The recall ablation in miniature: its sessions are what they say, its models are of equal size, and it runs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
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
    sessions = recall.make_sessions(torch.Generator().manual_seed(seed), 2, steps, farthest, fields=16)
    for ids, agos in zip(sessions.ids_BT.view(2, steps, recall.STEP).tolist(), sessions.ago_BS.tolist(), strict=True):
        for step, ago in enumerate(agos):
            _, _, _, _, question, answer = ids[step]
            if ago < 0:
                assert (question, answer) == (recall.NOTHING, recall.BLANK)
                continue
            assert 1 <= ago <= farthest
            assert [question, answer] == ids[step - ago][1:3]
            assert question not in [now[1] for now in ids[step - ago + 1 : step + 1]]
            assert question not in [past[4] for past in ids[:step]]


def test_lags_of_all_lengths_occur_and_every_other_step_asks():
    sessions = recall.make_sessions(torch.Generator().manual_seed(0), 64, 24, 8, fields=40)
    counts = torch.bincount(sessions.ago_BS[sessions.ago_BS > 0], minlength=9)
    assert counts[0] == 0 and counts[1:].min() > 10
    assert 0.4 < (sessions.ago_BS > 0).float().mean() < 0.52


def test_all_models_are_trained_on_the_same_sessions_of_all_lengths():
    settings = recall.Settings(farthest=5, tokens=240)
    one, other = (recall.training_ids(settings) for _ in range(2))
    lengths = set()
    for _ in range(8):
        ids = next(one)
        assert torch.equal(ids, next(other))
        lengths.add(ids.shape[1] // recall.STEP)
    assert lengths == {4, 8, 10}


def test_the_three_models_are_of_equal_size():
    settings = recall.Settings()
    sizes = [recall.Learner(config, settings).parameters for config in recall.equal_sizes(settings).values()]
    assert len(sizes) == 3 and max(sizes) < 1.03 * min(sizes)


def test_it_runs_and_draws(tmp_path: Path):
    settings = recall.Settings(steps=2, farthest=2, sessions=8, tokens=128)
    results = recall.ablation(settings, say=False)
    assert list(results) == ["pure Mamba", "hybrid", "pure attention"]
    for result in results.values():
        assert list(result["recall"]) == [1, 2, 3, 4, 6, 8]
        assert all(0 <= share <= 1 for share in result["recall"].values())
    recall.draw(results, 2, tmp_path / "recall.png")
    assert (tmp_path / "recall.png").stat().st_size > 5_000
    assert recall.table(results).count("\n") == 1 + 6 + 3


@pytest.mark.slow
def test_attention_learns_to_look_back():
    settings = recall.Settings(steps=150, farthest=2, sessions=32, tokens=1024, lr=5e-3)
    result = recall.one("pure attention", settings, say=False)
    assert result["steps"] == 150
    assert result["recall"][1] > 0.4  # chance is a sixteenth
