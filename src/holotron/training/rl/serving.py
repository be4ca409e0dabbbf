"""The engine that plays, beside the learner: one load, two models.

Engine and trainer need their own copy of what learns: the engine goes on sampling by the old weights while the trainer
computes new ones. What never changes (a frozen tower, everything without an adapter) is the same memory in both.
"""

from __future__ import annotations

import re
from copy import deepcopy

from holotron.engine.api import EngineConfig
from holotron.model.model import Holotron
from holotron.training import lora
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
