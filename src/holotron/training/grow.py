"""A deeper network that begins by doing what a shallower one has learnt.

    model = grow(model, "M-M*-M*-(M*-M*-)M*-M-", seed=0)          # new layers in brackets, the others as they are

Every layer adds to the residual stream. A new layer whose last product is zero adds nothing, so the grown network gives
the same numbers as before, bit for bit, and still learns: the gradient of that product is not zero. Nothing that was
paid for is thrown away, and depth comes when there is time to train it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import torch

from holotron.errors import ConfigError
from holotron.model.config import ModelConfig, VisionConfig
from holotron.model.model import Holotron
from holotron.model.weights import random_model

_LAYER = re.compile(r"language_model\.backbone\.layers\.(\d+)\.(.+)")
_LAST = (
    "mixer.out_proj.weight",
    "mixer.o_proj.weight",
    "mixer.down_proj.weight",
)  # what a layer adds comes out of these


def grown_pattern(marked: str, before: str) -> tuple[str, list[int]]:
    """The new pattern, and where in it the layers of `before` stand. `marked` has new layers in brackets."""
    if not re.fullmatch(r"([M*-]*\([M*-]+\))+[M*-]*", marked):
        raise ConfigError(
            f"model.grow = {marked!r}: write the whole pattern with the new layers in brackets, such as M-(M*-)M-; new "
            "layers are M, * or -"
        )
    pattern, kept, new = "", [], False
    for letter in marked:
        if letter in "()":
            new = letter == "("
            continue
        if not new:
            kept.append(len(pattern))
        pattern += letter
    if (old := "".join(pattern[place] for place in kept)) != before:
        raise ConfigError(f"model.grow = {marked!r} is {old} without its brackets, and the model's layers are {before}")
    return pattern, kept


def grow(model: Holotron, marked: str, seed: int = 0) -> Holotron:
    """The same network with more layers; new ones start from random weights and add nothing yet."""
    pattern, kept = grown_pattern(marked, model.config.decoder.pattern)
    config = replace(model.config, decoder=replace(model.config.decoder, pattern=pattern), raw=None)
    grown = random_model(config, device=model.device, dtype=model.dtype, seed=seed)
    state = grown.state_dict()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            state[_moved(name, kept)].copy_(tensor)
        for name, tensor in state.items():
            found = _LAYER.fullmatch(name)
            if found and int(found[1]) not in kept and found[2] in _LAST:
                tensor.zero_()
    return grown.eval().requires_grad_(False)


def _moved(name: str, kept: list[int]) -> str:
    """Where a tensor of the old network lies in the new one."""
    found = _LAYER.fullmatch(name)
    return f"language_model.backbone.layers.{kept[int(found[1])]}.{found[2]}" if found else name


def with_pictures(config: ModelConfig, **changes: Any) -> ModelConfig:
    """The same network, shown pictures in another way: see `ImageConfig`."""
    if changes.get("sparse") and not isinstance(config.vision, VisionConfig):
        raise ConfigError("model.sparse needs a RADIO tower that reads tiles")
    return replace(config, image=replace(config.image, **changes), raw=None)


def with_positions(config: ModelConfig, most: int) -> ModelConfig:
    """The same network, for conversations of up to so many tokens: safe where attention has no positions to run out of,
    or was trained that far."""
    return replace(config, decoder=replace(config.decoder, max_positions=most), raw=None)
