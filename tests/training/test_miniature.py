"""The recipe of the small policy in miniature: the shipped mechanism on a model of half a million parameters."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holotron.data.fonts import font_files
from holotron.evals.miniwob import evaluate
from holotron.evals.miniwob_solver import SolverPolicy
from holotron.evals.policies import PolicyChoice, make_policy, miniwob_view
from holotron.model.config import (
    AttentionConfig,
    ImageConfig,
    MambaConfig,
    MLPConfig,
    ModelConfig,
    ProjectorConfig,
    VisionConfig,
)
from holotron.model.loading import byte_processor
from holotron.model.presets import preset
from holotron.model.weights import random_model, save_checkpoint
from holotron.rollouts.runner import Settings
from holotron.rollouts.suites import miniwob_suite
from holotron.training.curves import read_metrics
from holotron.training.distributed import Ranks
from holotron.training.recipe import make_recipe
from holotron.training.trainer import Trainer


def miniature() -> ModelConfig:
    base = preset("holotron-mini")
    return replace(
        base,
        decoder=replace(
            base.decoder,
            hidden=96,
            pattern="M-*-M*-",
            mamba=MambaConfig(heads=4, head_dim=32, state=32, groups=1, chunk=64),
            attention=AttentionConfig(heads=2, kv_heads=1, head_dim=32),
            mlp=MLPConfig(192),
        ),
        vision=VisionConfig(hidden=96, layers=2, heads=4, mlp=192, patch=8, grid=8, prefix=2),
        projector=ProjectorConfig(192),
        image=ImageConfig(tile_size=64, patch_size=8, max_tiles=1, use_thumbnail=False),
    )


@pytest.mark.slow
def test_it_learns_to_read_and_then_to_click(tmp_path: Path):
    fonts = tmp_path / "fonts"
    fonts.mkdir()
    sans = next(path for path in font_files() if path.name in ("DejaVuSans.ttf", "LiberationSans-Regular.ttf"))
    (fonts / sans.name).symlink_to(sans)
    config = miniature()
    save_checkpoint(random_model(config, seed=0), tmp_path / "start")
    byte_processor(config).save(tmp_path / "start")
    drawn: dict[str, Any] = {"kind": "drawn", "fonts": str(fonts), "sizes": ["64x64@1"]}
    asked = drawn | {"questions": 6, "kinds": ["find", "click"]}

    reading = make_recipe(
        {
            "name": "reading",
            "model": {"source": str(tmp_path / "start"), "learn": ["vision_model", "mlp1"]},
            "data": [drawn | {"seed": 1}],
            "batch": {"samples": 16, "tokens": 8192, "reuse": 4, "replay": 1024},
            "augment": {"tint": 0.1, "noise": 0.02},
            "loss": {"reply": 0, "reading": 1, "reading_rows": 1},
            "optimiser": {"lr": 3e-3},
            "schedule": {"steps": 300, "warmup": 30},
            "evaluate": {
                "every_steps": 1000,
                "suites": [{"kind": "reading", "samples": 48, "data": drawn | {"seed": 2}}],
            },
        }
    )
    trainer = Trainer(reading, tmp_path / "reading", Ranks())
    untrained = trainer.evaluate()
    trained = trainer.run()
    assert untrained["reading/read"] < 0.05
    assert trained["reading/read"] > 0.08
    assert trained["reading/rows_read"] > 0.05
    assert trained["reading/invented"] < 0.05

    clicking = make_recipe(
        {
            "name": "clicking",
            "model": {"source": str(tmp_path / "reading" / "model")},
            "data": [asked | {"seed": 3}],
            "batch": {"samples": 12, "tokens": 8192, "reuse": 3, "replay": 512},
            "loss": {"reply": 1, "reading": 0.3, "reading_rows": 0.3},
            "optimiser": {"lr": 2e-3},
            "schedule": {"steps": 100, "warmup": 20},
            "evaluate": {
                "every_steps": 1000,
                "suites": [
                    {"kind": "replies", "samples": 24, "data": asked | {"seed": 4}},
                    {"kind": "loss", "samples": 24, "data": asked | {"seed": 4}},
                ],
            },
        }
    )
    trainer = Trainer(clicking, tmp_path / "clicking", Ranks())
    untrained = trainer.evaluate()
    trained = trainer.run()
    assert untrained["replies/hit"] == 0.0
    assert trained["replies/hit"] > 0.08
    assert trained["held_out/loss"] < untrained["held_out/loss"] / 3
    # The heads came along from stage 0: the reading loss goes on where it was.
    first = next(row["loss/reading"] for row in read_metrics(tmp_path / "clicking") if "loss/reading" in row)
    start = next(row["loss/reading"] for row in read_metrics(tmp_path / "reading") if "loss/reading" in row)
    assert first < start / 2


@pytest.mark.slow
@pytest.mark.browser
def test_it_learns_tasks_from_demonstrations(tmp_path: Path):
    """Stage 2: a teacher's episodes are recorded, cloned, and played in the browser on seeds nobody has seen. Where to
    click follows from the goal and from a layout that hardly changes: as much as half a million parameters can learn
    in a minute."""
    tasks, view = "click-tab,focus-text", {"scale": 1.0, "crop_instruction": True, "image_format": "png"}
    demos, start, out = tmp_path / "demos", tmp_path / "start", tmp_path / "navigation"
    taught = miniwob_suite(tasks, range(60), **view)
    shown = asyncio.run(evaluate(SolverPolicy(), taught, demos, settings=Settings(sessions=6)))
    assert shown.scores.mean_success == 1.0
    config = miniature()
    save_checkpoint(random_model(config, seed=0), start)
    byte_processor(config).save(start)
    episodes = {"kind": "episodes", "runs": [str(demos)]}
    recipe = make_recipe(
        {
            "name": "navigation",
            "model": {"source": str(start)},
            "agent": {"miniwob": {"scale": 1, "crop": True, "png": True}},
            "data": [episodes | {"seeds": "0:52"}],
            "batch": {"samples": 16, "tokens": 16384},
            "optimiser": {"lr": 2e-3},
            "schedule": {"steps": 150, "warmup": 20},
            "evaluate": {
                "suites": [{"kind": "steps", "near": 60, "data": episodes | {"seeds": "52:60"}}],
            },
        }
    )
    trainer = Trainer(recipe, out, Ranks())
    untrained, trained = trainer.evaluate(), trainer.run()
    assert untrained["steps/by_task"] == 0.0
    assert trained["steps/by_task"] > 0.4
    assert trained["steps/task/click-tab"] > 0.7  # which of the tabs is in the goal

    async def play(folder: Path, run: Path) -> float:
        choice = PolicyChoice(str(folder))
        unseen = miniwob_suite("click-tab", range(200_000, 200_010), **miniwob_view(choice, None, None, None))
        assert unseen.describe["image_format"] == "png"  # as the model itself says
        policy = await make_policy(choice, ("click",))
        try:
            result = await evaluate(policy, unseen.limited(steps=1), run, settings=Settings(sessions=4))
        finally:
            await policy.close()
        assert result.scores.mean_success is not None
        return result.scores.mean_success

    assert asyncio.run(play(out / "model", tmp_path / "after")) >= 0.6
