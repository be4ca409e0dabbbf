"""Growing: the deeper network begins as the shallower one, to the bit, and then learns."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from holotron.errors import ConfigError
from holotron.model.loading import load_model
from holotron.model.weights import load_checkpoint, random_model, save_checkpoint
from holotron.training.grow import grow, grown_pattern, with_pictures, with_positions
from tests.training.support import small_config


def test_brackets_say_which_layers_are_new():
    assert grown_pattern("M-(M*-)M-", "M-M-") == ("M-M*-M-", [0, 1, 5, 6])
    assert grown_pattern("(M)M-M-(-)", "M-M-") == ("MM-M--", [1, 2, 3, 4])


@pytest.mark.parametrize("marked", ["M-M-", "M-()M-", "M-(M*-M-", "M-(E)M-", "M-((M))M-", ""])
def test_a_pattern_that_marks_nothing_new_is_refused(marked):
    with pytest.raises(ConfigError, match="in brackets"):
        grown_pattern(marked, "M-M-")


def test_a_pattern_of_another_model_is_refused():
    with pytest.raises(ConfigError, match=r"M-M- without its brackets.*are M-\*-"):
        grown_pattern("M-(M)M-", "M-*-")


def test_the_shipped_policy_says_the_same_after_growing(tmp_path):
    """Same logits to the bit, with a picture in the prompt, also after a round trip through files."""
    model, _ = load_model("holotron-mini", device="cpu")
    grown = grow(model, "M-M*-M*-(M*-M*-)M*-M-")
    torch.manual_seed(0)
    ids = torch.cat([torch.randint(32, 127, (40,)), torch.full((100,), 256), torch.randint(32, 127, (20,))])
    pixels = torch.randn(1, 3, 320, 320)
    with torch.inference_mode():
        before = model(ids, pixels=pixels)
        assert torch.equal(grown(ids, pixels=pixels), before)
        save_checkpoint(grown, tmp_path)
        again = load_checkpoint(tmp_path)
        assert again.config.decoder.pattern == "M-M*-M*-M*-M*-M*-M-"
        assert torch.equal(again(ids, pixels=pixels), before)


def test_new_layers_learn():
    """After one step of any size the new layers are no longer silent, in all three kinds."""
    model = random_model(small_config(), seed=1)
    grown = grow(model, "M-(M*-)*-M-", seed=2).requires_grad_(True)
    grown(torch.arange(20)).square().sum().backward()
    new = [grown.language_model.backbone.layers[place] for place in (2, 3, 4)]
    assert all(any(p.grad is not None and p.grad.any() for p in layer.parameters()) for layer in new)


def test_more_tiles_change_the_settings_alone(tmp_path):
    model = random_model(small_config())
    model.config = with_positions(with_pictures(model.config, max_tiles=12), 65_536)
    save_checkpoint(model, tmp_path)
    again = load_checkpoint(tmp_path).config
    assert again.image == replace(small_config().image, max_tiles=12)
    assert again.decoder.max_positions == 65_536
    assert again.vision == small_config().vision
