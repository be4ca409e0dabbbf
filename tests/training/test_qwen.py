"""Qwen3-VL and Qwen3.5 learn: from conversations, whole or with adapters, and from rewards; and the engine says of every
token what the trainer says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holotron.engine import Engine, EngineConfig, SamplingParams
from holotron.model.config import ModelConfig, MoEConfig
from holotron.model.loading import byte_processor, load_model
from holotron.model.presets import preset
from holotron.model.weights import random_model, save_checkpoint
from holotron.training.curves import read_metrics
from holotron.training.distributed import Ranks
from holotron.training.learner import Learner
from holotron.training.rl.objective import Drawing
from holotron.training.rl.record import Rollout, SampledTurn
from holotron.training.rl.trainer import RlTrainer
from holotron.training.rl.weights import disagreement
from holotron.training.trainer import Trainer
from holotron.types import Outcome, Task
from tests.training.rl.support import rl_recipe, untrained
from tests.training.support import conversation_recipe, write_conversations

SOFTMAX: dict[str, Any] = {"scoring": "softmax", "activation": "swiglu"}


def config(kind: str) -> ModelConfig:
    """All four kinds, half as deep as the presets."""
    made = preset("tiny-qwen3-vl" if kind.startswith("vl") else "tiny-qwen3.5")
    d = made.decoder
    decoder = {
        "vl": replace(d, pattern="*-*-"),
        "vl-experts": replace(d, pattern="*E*E", mlp=None, moe=MoEConfig(4, 2, 48, shared_width=0, **SOFTMAX)),
        "3.5": replace(d, pattern="G-*-", moe=None, mlp=preset("tiny-qwen3-vl").decoder.mlp),
        "3.5-experts": replace(d, pattern="GE*E"),
    }[kind]
    return replace(made, name="", decoder=decoder)


KINDS = ["vl", "vl-experts", "3.5", "3.5-experts"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_conversations(tmp_path_factory.mktemp("data"), 12)


@pytest.mark.parametrize("lora", [None, {"rank": 4, "alpha": 8}], ids=["full", "lora"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_from_conversations(kind: str, lora: dict[str, Any] | None, data: Path, tmp_path: Path) -> None:
    start = tmp_path / "start"
    save_checkpoint(random_model(config(kind)), start)
    byte_processor(config(kind)).save(start)
    changes: dict[str, Any] = {
        "model": {"source": str(start), "checkpoint_layers": True},
        "schedule": {"steps": 6, "warmup": 1},
        "optimiser": {"lr": 5e-3 if lora is None else 2e-2},
    }
    recipe = conversation_recipe(data, **changes | ({"lora": lora} if lora else {}))
    Trainer(recipe, tmp_path / "run", Ranks()).run()
    losses = [row["loss/reply"] for row in read_metrics(tmp_path / "run") if "loss/reply" in row]
    assert losses[-1] < 0.9 * losses[0], losses
    before, _ = load_model(start, device="cpu")
    after, _ = load_model(tmp_path / "run" / "model", device="cpu")
    changed = {
        name
        for (name, old), new in zip(before.named_parameters(), after.parameters(), strict=True)
        if not torch.equal(old, new)
    }
    if lora is None:  # gradients reach all of the tower, and every level of deepstack
        assert {name for name, _ in before.named_parameters() if name.startswith(("vision_model.", "mlp1."))} <= changed
    else:
        assert changed and all(name.startswith("language_model.") for name in changed)


@pytest.mark.parametrize("kind", ["vl", "3.5-experts"])
def test_it_learns_from_rewards(kind: str, tmp_path: Path) -> None:
    start = untrained(tmp_path / "start", config(kind))
    recipe = rl_recipe(
        start,
        agent={"constrained": True},
        rollouts={"sessions": 8, "group": 4, "queue": 4},
        update={"groups": 2},
        schedule={"steps": 2},
    )
    trainer = RlTrainer(recipe, tmp_path / "run", "cpu")
    trainer.run()
    assert trainer.progress.step == 2
    served, learnt = dict(trainer.engine.model.named_parameters()), dict(trainer.learner.model.named_parameters())
    assert all(torch.equal(served[name], learnt[name]) for name in served)
    rows = [row for row in read_metrics(tmp_path / "run") if "update/ratio" in row]
    assert rows[0]["update/error"] == pytest.approx(1.0, abs=1e-3)
    assert all(1.0 <= row["update/agreement"] <= 1.001 for row in rows[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_engine_and_trainer_agree(kind: str) -> None:
    """A session with several pictures, sampled in chunks that cut them, and the same log as one row of training."""
    model, processor = random_model(config(kind), seed=3).eval(), byte_processor(config(kind))
    settings = EngineConfig(page_size=16, kv_tokens=4096, state_rows=8, token_budget=24)
    turns = []
    with Engine(model, processor, settings) as engine, engine.open() as session:
        for n, size in enumerate([(32, 48), (64, 32), (32, 48)]):
            shot = np.random.default_rng(n).integers(0, 256, (48, 80, 3), np.uint8)
            prompt = processor.render([{"role": "user", "content": [{"type": "image", "image": shot}, f"{size}?"]}])
            session.append(prompt)
            result = session.generate(SamplingParams(max_tokens=9, temperature=1.0, seed=n, ignore_eos=True)).result()
            turns.append(SampledTurn(prompt, result))
        never = engine_never(engine)
    rollout = Rollout(Task("t", "t"), False, Outcome.FAILURE, (), {})
    learner = Learner(model.requires_grad_(True))
    assert disagreement(learner, turns, rollout, Drawing(1.0, never)) <= 1.001


def engine_never(engine: Engine) -> Any:
    from holotron.engine.sampler import never_mask

    return never_mask(engine.model)
