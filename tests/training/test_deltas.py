"""Screenshot deltas in training: what is learnt from is what the engine serves, token for token and row for row."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from holotron.agent.dialects import make_dialect
from holotron.agent.history import Append, History, Window
from holotron.agent.loop import Episode, Limits
from holotron.agent.policies.engine import EnginePolicy
from holotron.agent.policies.registry import PolicyRequest, make_policy
from holotron.agent.profiles import profile_for
from holotron.engine.api import EngineConfig, SamplingParams
from holotron.engine.engine import Engine
from holotron.model.loading import load_model
from holotron.model.processor import Deltas
from holotron.rollouts.store import RunWriter
from holotron.training.batches import Batch, pack
from holotron.training.curves import read_metrics
from holotron.training.distributed import Ranks
from holotron.training.episodes import Episodes
from holotron.training.learner import Learner
from holotron.training.recipe import EpisodeData, make_recipe
from holotron.training.samples import Sample
from holotron.training.trainer import Trainer
from holotron.types import Outcome, Task, Trajectory
from tests.training.test_episodes import Board, clicking, play

MODEL, PROCESSOR = load_model("tiny", device="cpu")
TASK = Task("buttons", "press", seed=5, options={"presses": 50})
SIZE = (128, 128)  # four tiles and a thumbnail, 16 rows each


def served(history: History, deltas: Deltas | None, seed: int = 3) -> Trajectory:
    """Four steps of a random policy on a screen that gets one more dot at each."""
    with Engine(MODEL, PROCESSOR, EngineConfig()) as engine:
        sampling = SamplingParams(temperature=1.0, max_tokens=40, seed=seed)
        dialect = make_dialect("compact", actions=["click", "hover"])
        policy = EnginePolicy(engine, dialect, history, sampling=sampling, deltas=deltas)
        limits = Limits(steps=4, repeats=99)
        trajectory = asyncio.run(Episode(Board(SIZE), policy, TASK, id="one", limits=limits).run())
    return replace(trajectory, outcome=Outcome.SUCCESS)


def record(folder: Path, *trajectories: Trajectory) -> Path:
    with RunWriter(folder, {"config": {}}) as writer:
        for trajectory in trajectories:
            writer.append(trajectory)
    return folder


def lesson(run: Path, history: str, deltas: Deltas | None) -> Sample:
    data = EpisodeData(kind="episodes", runs=(run,), history=history)
    (sample,) = Episodes(data, PROCESSOR, MODEL.config, deltas).held_out(1)
    return sample


def packed(sample: Sample) -> Batch:
    return pack([sample.tiles], [sample.sequences], [None], config=MODEL.config, device=torch.device("cpu"))


@torch.no_grad()
def logprobs(batch: Batch) -> list[float]:
    learner = Learner(MODEL)
    rows = learner.see(learner.pixels(batch.tiles_n3HW))[1]
    return learner.predict(batch, rows).log_softmax(-1).gather(-1, batch.targets_l[:, None])[:, 0].tolist()


@pytest.mark.parametrize(("name", "history"), [("append", Append()), ("window:2", Window(2))])
@pytest.mark.parametrize("deltas", [Deltas(), Deltas(tolerance=6)])
def test_an_episode_told_as_changes_is_what_the_engine_served(tmp_path, name: str, history: History, deltas: Deltas):
    """Every reply stands where the engine put it, and every freely chosen token is as likely in the trainer (within a
    thousandth in fp32)."""
    trajectory = served(history, deltas)
    sample = lesson(record(tmp_path / "run", trajectory), name, deltas)
    batch = packed(sample)
    completions = [step.reply.completion for step in trajectory.steps]
    assert batch.targets_l.tolist() == [token for c in completions for token in c.tokens]
    # Where replies begin: as many tokens before each as the engine counted.
    learnt = [np.flatnonzero(np.diff(s.learn.astype(int), prepend=0) == 1) for s in sample.sequences]
    assert np.concatenate(learnt).tolist() == [c.prompt_tokens for c in completions]
    theirs = [logprob for c in completions for logprob in c.logprobs]
    free = [(a, b) for a, b in zip(logprobs(batch), theirs, strict=True) if b != 0.0]  # the grammar forced the others
    assert len(free) > 10
    assert max(np.exp(abs(a - b)) for a, b in free) < 1.001


def test_only_what_changed_is_read_and_encoded(tmp_path):
    run = record(tmp_path / "run", served(Append(), None))
    whole, told = lesson(run, "append", None), lesson(run, "append", Deltas())
    assert len(whole.tiles) == 4 * 5 and len(whole.sequences[0].shown) == 4 * 80
    assert len(told.sequences[0].shown) < 80 + 3 * 20
    # Of each later screen, the tile with the dot and the thumbnail.
    assert len(told.tiles) == 5 + 3 * 2
    assert len(told.sequences[0]) < len(whole.sequences[0]) - 3 * 50
    learnt = [s.ids[s.learn].tolist() for s in (whole.sequences[0], told.sequences[0])]
    assert learnt[0] == learnt[1]


def test_a_recipe_with_deltas_trains_on_them_and_its_policy_asks_for_them(tmp_path):
    board = [play(clicking((n, 20)), id=f"e{n}", task=replace(TASK, seed=n)) for n in range(3)]
    run = record(tmp_path / "demos", *board)
    figures = {}
    for deltas in (False, True, 6):
        out = tmp_path / str(deltas)
        recipe = make_recipe(
            {
                "name": "deltas",
                "model": {"source": "tiny"},
                "agent": {"deltas": deltas},
                "data": [{"kind": "episodes", "runs": [str(run)]}],
                "batch": {"tokens": 2000, "samples": 2},
                "schedule": {"steps": 3, "warmup": 0},
                "evaluate": {"suites": [{"kind": "steps", "data": {"kind": "episodes", "runs": [str(run)]}}]},
            }
        )
        trainer = Trainer(recipe, out, Ranks())
        trainer.run()
        figures[deltas] = trainer.progress
        assert len(read_metrics(out)) >= 3
        assert (
            json.loads((out / "model" / "agent.json").read_text()).get("deltas") == {False: None, True: 0, 6: 6}[deltas]
        )
    assert figures[True].tokens < figures[False].tokens
    assert figures[True].learnt == figures[False].learnt
    folder = tmp_path / "True" / "model"
    assert profile_for("any", folder).deltas == 0
    policy = asyncio.run(make_policy(PolicyRequest(str(folder), device="cpu", actions=("click",))))
    assert isinstance(policy, EnginePolicy) and policy.deltas == Deltas(0)
    asyncio.run(policy.close())
