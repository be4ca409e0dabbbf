"""What a stage starts from."""

from __future__ import annotations

import pytest

from holotron.errors import ConfigError
from holotron.model.bundled import bundled_folder
from holotron.model.loading import load_model, model_config, resolve
from holotron.model.presets import preset


def test_the_bundled_policy_is_a_checkpoint_of_its_preset():
    """The shape is the preset's, the weights are its own, and it is small enough to travel with the package."""
    config = model_config("holotron-mini")
    assert config.decoder == preset("holotron-mini").decoder
    assert sum(file.stat().st_size for file in bundled_folder().rglob("*")) <= 24_000_000
    model, _ = load_model("holotron-mini", device="cpu")
    untrained, _ = load_model("preset:holotron-mini", device="cpu")
    names = dict(untrained.named_parameters())
    assert all(p.shape == names[name].shape for name, p in model.named_parameters())


def test_a_preset_can_be_asked_for_by_name_beside_a_bundled_model():
    assert resolve("preset:holotron-mini") == model_config("preset:holotron-mini") == preset("holotron-mini")
    with pytest.raises(ConfigError, match="there is no preset"):
        resolve("preset:nothing")
