"""The loop as a whole: it learns, keeps to its cap, survives a kill, and the engine has the trainer's weights."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from holotron.agent.profiles import profile_for
from holotron.errors import ConfigError
from holotron.model.loading import load_model
from holotron.training.curves import read_metrics
from holotron.training.distributed import Ranks
from holotron.training.rl.groups import Group
from holotron.training.rl.trainer import RlTrainer
from tests.training.rl.support import clone, reinforce, rl_recipe, untrained
from tests.training.support import to_toml


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained(tmp_path_factory.mktemp("start"))


# An untrained policy under a grammar clicks somewhere: now and then into the box.
CHANCE: dict[str, Any] = {
    "agent": {"constrained": True},
    "rollouts": {"sessions": 8, "group": 4, "queue": 4},
    "update": {"groups": 2},
    "optimiser": {"lr": 1e-4},
}


def engine_weights(trainer: RlTrainer) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in trainer.players.engine.model.named_parameters()}


def test_a_run_leaves_curves_a_policy_and_exact_accounts(start: Path, tmp_path: Path):
    seen: list[list[Group]] = []
    recipe = rl_recipe(
        start,
        **CHANCE | {"rollouts": CHANCE["rollouts"] | {"record_every": 1}},
        schedule={"steps": 3},
        evaluate={"every_steps": 2, "seeds": "200000:200003"},
        about="A test.",
    )
    out = tmp_path / "run"
    trainer = RlTrainer(recipe, out, Ranks(), on_step=lambda step, groups: seen.append(groups))
    figures = trainer.run()
    assert 0 <= figures["evaluation/success"] <= 1

    progress, counts = trainer.progress, trainer.counts
    assert progress.step == 3 and len(seen) == 3
    learnt = sum(rollout.learnt for groups in seen for group in groups for rollout in group.rollouts)
    assert progress.learnt == learnt == counts.staleness.total()
    assert progress.samples == 3 * 2 * 4
    assert counts.kept >= 6 and counts.groups.total() == counts.kept + counts.dropped
    assert max(counts.staleness) <= recipe.rollouts.staleness

    rows = [row for row in read_metrics(out) if "update/ratio" in row]
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert rows[0]["update/error"] == pytest.approx(1.0, abs=1e-3)  # nothing had changed yet
    for row in rows[1:]:
        assert 1.0 <= row["update/agreement"] <= 1.001
    assert {"idle/trainer", "idle/engine", "update/entropy", "groups/solved", "groups/stale"} <= rows[-1].keys()
    assert [row["step"] for row in read_metrics(out) if "evaluation/success" in row] == [0, 2, 3]
    assert (out / "curve.png").stat().st_size > 10_000
    assert list((out / "tensorboard").glob("events.*"))

    model, _ = load_model(out / "model", device="cpu")
    for name, tensor in trainer.learner.model.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], tensor, rtol=0, atol=0)
    assert profile_for("model", out / "model").dialect == "compact"
    assert "3 updates" in (out / "model" / "README.md").read_text()

    from holotron.rollouts.store import RunReader

    stored = [step for t in RunReader(out / "episodes").trajectories() for step in t.steps]
    assert stored
    for step in stored:
        completion = step.reply.completion
        assert len(completion.tokens) == len(completion.logprobs) == len(completion.versions) > 0


def test_a_run_that_is_over_is_judged_and_exported_again(start: Path, tmp_path: Path):
    """Called again it makes no update; its card still says how good it is."""
    changes: dict[str, Any] = {"schedule": {"steps": 2}, "evaluate": {"every_steps": 2, "seeds": "200000:200002"}}
    recipe = rl_recipe(start, **CHANCE, **changes, tasks={"learn_from": "reward"})
    for _ in range(2):
        trainer = RlTrainer(recipe, tmp_path / "run", Ranks())
        figures = trainer.run()
        assert trainer.progress.step == 2
        assert {"evaluation/success", "evaluation/reward"} <= figures.keys()
        assert "evaluation/success" in (tmp_path / "run" / "model" / "README.md").read_text()
    assert all("rollout/reward" in row for row in read_metrics(tmp_path / "run") if "rollout/success" in row)


@pytest.mark.parametrize("lora", [None, {"rank": 2, "alpha": 4}], ids=["full", "lora"])
def test_the_running_engine_gets_every_update(start: Path, tmp_path: Path, lora: dict[str, int] | None):
    recipe = rl_recipe(
        start,
        **CHANCE | {"optimiser": {"lr": 1e-2}},
        schedule={"steps": 2},
        objective={"kl": 0.01},
        **({"lora": lora} if lora else {}),
    )
    trainer = RlTrainer(recipe, tmp_path / "run", Ranks())
    before = engine_weights(trainer)
    trainer.run()
    after = engine_weights(trainer)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    exported = dict(load_model(tmp_path / "run" / "model", device="cpu")[0].named_parameters())
    for name in before:
        torch.testing.assert_close(after[name], exported[name], rtol=1e-6, atol=1e-6)
    rows = [row for row in read_metrics(tmp_path / "run") if "update/kl" in row]
    assert abs(rows[0]["update/kl"]) < 1e-5  # it starts where it starts
    assert all(row["update/agreement"] <= 1.001 for row in rows if "update/agreement" in row)
    if lora:
        assert (tmp_path / "run" / "adapter" / "adapter_config.json").exists()
        assert all("_proj" in name for name in changed)


def test_rollouts_never_wait_for_a_slow_trainer_and_nothing_too_old_is_learnt(start: Path, tmp_path: Path):
    """Before each update the trainer does nothing until sixteen more episodes have come in. So they do come in; and
    what is then learnt is within the cap."""
    holder: list[RlTrainer] = []
    oldest: list[int] = []

    def slow(step: int, groups: list[Group]) -> None:
        oldest.append(max(step - group.oldest for group in groups))
        counts = holder[0].counts
        goal, end = counts.episodes + 16, time.monotonic() + 240
        while counts.episodes < goal:
            assert time.monotonic() < end, "rollouts have stopped"
            time.sleep(0.02)

    recipe = rl_recipe(
        start,
        # Without replayed successes, which are older on purpose.
        **CHANCE | {"rollouts": {"sessions": 8, "group": 4, "queue": 3, "staleness": 1, "successes": 0}},
        schedule={"steps": 5},
    )
    holder.append(RlTrainer(recipe, tmp_path / "run", Ranks(), on_step=slow))
    holder[0].run()
    assert len(oldest) == 5 and max(oldest) <= 1
    assert max(holder[0].counts.staleness) <= 1
    # What came in meanwhile was not all of use: the queue is short on purpose.
    assert holder[0].queue.overflowed + holder[0].queue.stale > 0


def test_a_stopped_run_goes_on_where_it_was(start: Path, tmp_path: Path):
    def trainer(steps: int) -> RlTrainer:
        return RlTrainer(rl_recipe(start, **CHANCE, schedule={"steps": steps}), tmp_path / "run", Ranks())

    first = trainer(2)
    first.run()
    state = {name: tensor.clone() for name, tensor in first.optimiser.state().items()}
    second = trainer(4)
    assert second.progress.step == 2
    saved = json.loads((tmp_path / "run" / "checkpoints" / "step-00000002" / "state.json").read_text())["more"]
    assert second.counts.state() == saved["counts"]
    assert all(torch.equal(tensor, state[name]) for name, tensor in second.optimiser.state().items())
    for name, parameter in second.learner.model.named_parameters():
        assert torch.equal(parameter, dict(second.players.engine.model.named_parameters())[name])
    assert {name: [e.tries, e.wins] for name, e in second.sampler.estimates.items()} == saved["sampler"]["estimates"]
    unfinished = saved["sampler"]["again"]
    assert unfinished, "eight sessions always have something under way"
    assert second.sampler.draw().number == unfinished[0][0]
    second.sampler.load(saved["sampler"])
    second.run()
    assert second.progress.step == 4
    assert second.counts.episodes > first.progress.samples
    assert [row["step"] for row in read_metrics(tmp_path / "run") if "lr" in row] == [1, 2, 3, 4]
    with pytest.raises(ConfigError, match="another recipe"):
        RlTrainer(rl_recipe(start, **CHANCE, seed=1), tmp_path / "run", Ranks())


@pytest.mark.slow
def test_a_killed_run_is_resumed_by_the_same_command(start: Path, tmp_path: Path):
    recipe = rl_recipe(start, **CHANCE, schedule={"steps": 6}, save={"every_steps": 1})
    path, out = tmp_path / "recipe.toml", tmp_path / "run"
    path.write_text(to_toml(recipe))
    command = [sys.executable, "-m", "holotron", "train", "rl", str(path), "--out", str(out), "--device", "cpu"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None and not (out / "checkpoints" / "step-00000002").exists():
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    reached = max(int(folder.name[5:]) for folder in (out / "checkpoints").glob("step-*"))
    assert 2 <= reached < 6
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert f"resumed at update {reached}" in done.stdout
    assert [row["step"] for row in read_metrics(out) if "lr" in row] == list(range(1, 7))
    assert (out / "model" / "config.json").exists()


def test_a_dry_run_prints_the_recipe_and_its_tasks(start: Path, tmp_path: Path):
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(rl_recipe(start)))
    command = [sys.executable, "-m", "holotron", "train", "rl", str(path), "tasks.names=order-2", "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert '"clip_high": 0.28' in done.stdout and "1 tasks: order-2" in done.stdout


@pytest.mark.parametrize(
    "name", ["holotron-mini/4-rl", "holotron-12b/3-rl", "holotron4-30b-a3b/3-rl", "holo3.1-4b/3-rl"]
)
def test_the_recipes_that_ship_are_valid(name: str):
    from holotron.training.recipe import read_recipe
    from holotron.training.rl.recipe import RlRecipe

    recipe = read_recipe(Path(__file__).parents[3] / "recipes" / f"{name}.toml", [], RlRecipe)
    assert recipe.agent.temperature == 1.0 and not recipe.agent.constrained


@pytest.mark.slow
def test_it_learns(tmp_path: Path):
    """A policy that was cloned for a moment, then left to play: what it samples succeeds clearly more often than at
    first (over hundreds of episodes), and its greedy self, measured on far fewer, is no worse."""
    checkpoint = clone(tmp_path / "start", steps=120)
    before, after = reinforce(checkpoint, tmp_path / "rl", steps=80)
    played = [row["rollout/success"] for row in read_metrics(tmp_path / "rl") if "rollout/success" in row]
    first, last = sum(played[:5]) / 5, sum(played[-15:]) / 15
    print(f"sampled {first:.2f} -> {last:.2f}, greedy {before:.2f} -> {after:.2f}")
    assert before < 0.75 and first < 0.6
    assert last > first + 0.15
    assert after > before
