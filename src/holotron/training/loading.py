"""The model to train, from its recipe: weights, processor, heads, and which parts of it learn."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import torch
from safetensors.torch import load_file

from holotron.errors import ConfigError
from holotron.model.loading import load_model, resolve
from holotron.model.processor import ChatTemplate, Processor
from holotron.training.grow import grow, with_pictures, with_positions
from holotron.training.learner import Learner
from holotron.training.recipe import CommonRecipe, ModelPart

HEADS = "training/heads.safetensors"  # beside an exported checkpoint: for the next stage, not for serving
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}  # by the names that recipes use


def working_dtype(wanted: ModelPart, device: torch.device) -> torch.dtype:
    """What the forward pass runs in."""
    return DTYPES.get(wanted.dtype, torch.bfloat16 if device.type == "cuda" else torch.float32)


def load_learner(recipe: CommonRecipe, device: torch.device, losses: Collection[str] = ()) -> tuple[Learner, Processor]:
    """`losses` beside that of the tokens it says: each needs a head of its own and pictures to look at."""
    if device.type == "cuda":
        # cuDNN's attention prepares a plan for every new shape, a good part of a second each; packed batches have new
        # shapes at every step.
        torch.backends.cuda.enable_cudnn_sdp(False)
    wanted = recipe.model
    dtype = working_dtype(wanted, device)
    model, processor = load_model(wanted.source, device=device, dtype=dtype, seed=recipe.seed)
    found = resolve(wanted.source)
    if wanted.grow:
        model = grow(model, wanted.grow, recipe.seed)
    asked = {"max_tiles": wanted.max_tiles, "use_thumbnail": wanted.thumbnail, "sparse": wanted.sparse}
    if changes := {name: value for name, value in asked.items() if value is not None}:
        model.config = with_pictures(model.config, **changes)
        processor.images = model.config.image
    if wanted.max_positions is not None:
        model.config = with_positions(model.config, wanted.max_positions)
    if wanted.template:
        if isinstance(found, Path):
            raise ConfigError("model.template is for presets; a checkpoint brings its own")
        processor.template = ChatTemplate.builtin(
            wanted.template, processor.tokenizer.special, processor.tokenizer.image
        )
    if losses and model.vision_model is None:
        raise ConfigError(f"the losses {', '.join(sorted(losses))} need a vision tower and {wanted.source} has none")
    torch.manual_seed(recipe.seed)  # of heads, and of adapters
    learner = Learner(model, losses)
    if losses and isinstance(found, Path) and (found / HEADS).exists():
        # A stage may have other losses than the one before it, or more tiles: heads that are new start from nothing.
        mine = learner.heads.state_dict()
        before = load_file(found / HEADS, device=str(device))
        fitting = {name: t for name, t in before.items() if name in mine and mine[name].shape == t.shape}
        learner.heads.load_state_dict(fitting, strict=False)
    for part in wanted.learn:
        if (module := getattr(model, part)) is not None:
            module.requires_grad_(recipe.lora is None)
    model.language_model.checkpoint_layers = wanted.checkpoint_layers
    return learner.train(), processor
