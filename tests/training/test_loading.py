"""Starting from weights alone: a file laid over a preset, heads included."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from holotron.errors import CheckpointError, ConfigError
from holotron.model.loading import model_config, resolve
from holotron.model.presets import preset
from holotron.training.loading import load_learner
from holotron.training.recipe import make_recipe

CPU = torch.device("cpu")
STAGE_0 = Path(__file__).parents[2] / "recipes/holotron-mini/weights/0-reading.safetensors"


def recipe(weights: Path | None, source: str = "tiny", reading: float = 0.5):
    return make_recipe(
        {
            "name": "t",
            "model": {"source": source, **({"weights": str(weights)} if weights else {})},
            "data": [{"kind": "text"}],
            "loss": {"reading": reading},
            "schedule": {"steps": 1},
        }
    )


def test_tensors_of_the_file_replace_those_of_the_model_and_nothing_else(tmp_path):
    before = load_learner(recipe(None), CPU)[0].state_dict()
    head = "heads.reading.classify.bias"
    values = {
        "mlp1.1.weight": torch.randn_like(before["model.mlp1.1.weight"]),
        "training.reading.classify.bias": torch.randn_like(before[head]),
    }
    save_file(values, tmp_path / "w.safetensors")
    after = load_learner(recipe(tmp_path / "w.safetensors"), CPU)[0].state_dict()
    assert torch.equal(after["model.mlp1.1.weight"], values["mlp1.1.weight"])
    assert torch.equal(after[head], values["training.reading.classify.bias"])
    same = [name for name in before if torch.equal(before[name], after[name])]
    assert len(same) == len(before) - 2
    # A learner without reading heads passes over them.
    assert not load_learner(recipe(tmp_path / "w.safetensors", reading=0), CPU)[0].heads


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"mlp1.9.weight": torch.zeros(3)}, "is not a tensor of this model"),
        ({"mlp1.1.weight": torch.zeros(3)}, r"is \[3\] and should be"),
        ({"training.other.bias": torch.zeros(3)}, "is not a tensor of this model"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, values, complaint):
    save_file(values, tmp_path / "w.safetensors")
    with pytest.raises(CheckpointError, match=complaint):
        load_learner(recipe(tmp_path / "w.safetensors"), CPU)
    (tmp_path / "w.safetensors").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="cannot read the weights"):
        load_learner(recipe(tmp_path / "w.safetensors"), CPU)


def test_the_shipped_tower_fits_the_preset():
    learner, _ = load_learner(recipe(STAGE_0, "preset:holotron-mini"), CPU)
    stored = load_file(STAGE_0)
    name = "vision_model.radio_model.model.blocks.5.mlp.fc2.weight"
    assert torch.equal(learner.state_dict()[f"model.{name}"], stored[name].float())
    assert torch.equal(
        learner.heads.state_dict()["reading_rows.norm.weight"], stored["training.reading_rows.norm.weight"].float()
    )


def test_a_preset_can_be_asked_for_by_name_beside_a_bundled_model():
    assert resolve("preset:holotron-mini") == model_config("preset:holotron-mini") == preset("holotron-mini")
    with pytest.raises(ConfigError, match="there is no preset"):
        resolve("preset:nothing")
