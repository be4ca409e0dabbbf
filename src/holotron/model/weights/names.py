"""Which tensors a checkpoint of each family holds, and where each of them lives in the module tree.

The module tree is named after the published vision-language checkpoint, so for that family a tensor's key *is* its
parameter's name. Text-only checkpoints drop a prefix, Qwen3 has names of its own, and experts are stored one by one but
kept stacked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from torch import Tensor

from holotron.model import qwen3_5
from holotron.model.config import ModelConfig
from holotron.model.model import Holotron

# Tensors that published files may carry and this model has no use for.
_IGNORED = re.compile(
    r"(^|\.)mtp\.|^sound|(^|\.)video_embedder\.|(^|\.)rotary_emb\.inv_freq$|^vision_model\.radio_model\.(summary_idxs$|input_conditioner\.)"
)


@dataclass(frozen=True)
class Entry:
    """One tensor of a checkpoint: its key, the parameter it belongs to, and which slice of it (for experts)."""

    key: str
    parameter: str
    index: int | None
    shape: tuple[int, ...]


def ignored(key: str) -> bool:
    return _IGNORED.search(key) is not None


def entries(model: Holotron) -> list[Entry]:
    """Every tensor the checkpoint of this model must hold, in a stable order. Works on the meta device."""
    found: list[Entry] = []
    for name, tensor in named_tensors(model):
        stacked = re.fullmatch(r"(.*\.experts)\.(gate_proj|up_proj|down_proj)", name)
        if stacked:
            for j in range(tensor.shape[0]):
                key = public_key(f"{stacked[1]}.{j}.{stacked[2]}.weight", model.config)
                found.append(Entry(key, name, j, tuple(tensor.shape[1:])))
        else:
            found.append(Entry(public_key(name, model.config), name, None, tuple(tensor.shape)))
    return found


def named_tensors(model: Holotron) -> list[tuple[str, Tensor]]:
    """Parameters and persistent buffers; a tied head appears once, as the embedding."""
    state = model.state_dict(keep_vars=True)
    if model.config.decoder.tied_embeddings:
        state.pop("language_model.lm_head.weight", None)
    return list(state.items())


def public_key(name: str, config: ModelConfig) -> str:
    if config.family == "nemotron_vl":
        return name
    name = name.removeprefix("language_model.")
    if config.family == "qwen3_5":
        return qwen3_5.tensor_key(name)
    return name if config.family == "nemotron_h" else _qwen3_key(name)


_QWEN3 = {
    "backbone.embeddings.weight": "model.embed_tokens.weight",
    "backbone.norm_f.weight": "model.norm.weight",
    "lm_head.weight": "lm_head.weight",
}


def _qwen3_key(name: str) -> str:
    """Two of our layers, attention then MLP, are one of Qwen's."""
    if name in _QWEN3:
        return _QWEN3[name]
    match = re.fullmatch(r"backbone\.layers\.(\d+)\.(norm|mixer)\.(.+)", name)
    assert match, name
    pair, second = divmod(int(match[1]), 2)
    if match[2] == "norm":
        return f"model.layers.{pair}.{'post_attention_layernorm' if second else 'input_layernorm'}.{match[3]}"
    return f"model.layers.{pair}.{'mlp' if second else 'self_attn'}.{match[3]}"
