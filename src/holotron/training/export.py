"""The end of a run: the model in the published layout, with its tokenizer, a card that says how it was made, and what
it says of itself to whoever lets it act."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.distributed.tensor import DTensor

from holotron.agent.profiles import Profile, write_profile
from holotron.model.loading import resolve
from holotron.model.model import Holotron
from holotron.model.weights import save_checkpoint
from holotron.model.weights.card import ModelCard
from holotron.training import lora
from holotron.training.loading import DTYPES, HEADS
from holotron.training.optimiser import like
from holotron.training.recipe import CommonRecipe

if TYPE_CHECKING:
    from holotron.training.loop import TrainingLoop

FOLDER = "model"


def export(run: TrainingLoop[Any], story: Sequence[str], figures: Mapping[str, float], profile: Profile | None) -> Path:
    """Write `out/model` (and `out/adapter` with LoRA). Every rank must call it; the first one writes. `story`: for the
    card, how it went. `profile`: what goes to its agent.json."""
    recipe, learner = run.recipe, run.learner
    state = _whole_state(run)
    folder = run.out / FOLDER
    if not run.where.first:
        return folder
    config = learner.model.config
    dtype = DTYPES.get(recipe.save.dtype, learner.model.dtype)
    weights = {name.removeprefix("model."): t for name, t in state.items() if name.startswith("model.")}
    heads = {name.removeprefix("heads."): t for name, t in state.items() if name.startswith("heads.")}
    if recipe.lora is not None:
        lora.save_adapter(weights, run.adapter, run.out / "adapter", recipe.model.source)
        if not recipe.lora.merge:
            return folder
        weights = lora.merged(weights, recipe.lora)
    with torch.device("meta"):
        model = Holotron(replace(config, name=recipe.name))
    model.load_state_dict(weights, assign=True)
    model.file_dtypes = learner.model.file_dtypes
    save_checkpoint(model, folder, card=card(recipe, story, figures), dtype=dtype)
    run.processor.save(folder)
    if profile is not None:
        write_profile(folder, profile)
    if heads:
        (folder / HEADS).parent.mkdir(exist_ok=True)
        save_file({name: t.contiguous() for name, t in heads.items()}, folder / HEADS)
    return folder


def _whole_state(run: TrainingLoop[Any]) -> dict[str, Tensor]:
    """Every tensor in full, on the CPU: the fp32 original where there is one."""
    state: dict[str, Tensor] = {}
    for name, tensor in run.learner.state_dict(keep_vars=True).items():
        original = run.optimiser.originals.get(name)
        value = tensor.detach() if original is None else like(tensor, original.detach())
        if isinstance(value, DTensor):
            value = value.full_tensor()
        if run.where.first:
            state[name] = value.cpu()
    return state


def card(recipe: CommonRecipe, story: Sequence[str], figures: Mapping[str, float]) -> ModelCard:
    """The card of what a recipe made: what it is about, how it went, and the recipe itself."""
    base = recipe.model.source
    lines = [recipe.about, *story, f"```json\n{recipe.model_dump_json(indent=2, exclude_defaults=True)}\n```"]
    whole = {name: value for name, value in figures.items() if name.count("/") == 1}  # the rest are details
    return ModelCard(
        recipe.name,
        base_model=base if isinstance(resolve(base), Path) else None,
        recipe="\n\n".join(line for line in lines if line),
        figures={name: f"{value:.4f}" for name, value in whole.items()},
    )
