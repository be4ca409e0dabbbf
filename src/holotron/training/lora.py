"""LoRA through PEFT: small matrices beside the large ones learn, the large ones stay as they are.

Adapters are kept in fp32 beside 16-bit weights. They are saved in PEFT's own format, and can be merged into the
weights, after which the model is an ordinary checkpoint again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from holotron.errors import ConfigError, MissingDependency
from holotron.model.adapters import merge_adapter
from holotron.training.learner import Learner
from holotron.training.recipe import LoraPart

_BASE = re.compile(r"\.base_layer(?=\.)")
_NAME = "default"


def adapted(recipe: LoraPart, parts: tuple[str, ...] = ("language_model",)) -> str:
    """A pattern for the names of the modules that get an adapter."""
    names = "|".join(re.escape(target) for target in recipe.targets)
    return rf"({'|'.join(parts)})\..*\.({names})"


def add(learner: Learner, recipe: LoraPart, parts: tuple[str, ...] = ("language_model",)) -> Any:
    """Put adapters on the targets within `parts` of the model; returns PEFT's configuration."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise MissingDependency.extra("peft", "train") from None
    config = LoraConfig(
        r=recipe.rank,
        lora_alpha=recipe.alpha,
        lora_dropout=recipe.dropout,
        target_modules=adapted(recipe, parts),
    )
    try:
        inject_adapter_in_model(config, learner.model, _NAME)
    except ValueError as error:
        raise ConfigError(f"lora.targets {', '.join(recipe.targets)} fit no matrix of {', '.join(parts)}") from error
    for name, parameter in learner.model.named_parameters():
        if ".lora_" in name:
            parameter.data = parameter.data.float()
    return config


def is_adapter(name: str) -> bool:
    return ".lora_" in name


def merged(state: dict[str, Tensor], recipe: LoraPart) -> dict[str, Tensor]:
    """The weights with W + (alpha / rank) B A in place of every adapted W, under their plain names."""
    whole = {}
    for name, tensor in state.items():
        if is_adapter(name):
            continue
        if _BASE.search(name) and name.endswith(".weight"):
            stem = name.removesuffix(".base_layer.weight")
            down, up = state[f"{stem}.lora_A.{_NAME}.weight"], state[f"{stem}.lora_B.{_NAME}.weight"]
            tensor = merge_adapter(tensor, down, up, recipe.alpha / recipe.rank)
        whole[_BASE.sub("", name)] = tensor
    return whole


def save_adapter(state: dict[str, Tensor], config: Any, folder: Path, base_model: str) -> None:
    """As PEFT writes it: `PeftModel.from_pretrained(model, folder)` reads it back."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        f"base_model.model.{name.replace(f'.{_NAME}.', '.')}": tensor.contiguous()
        for name, tensor in state.items()
        if is_adapter(name)
    }
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config.base_model_name_or_path = base_model
    config.save_pretrained(str(folder))


@contextmanager
def without(learner: Learner) -> Iterator[None]:
    """Inside, the model computes as if it had no adapters."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [module for module in learner.model.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)
