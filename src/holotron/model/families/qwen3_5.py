"""Qwen3.5's text models, dense and with experts: `config.json` both ways, and the names of their tensors.

One layer of theirs is two letters here: the token mixer (`G` Gated DeltaNet or `*` gated attention), then `-` or `E`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from holotron.errors import ConfigError
from holotron.model.config import AttentionConfig, DecoderConfig, DeltaConfig, MLPConfig, ModelConfig, MoEConfig
from holotron.model.families import FAMILIES
from holotron.model.families.base import Chat, Family, nested_decoder
from holotron.model.families.common import Fields, names_kind, read_tokens, write_sizes, write_tokens
from holotron.model.families.qwen3 import layer_key
from holotron.model.families.qwen_tower import MROPE, TEXT_SPELLINGS, read_sections
from holotron.model.families.rope import read_rope

MODEL_TYPES = ("qwen3_5_text", "qwen3_5_moe_text")
_CLASSES = ("Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM")
_MIXERS = {"linear_attention": "G", "full_attention": "*"}


@FAMILIES.register("qwen3_5")
class Qwen35(Family):
    name = "qwen3_5"
    model_types: ClassVar[tuple[str, ...]] = (*MODEL_TYPES, *_CLASSES)
    chat = Chat("chatml", mark="<|im_start|>", end="<|im_end|>")
    spellings: ClassVar[tuple[tuple[str, str], ...]] = TEXT_SPELLINGS
    ignored = re.compile(r"(^|\.)mtp\.|(^|\.)rotary_emb\.inv_freq$")

    def recognises(self, data: Mapping[str, Any]) -> bool:
        return is_text(data)

    def read(self, data: Mapping[str, Any], where: str, preprocessor: Mapping[str, Any] | None = None) -> ModelConfig:
        f = Fields(data, where)
        return ModelConfig(
            decoder=decoder(f),
            tokens=read_tokens(data, data, self.image_ids),
            name=str(f.get("_name_or_path", default="")),
            family=self.name,
            raw=dict(data),
        )

    def write(self, config: ModelConfig) -> dict[str, Any]:
        return {**written(config.decoder), **write_tokens(config.tokens)}

    def tensor_key(self, parameter: str) -> str:
        return tensor_key(parameter.removeprefix("language_model."))


def is_text(data: Mapping[str, Any]) -> bool:
    """A text model that was taken out of a composite may keep one of the composite's names."""
    return nested_decoder(data) is None and names_kind(data, (*MODEL_TYPES, *_CLASSES))


def decoder(f: Fields, *, sees: bool = False) -> DecoderConfig:
    """What a text model's `config.json` (or the composite's `text_config`) describes. Left out, a field has the default
    of transformers' configuration class. Only where there are pictures (`sees`) do positions have three axes."""
    if f.get("attention_bias", default=False):
        raise ConfigError(f"{f.where}: biases in the attention projections are not part of this family")
    f.only("hidden_act", "silu", "swish")
    f.only("is_causal", True)
    f.only("output_gate_type", "swish", "silu")  # of Gated DeltaNet's norm
    f.only("attn_output_gate", True)  # of its attention
    heads, head_dim = f.integer("num_attention_heads"), f.integer("head_dim", default=256)
    rope = read_rope(f, theta=10_000.0, share=0.25, kinds=MROPE)
    sections = read_sections(rope.given, (11, 11, 10))
    experts = f.get("num_experts") is not None
    return DecoderConfig(
        vocab=f.integer("vocab_size"),
        hidden=f.integer("hidden_size"),
        pattern="".join(mixer + ("E" if experts else "-") for mixer in _mixers(f)),
        delta=DeltaConfig(
            key_heads=f.integer("linear_num_key_heads", default=16),
            value_heads=f.integer("linear_num_value_heads", default=32),
            key_dim=f.integer("linear_key_head_dim", default=128),
            value_dim=f.integer("linear_value_head_dim", default=128),
            kernel=f.integer("linear_conv_kernel_dim", default=4),
        ),
        attention=AttentionConfig(
            heads=heads,
            kv_heads=f.integer("num_key_value_heads", default=heads),
            head_dim=head_dim,
            rope_theta=rope.theta,
            qk_norm=True,
            rotary_dim=int(head_dim * rope.share),
            gated=True,
            sections=sections if sees else None,
        ),
        mlp=None if experts else MLPConfig(f.integer("intermediate_size"), "swiglu"),
        moe=_experts(f) if experts else None,
        eps=f.number("rms_norm_eps", default=1e-6),
        centred_norms=True,
        tied_embeddings=f.flag("tie_word_embeddings", default=False),
        max_positions=f.integer("max_position_embeddings", default=32_768),
    )


def _experts(f: Fields) -> MoEConfig:
    return MoEConfig(
        experts=f.integer("num_experts"),
        top_k=f.integer("num_experts_per_tok"),
        width=f.integer("moe_intermediate_size"),
        shared_width=f.integer("shared_expert_intermediate_size"),
        scoring="softmax",
        activation="swiglu",
        shared_gate=True,
    )


def _mixers(f: Fields) -> list[str]:
    layers = f.integer("num_hidden_layers")
    kinds = f.strings("layer_types")
    if kinds is None:
        every = f.integer("full_attention_interval", default=4)
        kinds = ["linear_attention" if (i + 1) % every else "full_attention" for i in range(layers)]
    unknown = sorted({str(kind) for kind in kinds} - set(_MIXERS))
    if unknown:
        raise ConfigError(f"{f.where}: unknown layer types {unknown}; known are {sorted(_MIXERS)}")
    if len(kinds) != layers:
        raise ConfigError(f"{f.where}: layer_types lists {len(kinds)} layers, num_hidden_layers says {layers}")
    return [_MIXERS[kind] for kind in kinds]


def written(d: DecoderConfig) -> dict[str, Any]:
    assert d.attention
    assert d.delta
    a, n = d.attention, d.delta
    names = {letter: kind for kind, letter in _MIXERS.items()}
    out: dict[str, Any] = {
        "architectures": ["Qwen3_5MoeForCausalLM" if d.moe else "Qwen3_5ForCausalLM"],
        "model_type": MODEL_TYPES[d.moe is not None],
        **write_sizes(d),
        "num_hidden_layers": len(d.pattern) // 2,
        "layer_types": [names[letter] for letter in d.pattern[::2]],
        "num_attention_heads": a.heads,
        "num_key_value_heads": a.kv_heads,
        "head_dim": a.head_dim,
        "attention_bias": False,
        "hidden_act": "silu",
        "rms_norm_eps": d.eps,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": a.rope_theta,
            "partial_rotary_factor": (a.rotary_dim or a.head_dim) / a.head_dim,
            **({"mrope_section": list(a.sections), "mrope_interleaved": True} if a.sections else {}),
        },
        "linear_num_key_heads": n.key_heads,
        "linear_num_value_heads": n.value_heads,
        "linear_key_head_dim": n.key_dim,
        "linear_value_head_dim": n.value_dim,
        "linear_conv_kernel_dim": n.kernel,
    }
    if d.mlp:
        out["intermediate_size"] = d.mlp.width
    if d.moe:
        out |= {
            "num_experts": d.moe.experts,
            "num_experts_per_tok": d.moe.top_k,
            "moe_intermediate_size": d.moe.width,
            "shared_expert_intermediate_size": d.moe.shared_width,
        }
    return out


_OWN = re.compile(r"\.self_attn\.(?!(?:[qkvo]_proj|[qk]_norm)\.)")  # what attention has not is Gated DeltaNet's


def tensor_key(name: str) -> str:
    """What the text checkpoint calls a parameter of the decoder."""
    return _OWN.sub(".linear_attn.", layer_key(name)).replace(".shared_experts.", ".shared_expert.")
