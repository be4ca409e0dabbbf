"""The ends of a run: a folder that belongs to one recipe, and the policy it leaves behind, ready to serve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from holotron.agent.profiles import write_profile
from holotron.errors import ConfigError
from holotron.model.model import Holotron
from holotron.model.weights import save_checkpoint
from holotron.model.weights.card import ModelCard
from holotron.training import lora
from holotron.training.export import FOLDER, derived_card
from holotron.training.loading import DTYPES
from holotron.training.rl.player import profile_of
from holotron.training.rl.recipe import RlRecipe

if TYPE_CHECKING:
    from holotron.training.rl.trainer import RlTrainer


def same_recipe(recipe: RlRecipe, out: Path) -> None:
    """A folder belongs to one recipe. Its end may be moved."""
    path = out / "recipe.json"
    if path.exists():
        before = RlRecipe.model_validate_json(path.read_text())
        if before.model_copy(update={"schedule": recipe.schedule}) != recipe:
            raise ConfigError(f"{out} holds a run of another recipe ({path}); choose another folder")
        return
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(recipe.model_dump_json(indent=2) + "\n")


def export_policy(trainer: RlTrainer, figures: dict[str, float]) -> Path:
    """`out/model` (and `out/adapter` with LoRA), with what it speaks and how it was made."""
    recipe, model = trainer.recipe, trainer.learner.model
    folder = trainer.out / FOLDER
    originals = trainer.optimiser.originals
    weights: dict[str, Tensor] = {
        name: originals.get(f"model.{name}", tensor).detach().cpu() for name, tensor in model.state_dict().items()
    }
    if recipe.lora is not None:
        lora.save_adapter(weights, trainer.adapter, trainer.out / "adapter", recipe.model.source)
        if not recipe.lora.merge:
            return folder
        weights = lora.merged(weights, recipe.lora)
    with torch.device("meta"):
        whole = Holotron(replace(model.config, name=recipe.name))
    whole.load_state_dict(weights, assign=True)
    whole.file_dtypes = model.file_dtypes
    dtype = DTYPES.get(recipe.save.dtype, model.dtype)
    save_checkpoint(whole, folder, card=_card(trainer, figures), dtype=dtype)
    trainer.processor.save(folder)
    write_profile(folder, profile_of(recipe.model.source, recipe.agent))
    return folder


def _card(trainer: RlTrainer, figures: dict[str, float]) -> ModelCard:
    recipe, p, c = trainer.recipe, trainer.progress, trainer.counts
    done = (
        f"Reinforcement learning on live rollouts, seed {recipe.seed}: {p.step:,} updates, {c.episodes:,} episodes "
        f"({c.successes:,} successes), {c.steps:,} steps, {c.sampled_tokens:,} tokens sampled, {p.learnt:,} learnt; "
        f"{c.kept:,} groups kept, {c.dropped:,} dropped; {p.seconds / 60:.1f} minutes."
    )
    return derived_card(recipe, [done], figures)
