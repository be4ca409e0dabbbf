"""Which tensors a checkpoint holds, and where each of them lives in the module tree.

A family says what a checkpoint calls a parameter (`Family.tensor_key`). Experts are stored one by one but kept stacked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from torch import Tensor

from holotron.model.families import family_of
from holotron.model.model import Holotron


@dataclass(frozen=True)
class Entry:
    """One tensor of a checkpoint: its key, the parameter it belongs to, and which slice of it (for experts)."""

    key: str
    parameter: str
    index: int | None
    shape: tuple[int, ...]


def entries(model: Holotron) -> list[Entry]:
    """Every tensor the checkpoint of this model must hold, in a stable order. Works on the meta device."""
    public = family_of(model.config).tensor_key
    found: list[Entry] = []
    for name, tensor in named_tensors(model):
        stacked = re.fullmatch(r"(.*\.experts)\.(gate_proj|up_proj|down_proj)", name)
        if stacked:
            for j in range(tensor.shape[0]):
                key = public(f"{stacked[1]}.{j}.{stacked[2]}.weight")
                found.append(Entry(key, name, j, tuple(tensor.shape[1:])))
        else:
            found.append(Entry(public(name), name, None, tuple(tensor.shape)))
    return found


def named_tensors(model: Holotron) -> list[tuple[str, Tensor]]:
    """Parameters and persistent buffers; a tied head appears once, as the embedding."""
    state = model.state_dict(keep_vars=True)
    if model.config.decoder.tied_embeddings:
        state.pop("language_model.lm_head.weight", None)
    return list(state.items())
