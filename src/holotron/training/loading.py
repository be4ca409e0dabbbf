"""The model to train, from its recipe: weights, processor, heads, and which parts of it learn."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from holotron.errors import CheckpointError, ConfigError
from holotron.model.loading import load_model, resolve
from holotron.model.processor import ChatTemplate, Processor
from holotron.model.weights.names import entries
from holotron.training.learner import LOSSES, Learner
from holotron.training.recipe import Recipe

HEADS = "training/heads.safetensors"  # beside an exported checkpoint: for the next stage, not for serving
HEAD_PREFIX = "training."  # of the same tensors in a file of weights


def load_learner(recipe: Recipe, device: torch.device) -> tuple[Learner, Processor]:
    if device.type == "cuda":
        # cuDNN's attention prepares a plan for every new shape, a good part of a second each; packed batches have new
        # shapes at every step.
        torch.backends.cuda.enable_cudnn_sdp(False)
    wanted = recipe.model
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}.get(
        wanted.dtype, torch.bfloat16 if device.type == "cuda" else torch.float32
    )
    model, processor = load_model(wanted.source, device=device, dtype=dtype, seed=recipe.seed)
    found = resolve(wanted.source)
    if wanted.template:
        if isinstance(found, Path):
            raise ConfigError("model.template is for presets; a checkpoint brings its own")
        processor.template = ChatTemplate.builtin(wanted.template, processor.tokenizer.special)

    losses = {name for name in LOSSES[1:] if getattr(recipe.loss, name)}
    if losses & {"reading", "reading_rows"}:
        losses |= {"reading", "reading_rows"}
    if losses and model.vision_model is None:
        raise ConfigError(f"the losses {', '.join(sorted(losses))} need a vision tower and {wanted.source} has none")
    torch.manual_seed(recipe.seed)
    learner = Learner(model, losses)
    if losses and isinstance(found, Path) and (found / HEADS).exists():
        # A stage may have other losses than the one before it: heads that are new start from nothing.
        learner.heads.load_state_dict(load_file(found / HEADS, device=str(device)), strict=False)
    if wanted.weights is not None:
        overlay(learner, wanted.weights)
    for part in wanted.learn:
        if (module := getattr(model, part)) is not None:
            module.requires_grad_(recipe.lora is None)
    model.language_model.checkpoint_layers = wanted.checkpoint_layers
    return learner.train(), processor


def overlay(learner: Learner, file: Path) -> None:
    """Lay the tensors of a file over the learner's: a stage's weights without the parts it left alone. Heads that this
    learner has no use for are passed over; anything else that does not fit is an error."""
    try:
        tensors = load_file(file)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"cannot read the weights {file}: {error}") from error
    state = dict(learner.state_dict(keep_vars=True))
    unused = tuple(f"{HEAD_PREFIX}{name}." for name in LOSSES if name not in learner.heads)
    places: dict[str, Tensor] = {
        name.replace("heads.", HEAD_PREFIX, 1): tensor for name, tensor in state.items() if name.startswith("heads.")
    }
    for entry in entries(learner.model):
        tensor = state[f"model.{entry.parameter}"]
        places[entry.key] = tensor if entry.index is None else tensor[entry.index]
    problems = []
    for key, value in tensors.items():
        if key not in places:
            if not key.startswith(unused):
                problems.append(f"{key} is not a tensor of this model")
        elif places[key].shape != value.shape:
            problems.append(f"{key} is {list(value.shape)} and should be {list(places[key].shape)}")
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise CheckpointError(f"{file} does not fit: {problems[0]}{more}")
    with torch.no_grad():
        for key, value in tensors.items():
            if key in places:
                places[key].copy_(value)
