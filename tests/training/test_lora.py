from __future__ import annotations

from pathlib import Path

import pytest
import torch

from holotron.errors import ConfigError
from holotron.model.loading import load_model
from holotron.training.distributed import Ranks
from holotron.training.trainer import Trainer
from tests.training.support import conversation_recipe, write_conversations


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_conversations(tmp_path_factory.mktemp("data"))


def test_adapters_learn_and_merge_and_peft_reads_them(data, tmp_path):
    from peft import PeftModel

    recipe = conversation_recipe(
        data,
        lora={"rank": 4, "alpha": 8},
        model={"source": "tiny", "template": "turns", "checkpoint_layers": True},
        optimiser={"lr": 1e-2},
        schedule={"steps": 12, "warmup": 2},
    )
    trainer = Trainer(recipe, tmp_path / "run", Ranks())
    learning = {name for name, p in trainer.learner.named_parameters() if p.requires_grad}
    assert learning and all(".lora_" in name for name in learning)
    trainer.run()

    ids = torch.arange(40) % 250
    base, _ = load_model("tiny", device="cpu")
    merged, _ = load_model(tmp_path / "run" / "model", device="cpu")
    before = base(ids)
    assert (merged(ids) - before).abs().max() > 0.1
    adapted = PeftModel.from_pretrained(base, str(tmp_path / "run" / "adapter")).base_model.model
    torch.testing.assert_close(adapted(ids), merged(ids), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(trainer.learner.model.eval()(ids), merged(ids), rtol=1e-4, atol=1e-4)
    # The optimiser's checkpoint holds the adapters and nothing else.
    size = sum(file.stat().st_size for file in (tmp_path / "run" / "checkpoints").rglob("*.safetensors"))
    assert size < 4 * sum(p.numel() for p in base.parameters())


def test_an_adapter_can_stay_apart(data, tmp_path):
    recipe = conversation_recipe(data, lora={"rank": 2, "merge": False}, schedule={"steps": 1})
    Trainer(recipe, tmp_path / "run", Ranks()).run()
    assert (tmp_path / "run" / "adapter" / "adapter_config.json").exists()
    assert not (tmp_path / "run" / "model").exists()


def test_targets_must_exist(data, tmp_path):
    recipe = conversation_recipe(data, lora={"targets": ["nothing"]})
    with pytest.raises(ConfigError, match="nothing"):
        Trainer(recipe, tmp_path / "run", Ranks())
