"""Nemotron-H: the hybrid decoder of Mamba-2, attention and MLP or expert layers, as a text model.

Nemotron Nano v2 (`M`, `*`, `-`) and Nemotron 3 (`M`, `*`, `E`) are both of it. Its configuration is also the inner part
of the vision-language families `nemotron_vl` and `nemotron_omni`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from holotron.errors import ConfigError
from holotron.model.config import (
    AttentionConfig,
    DecoderConfig,
    MambaConfig,
    MLPConfig,
    ModelConfig,
    MoEConfig,
    TokenIds,
)
from holotron.model.families import FAMILIES
from holotron.model.families.base import Chat, Family, nested_decoder
from holotron.model.families.common import (
    Fields,
    names_kind,
    read_tokens,
    write_sizes,
    write_tokens,
)

_LETTERS = {
    "mamba": "M", "linear_attention": "M", "mamba2": "M",
    "attention": "*", "full_attention": "*",
    "mlp": "-", "moe": "E",
}  # fmt: skip

# As JSON has it, as transformers 5 writes it, and as a word.
_NO_LIMITS = tuple([0.0, most] for most in (math.inf, {"__float__": "Infinity"}, "inf", "Infinity", None))

PATTERN_30B = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"


@FAMILIES.register("nemotron_h")
class NemotronH(Family):
    name = "nemotron_h"
    model_types = ("nemotron_h", "NemotronHForCausalLM")
    chat = Chat("chatml", mark="<|im_start|>", end="<|im_end|>")  # of Nemotron 3; Nano v2 writes as `nemotron_vl` does
    # Transformers' own names in memory, which trainers may store; and a decoder that was taken out of a larger model.
    spellings = ((r"(?:language_model\.)?model\.", "backbone."), (r"language_model\.", ""))
    ignored = re.compile(r"(^|\.)mtp\.|(^|\.)rotary_emb\.inv_freq$")

    def recognises(self, data: Mapping[str, Any]) -> bool:
        if nested_decoder(data) is not None:
            return False
        # Files of before the name was settled have only the pattern.
        return names_kind(data, self.model_types) or ("hybrid_override_pattern" in data and "model_type" not in data)

    def read(self, data: Mapping[str, Any], where: str, preprocessor: Mapping[str, Any] | None = None) -> ModelConfig:
        return ModelConfig(
            decoder=read_decoder(Fields(data, where)),
            tokens=read_tokens(data, data, self.image_ids),
            name=str(data.get("_name_or_path") or ""),
            family=self.name,
            raw=dict(data),
        )

    def write(self, config: ModelConfig) -> dict[str, Any]:
        return {**write_decoder(config.decoder), **write_tokens(config.tokens)}

    def tensor_key(self, parameter: str) -> str:
        return parameter.removeprefix("language_model.")


def read_decoder(f: Fields) -> DecoderConfig:
    f.only("is_causal", True)
    pattern = _pattern(f)
    hidden = f.integer("hidden_size")
    return DecoderConfig(
        vocab=f.integer("vocab_size"),
        hidden=hidden,
        pattern=pattern,
        mamba=_mamba(f) if "M" in pattern else None,
        attention=_attention(f, hidden) if "*" in pattern else None,
        mlp=_mlp(f) if "-" in pattern else None,
        moe=_experts(f) if "E" in pattern else None,
        eps=f.number("layer_norm_epsilon", "rms_norm_eps", "norm_eps", default=1e-5),
        tied_embeddings=f.flag("tie_word_embeddings", default=False),
        max_positions=f.integer("max_position_embeddings", default=131_072),
    )


def _pattern(f: Fields) -> str:
    listed = f.strings("layers_block_type", "layer_types", "block_types")
    pattern = f.get("hybrid_override_pattern", "hybrid_layer_pattern")
    if isinstance(pattern, list):  # some write its letters apart
        pattern = "".join(map(str, pattern))
    if pattern is None and listed is None:
        raise ConfigError(f"{f.where} lacks hybrid_override_pattern / layers_block_type")
    if pattern is None:
        assert listed is not None
        unknown = sorted(set(listed) - set(_LETTERS))
        if unknown:
            raise ConfigError(f"{f.where}: unknown block types {unknown}; known are {sorted(_LETTERS)}")
        pattern = "".join(_LETTERS[kind] for kind in listed)
    if not isinstance(pattern, str):
        raise ConfigError(f"{f.where}: hybrid_override_pattern must be letters such as 'M-M*-', found {pattern!r}")
    layers = f.get("num_hidden_layers", default=len(pattern))
    if len(pattern) != layers:
        raise ConfigError(f"{f.where}: the layer pattern has {len(pattern)} letters, num_hidden_layers says {layers}")
    return pattern


def _mamba(f: Fields) -> MambaConfig:
    if f.get("use_bias", "mamba_proj_bias", default=False):
        raise ConfigError(f"{f.where}: biases in the Mamba projections are not part of this family")
    f.only("mamba_hidden_act", "silu", "swish")
    limits = f.get("time_step_limit", "mamba_dt_limit", default=_NO_LIMITS[0])
    if limits not in _NO_LIMITS:
        raise ConfigError(f"{f.where}: time_step_limit {limits} is not supported; step sizes have no limits here")
    return MambaConfig(
        heads=f.integer("mamba_num_heads", "mamba_n_heads"),
        # `expand` also appears in these files and is wrong for some sizes: heads x head_dim is the inner width.
        head_dim=f.integer("mamba_head_dim", "mamba_d_head"),
        state=f.integer("ssm_state_size", "mamba_d_state", "state_size"),
        groups=f.integer("n_groups", "mamba_n_groups", "mamba_num_groups"),
        kernel=f.integer("conv_kernel", "mamba_d_conv", default=4),
        conv_bias=f.flag("use_conv_bias", "mamba_conv_bias", default=True),
        chunk=f.integer("chunk_size", "mamba_chunk_size", default=128),
    )


def _attention(f: Fields, hidden: int) -> AttentionConfig:
    heads = f.integer("num_attention_heads")
    return AttentionConfig(
        heads=heads,
        kv_heads=f.integer("num_key_value_heads", default=heads),
        head_dim=f.integer("head_dim", "attention_head_dim", default=max(1, hidden // heads)),
    )


def _mlp(f: Fields) -> MLPConfig:
    f.only("mlp_hidden_act", "relu2")
    width = f.need("intermediate_size")
    if isinstance(width, list):
        if not width or any(other != width[0] for other in width):
            raise ConfigError(f"{f.where}: MLP layers of different widths are not supported: {width}")
        return MLPConfig(Fields({"intermediate_size": width[0]}, f.where).integer("intermediate_size"))
    return MLPConfig(f.integer("intermediate_size"))


def _experts(f: Fields) -> MoEConfig:
    f.only("mlp_hidden_act", "relu2")
    width = f.integer("moe_intermediate_size")
    shared = f.integer("n_shared_experts", default=1)
    return MoEConfig(
        experts=f.integer("n_routed_experts", "num_experts"),
        top_k=f.integer("num_experts_per_tok"),
        width=width,
        shared_width=f.integer("moe_shared_expert_intermediate_size", default=width) * shared,
        scale=f.number("routed_scaling_factor", default=1.0),
        groups=f.integer("n_group", default=1),
        top_groups=f.integer("topk_group", default=1),
        normalise=f.flag("norm_topk_prob", default=True),
        latent=f.integer("moe_latent_size") if f.get("moe_latent_size") is not None else None,
    )


def write_decoder(d: DecoderConfig) -> dict[str, Any]:
    out: dict[str, Any] = {
        "architectures": ["NemotronHForCausalLM"],
        "model_type": "nemotron_h",
        **write_sizes(d),
        "num_hidden_layers": len(d.pattern),
        "hybrid_override_pattern": d.pattern,
        "layer_norm_epsilon": d.eps,
        "residual_in_fp32": False,
    }
    if d.mamba:
        out |= {
            "mamba_num_heads": d.mamba.heads,
            "mamba_head_dim": d.mamba.head_dim,
            "ssm_state_size": d.mamba.state,
            "n_groups": d.mamba.groups,
            "conv_kernel": d.mamba.kernel,
            "chunk_size": d.mamba.chunk,
            "use_conv_bias": d.mamba.conv_bias,
            "use_bias": False,
            "mamba_hidden_act": "silu",
        }
    if d.attention:
        out |= {
            "num_attention_heads": d.attention.heads,
            "num_key_value_heads": d.attention.kv_heads,
            "head_dim": d.attention.head_dim,
            "attention_bias": False,
        }
    if d.mlp:
        out |= {"intermediate_size": d.mlp.width, "mlp_hidden_act": "relu2", "mlp_bias": False}
    if d.moe:
        out |= {
            "n_routed_experts": d.moe.experts,
            "num_experts_per_tok": d.moe.top_k,
            "moe_intermediate_size": d.moe.width,
            "moe_shared_expert_intermediate_size": d.moe.shared_width,
            "n_shared_experts": 1,
            "routed_scaling_factor": d.moe.scale,
            "n_group": d.moe.groups,
            "topk_group": d.moe.top_groups,
            "norm_topk_prob": d.moe.normalise,
            "moe_latent_size": d.moe.latent,
        }
    return out


def nemotron_3_nano_30b_a3b() -> ModelConfig:
    """The decoder of the next base: 30B parameters, 3B active, mixture of experts instead of MLPs."""
    return ModelConfig(
        name="nemotron-3-nano-30b-a3b",
        family="nemotron_h",
        decoder=DecoderConfig(
            vocab=131_072,
            hidden=2688,
            pattern=PATTERN_30B,
            mamba=MambaConfig(heads=64, head_dim=64, state=128, groups=8),
            attention=AttentionConfig(heads=32, kv_heads=2, head_dim=128),
            moe=MoEConfig(experts=128, top_k=6, width=1856, shared_width=3712, scale=2.5),
            max_positions=262_144,
        ),
        tokens=TokenIds(image=18, image_start=21, image_end=22, eos=(11,), first_unsampled=None),
    )
