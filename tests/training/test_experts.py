"""A mixture of experts learns: supervised, with adapters beside frozen experts, and from rewards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from holotron.model.config import ModelConfig, MoEConfig
from holotron.model.loading import byte_processor, load_model
from holotron.model.presets import preset
from holotron.model.weights import random_model, save_checkpoint
from holotron.training.curves import read_metrics
from holotron.training.distributed import Ranks
from holotron.training.trainer import Trainer
from tests.training.rl.support import small_config, two_updates, untrained
from tests.training.support import conversation_recipe, write_conversations


def with_experts(config: ModelConfig, pattern: str) -> ModelConfig:
    experts = MoEConfig(experts=4, top_k=2, width=32, shared_width=32, scale=1.5)
    return replace(config, name="", decoder=replace(config.decoder, pattern=pattern, mlp=None, moe=experts))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_conversations(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("experts")
    config = with_experts(preset("tiny"), "ME*E")
    save_checkpoint(random_model(config), folder)
    byte_processor(config).save(folder)
    return folder


@pytest.mark.parametrize("lora", [None, {"rank": 4, "alpha": 8}], ids=["full", "lora"])
def test_it_learns_from_conversations(lora: dict[str, Any] | None, start: Path, data: Path, tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "model": {"source": str(start), "checkpoint_layers": True},
        "schedule": {"steps": 10, "warmup": 2},
        "optimiser": {"lr": 5e-3 if lora is None else 2e-2},
    }
    trainer = Trainer(
        conversation_recipe(data, **changes | ({"lora": lora} if lora else {})), tmp_path / "run", Ranks()
    )
    trainer.run()
    losses = [row["loss/reply"] for row in read_metrics(tmp_path / "run") if "loss/reply" in row]
    assert losses[-1] < 0.8 * losses[0], losses

    before, _ = load_model(start, device="cpu")
    after, _ = load_model(tmp_path / "run" / "model", device="cpu")
    changed = {
        name
        for (name, old), new in zip(before.named_parameters(), after.parameters(), strict=True)
        if not torch.equal(old, new)
    }
    experts = {name for name in dict(before.named_parameters()) if ".experts." in name or name.endswith("gate.weight")}
    assert experts
    assert experts <= changed if lora is None else not experts & changed


def test_it_learns_from_rewards_and_the_engine_gets_the_experts(tmp_path: Path) -> None:
    start = untrained(tmp_path / "start", with_experts(small_config(), "ME*E"))
    learnt = dict(two_updates(start, tmp_path / "run").learner.model.named_parameters())
    before, _ = load_model(start, device="cpu")
    stacks = [name for name, _ in before.named_parameters() if ".experts." in name]
    assert stacks
    assert any(not torch.equal(dict(before.named_parameters())[name], learnt[name]) for name in stacks)
