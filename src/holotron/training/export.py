"""The end of a run: the model in the published layout, with its tokenizer and a card that says how it was made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

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
from holotron.training.checkpoint import Progress
from holotron.training.loading import DTYPES, HEADS
from holotron.training.recipe import Recipe

if TYPE_CHECKING:
    from holotron.training.rl.recipe import RlRecipe
    from holotron.training.trainer import Trainer

FOLDER = "model"


def export(trainer: Trainer, figures: dict[str, float]) -> Path:
    """Write `out/model` (and `out/adapter` with LoRA). Every rank must call it; the first one writes."""
    recipe, learner = trainer.recipe, trainer.learner
    state = _whole_state(trainer)
    folder = trainer.out / FOLDER
    if not trainer.where.first:
        return folder
    config = learner.model.config
    dtype = DTYPES.get(recipe.save.dtype, learner.model.dtype)
    weights = {name.removeprefix("model."): t for name, t in state.items() if name.startswith("model.")}
    heads = {name.removeprefix("heads."): t for name, t in state.items() if name.startswith("heads.")}
    if recipe.lora is not None:
        lora.save_adapter(weights, trainer.adapter, trainer.out / "adapter", recipe.model.source)
        if not recipe.lora.merge:
            return folder
        weights = lora.merged(weights, recipe.lora)
    with torch.device("meta"):
        model = Holotron(replace(config, name=recipe.name))
    model.load_state_dict(weights, assign=True)
    model.file_dtypes = learner.model.file_dtypes
    save_checkpoint(model, folder, card=card(recipe, trainer.progress, figures), dtype=dtype)
    trainer.processor.save(folder)
    if recipe.agent is not None:
        agent = recipe.agent
        profile = Profile(
            agent.dialect,
            history=agent.history,
            views={suite: part.view() for suite, part in agent.views.items()},
            deltas=agent.tolerance,
        )
        write_profile(folder, profile)
    if heads:
        (folder / HEADS).parent.mkdir(exist_ok=True)
        save_file({name: t.contiguous() for name, t in heads.items()}, folder / HEADS)
    return folder


def _whole_state(trainer: Trainer) -> dict[str, Tensor]:
    """Every tensor in full, on the CPU: the fp32 original where there is one."""
    state: dict[str, Tensor] = {}
    for name, tensor in trainer.learner.state_dict(keep_vars=True).items():
        value = tensor.detach()
        if (original := trainer.optimiser.originals.get(name)) is not None:
            value = original.detach()
        if isinstance(tensor, DTensor):
            if original is None:
                value = tensor.full_tensor()
            else:
                sharded = DTensor.from_local(
                    value, tensor.device_mesh, tensor.placements, shape=tensor.shape, stride=tensor.stride()
                )
                value = sharded.full_tensor()
        if trainer.where.first:
            state[name] = value.cpu()
    return state


def card(recipe: Recipe, progress: Progress, figures: dict[str, float]) -> ModelCard:
    data = "\n".join(f"- {source.kind}, weight {source.weight:g}" for source in recipe.data)
    done = (
        f"{'LoRA' if recipe.lora else 'Full'} fine-tuning, seed {recipe.seed}: {progress.step:,} steps, "
        f"{progress.samples:,} samples, {progress.pictures:,} pictures, {progress.tokens:,} tokens of which "
        f"{progress.learnt:,} were learnt, {progress.seconds / 60:.1f} minutes."
    )
    whole = {name: value for name, value in figures.items() if name.count("/") == 1}
    return derived_card(recipe, [done, f"Data:\n\n{data}"], whole)


def derived_card(recipe: Recipe | RlRecipe, story: list[str], figures: dict[str, float]) -> ModelCard:
    """The card of what a recipe made: what it is about, how it went, and the recipe itself."""
    base = recipe.model.source
    lines = [recipe.about, *story, f"```json\n{recipe.model_dump_json(indent=2, exclude_defaults=True)}\n```"]
    return ModelCard(
        recipe.name,
        base_model=base if isinstance(resolve(base), Path) else None,
        recipe="\n\n".join(line for line in lines if line),
        figures={name: f"{value:.4f}" for name, value in figures.items()},
    )
