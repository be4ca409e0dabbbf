"""The loop as a whole: what it writes, that it learns, and that a kill at any step changes nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from holotron.agent.profiles import profile_for
from holotron.errors import CheckpointError, ConfigError
from holotron.model.loading import load_model
from holotron.training.checkpoint import Checkpoints
from holotron.training.curves import Curves, read_metrics
from holotron.training.distributed import Ranks
from holotron.training.optimiser import Optimiser, learning_rate
from holotron.training.recipe import OptimiserPart, SchedulePart
from holotron.training.trainer import Trainer
from tests.training.support import conversation_recipe, to_toml, write_conversations


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_conversations(tmp_path_factory.mktemp("data"))


def losses(folder: Path) -> list[tuple[int, float]]:
    return [(int(row["step"]), row["loss/reply"]) for row in read_metrics(folder) if "loss/reply" in row]


def test_a_run_learns_and_leaves_a_model_to_serve(data, tmp_path):
    suites = [
        {"kind": kind, "name": kind, "samples": 12, "data": {"kind": "conversations", "files": [str(data)]}}
        for kind in ("loss", "replies")
    ]
    recipe = conversation_recipe(
        data,
        schedule={"steps": 60, "warmup": 5},
        optimiser={"lr": 5e-3},
        evaluate={"every_steps": 30, "suites": suites},
        about="A test.",
    )
    trainer = Trainer(recipe, tmp_path / "run", Ranks())
    figures = trainer.run()
    assert figures["loss/exact"] == figures["replies/exact"] == 1.0
    assert figures["loss/loss"] < 0.05

    curve = losses(tmp_path / "run")
    assert [step for step, _ in curve] == list(range(1, 61))
    assert list((tmp_path / "run" / "tensorboard").glob("events.*"))

    model, processor = load_model(tmp_path / "run" / "model", device="cpu")
    for name, tensor in trainer.learner.model.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], tensor, rtol=0, atol=0)
    assert processor.template.source == trainer.processor.template.source
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "60 steps" in card and "A test." in card and "replies/exact" in card
    progress = trainer.progress
    assert f"{progress.tokens:,} tokens" in card
    assert 0 < progress.learnt < progress.tokens


def test_tokens_are_counted_as_they_are_seen(data, tmp_path):
    trainer = Trainer(conversation_recipe(data), tmp_path / "run", Ranks())
    seen = []
    step = trainer.lanes.step

    def watched(number):
        passes = step(number)
        seen.extend(batch for _, batch in passes)
        return passes

    trainer.lanes.step = watched  # type: ignore[method-assign]
    trainer.run()
    p = trainer.progress
    assert p.tokens == sum(len(batch.ids_T) for batch in seen)
    assert p.learnt == sum(len(batch.targets_l) for batch in seen)
    assert p.pictures == sum(len(batch.tiles_n3HW) for batch in seen)
    assert [p.samples] == trainer.lanes.positions()


def test_a_stopped_run_goes_on_bit_for_bit(data, tmp_path):
    def recipe(steps: int):
        # The rate must not depend on where the run was once meant to end.
        return conversation_recipe(
            data,
            schedule={"steps": steps, "warmup": 2, "decay_share": 0},
            save={"every_steps": 3},
            augment={"noise": 0.05, "tint": 0.1},
            batch={"tokens": 4000, "samples": 6, "reuse": 2, "replay": 24},
        )

    Trainer(recipe(14), tmp_path / "whole", Ranks()).run()
    for end in (4, 9, 14):
        Trainer(recipe(end), tmp_path / "parts", Ranks()).run()
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    whole, parts = (load_model(tmp_path / name / "model", device="cpu")[0] for name in ("whole", "parts"))
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), parts.parameters(), strict=True))


@pytest.mark.slow
def test_killing_at_a_random_moment_changes_nothing(data, tmp_path):
    """kill -9 from outside, at moments nobody chose, until the run gets through; then compare it with one in peace."""
    recipe = conversation_recipe(
        data, schedule={"steps": 40, "warmup": 3}, save={"every_steps": 1}, model={"source": "tiny"}
    )
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(recipe))
    Trainer(recipe, tmp_path / "peace", Ranks()).run()

    killed = 0
    dice = random.Random(3)
    for _ in range(12):
        out = tmp_path / "war"
        before = {folder.name for folder in out.glob("checkpoints/step-*")}
        process = subprocess.Popen(
            [sys.executable, "-m", "holotron", "train", "sft", str(path), "--out", str(out), "--device", "cpu"],
            stdout=subprocess.DEVNULL,
            env=os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())},  # sums depend on it, to the last bit
        )
        # Kill it some time after it has begun to make progress of its own; three times, then let it finish.
        while killed < 3 and process.poll() is None:
            if {folder.name for folder in out.glob("checkpoints/step-*")} - before:
                time.sleep(dice.uniform(0, 0.3))
                os.kill(process.pid, signal.SIGKILL)
                killed += 1
                break
            time.sleep(0.02)
        if process.wait() == 0:
            break
    assert killed == 3
    assert losses(tmp_path / "war") == losses(tmp_path / "peace")


def test_a_folder_belongs_to_one_recipe(data, tmp_path):
    Trainer(conversation_recipe(data, schedule={"steps": 1}), tmp_path / "run", Ranks()).run()
    with pytest.raises(ConfigError, match="another recipe"):
        Trainer(conversation_recipe(data, schedule={"steps": 2}, seed=1), tmp_path / "run", Ranks())


def test_what_a_checkpoint_says_of_itself_is_passed_on(data, tmp_path):
    first = conversation_recipe(data, schedule={"steps": 1}, agent={"dialect": "compact", "history": "window:2"})
    Trainer(first, tmp_path / "first", Ranks()).run()
    model = {"source": str(tmp_path / "first" / "model")}
    Trainer(conversation_recipe(data, schedule={"steps": 1}, model=model), tmp_path / "second", Ranks()).run()
    mine, theirs = (profile_for("model", tmp_path / run / "model") for run in ("first", "second"))
    assert mine == theirs and mine.history == "window:2"


def test_two_examples_are_two_examples(tmp_path):
    """A step shows each once, whatever the budget; filling it with copies would take minutes on a CPU."""
    few = write_conversations(tmp_path / "few", count=2)
    trainer = Trainer(conversation_recipe(few, batch={}, schedule={"steps": 3}), tmp_path / "run", Ranks())
    trainer.run()
    assert trainer.progress.samples == 6 and trainer.progress.tokens < 1000


def test_a_clock_ends_a_run_too(data, tmp_path):
    recipe = conversation_recipe(data, schedule={"minutes": 0.03, "warmup": 1, "final": 0.1})
    trainer = Trainer(recipe, tmp_path / "run", Ranks())
    trainer.run()
    assert 1.8 <= trainer.progress.seconds < 30
    rates = [row["lr"] for row in read_metrics(tmp_path / "run") if "lr" in row]
    assert rates and rates == sorted(rates, reverse=True)
    assert (tmp_path / "run" / "model" / "config.json").exists()


def test_checkpoints_are_whole_or_absent(data, tmp_path):
    trainer = Trainer(conversation_recipe(data, schedule={"steps": 3}), tmp_path / "run", Ranks())
    trainer.run()
    checkpoints = Checkpoints(tmp_path / "run" / "checkpoints", 2, Ranks())
    latest = checkpoints.latest()
    assert latest is not None and latest.name == "step-00000003"
    # What a kill in the middle of a save leaves behind is not taken for a checkpoint.
    (tmp_path / "run" / "checkpoints" / ".step-00000009.partial").mkdir()
    assert checkpoints.latest() == latest
    (shard,) = latest.glob("*.safetensors")
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="cannot be read"):
        checkpoints.load(latest, trainer.optimiser)


def test_a_checkpoint_is_written_once_a_step(data, tmp_path, monkeypatch):
    written, save = [], Checkpoints.save

    def counted(self, progress, optimiser):
        written.append(progress.step)
        return save(self, progress, optimiser)

    monkeypatch.setattr(Checkpoints, "save", counted)
    for steps in (4, 4, 5):
        recipe = conversation_recipe(data, schedule={"steps": steps}, save={"every_steps": 2})
        Trainer(recipe, tmp_path / "run", Ranks()).run()
    assert written == [2, 4, 5]


def test_a_run_that_the_clock_has_ended_is_not_continued(data, tmp_path, monkeypatch):
    """Not even where the clock ran out while the last checkpoint was written."""
    now, save = [0.0], Checkpoints.save

    def slow(self, progress, optimiser):
        now[0] += 60
        return save(self, progress, optimiser)

    monkeypatch.setattr(Checkpoints, "save", slow)
    monkeypatch.setattr("holotron.training.loop.time", SimpleNamespace(monotonic=lambda: now[0]))
    recipe = conversation_recipe(data, schedule={"minutes": 1}, save={"every_steps": 1})
    steps = []
    for _ in range(2):
        trainer = Trainer(recipe, tmp_path / "run", Ranks())
        trainer.run()
        steps.append(trainer.progress.step)
    assert steps[0] == steps[1]


def test_curves_are_cut_where_a_run_resumes(tmp_path):
    curves = Curves(tmp_path)
    for step in range(1, 6):
        curves.add(step, {"x": float(step)})
    curves.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "x"')  # killed while writing
    Curves(tmp_path, resume_at=3).close()
    assert [row["step"] for row in read_metrics(tmp_path)] == [1, 2, 3]


# ------------------------------------------------------------------------------------------------------- the optimiser


def test_sixteen_bits_collect_small_updates_in_fp32():
    parameter = torch.nn.Parameter(torch.ones(4, 4, dtype=torch.bfloat16))
    optimiser = Optimiser([("w", parameter)], OptimiserPart(lr=1e-4, weight_decay=0))
    for _ in range(100):
        parameter.grad = torch.ones_like(parameter)
        optimiser.step(1e-4)
    assert optimiser.originals["w"].mean().item() == pytest.approx(0.99, abs=1e-4)
    assert parameter.dtype == torch.bfloat16
    assert parameter.float().mean().item() == pytest.approx(0.99, abs=4e-3)  # bf16 alone would still be at 1


def test_it_is_adamw_with_clipping():
    torch.manual_seed(0)
    mine, theirs = (torch.nn.Linear(5, 3) for _ in range(2))
    theirs.load_state_dict(mine.state_dict())
    recipe = OptimiserPart(lr=1e-2, weight_decay=0.1, clip=0.5)
    optimiser = Optimiser(mine.named_parameters(), recipe)
    reference = torch.optim.AdamW(
        [{"params": [theirs.weight], "weight_decay": 0.1}, {"params": [theirs.bias], "weight_decay": 0.0}],
        lr=1e-2,
        betas=recipe.betas,
    )
    for _ in range(5):
        x = torch.randn(8, 5)
        for model in (mine, theirs):
            model(x).square().sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        assert optimiser.step(1e-2).item() == pytest.approx(norm.item(), rel=1e-6)
        reference.step()
        reference.zero_grad()
    torch.testing.assert_close(mine.weight, theirs.weight)
    torch.testing.assert_close(mine.bias, theirs.bias)


@pytest.mark.parametrize("decay", ["linear", "cosine"])
def test_the_rate_warms_up_stays_and_falls(decay):
    schedule = SchedulePart(steps=100, warmup=10, decay=decay, decay_share=0.5, final=0.1)
    rates = [learning_rate(1.0, schedule, step, step / 100) for step in range(101)]
    assert rates[0] == pytest.approx(0.1) and rates[9] == 1.0
    assert all(rate == 1.0 for rate in rates[9:51])
    assert rates[75] == pytest.approx(0.55)
    assert rates[100] == pytest.approx(0.1)
    assert rates[50:] == sorted(rates[50:], reverse=True)
