"""The engine that plays, beside the learner: one load, two models.

Engine and trainer need their own copy of what learns: the engine goes on sampling by the old weights while the trainer
computes new ones. What never changes (a frozen tower, everything without an adapter) is the same memory in both.
"""

from __future__ import annotations

import re
from copy import deepcopy

import torch

from holotron.engine.api import EngineConfig
from holotron.model.model import Holotron
from holotron.rollouts.processes import Place
from holotron.training import lora
from holotron.training.distributed import Ranks
from holotron.training.recipe import LoraPart
from holotron.training.rl.recipe import RlRecipe


def twin(model: Holotron, adapters: LoraPart | None = None) -> Holotron:
    """A model with the weights of right now, before adapters are put on. `adapters`: those that will be; the matrices
    they go to change in the engine, where they are merged."""
    pattern = re.compile(lora.adapted(adapters)) if adapters is not None else None

    def changes(name: str) -> bool:
        return pattern is not None and pattern.fullmatch(name.rpartition(".")[0]) is not None

    named = model.named_parameters()
    shared = {id(p): p for name, p in named if not p.requires_grad and not changes(name)}
    copy = deepcopy(model, shared)
    # Parameters that learn are to be written by `update_weights` alone.
    return copy.requires_grad_(False)


def engine_devices(count: int, where: Ranks, place: Place) -> list[str]:
    """Of so many engines in processes of their own: GPUs that no rank trains on, in turn; where there are none, those
    of the ranks."""
    if where.device.type != "cuda" or place.own_gpus:
        return [where.device.type] * count
    gpus = list(range(torch.cuda.device_count()))
    free = gpus[where.count :] or gpus
    return [f"cuda:{free[n % len(free)]}" for n in range(count)]


def engine_config(recipe: RlRecipe) -> EngineConfig:
    part = recipe.engine
    return EngineConfig(
        kv_tokens=part.kv_tokens,
        state_rows=part.state_rows,
        token_budget=max(part.token_budget, recipe.rollouts.sessions + 1),
        gather=part.gather,
        max_running=recipe.rollouts.sessions + 1,  # and the probe
        host_bytes=part.host_bytes,
        expected_tokens=recipe.agent.max_tokens,
        prefix_cache_bytes=0,
    )
