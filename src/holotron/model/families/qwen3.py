"""Qwen3, dense: a plain transformer, the baseline that the hybrids are compared with.

One of its layers is two of our letters, attention then MLP: `*-` thirty-six times for Qwen3-8B.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holotron.errors import ConfigError
from holotron.model.config import AttentionConfig, DecoderConfig, MLPConfig, ModelConfig, TokenIds
from holotron.model.families import FAMILIES
from holotron.model.families.base import Chat, Family
from holotron.model.families.common import Fields, names_kind, read_tokens, write_sizes, write_tokens
from holotron.model.families.qwen_tower import TEXT_SPELLINGS
from holotron.model.families.rope import read_whole_rope

_OUTSIDE_LAYERS = {
    "backbone.embeddings.weight": "model.embed_tokens.weight",
    "backbone.norm_f.weight": "model.norm.weight",
    "lm_head.weight": "lm_head.weight",
}


@FAMILIES.register("qwen3")
class Qwen3(Family):
    name = "qwen3"
    model_types = ("qwen3", "Qwen3ForCausalLM")
    chat = Chat("chatml", mark="<|im_start|>", end="<|im_end|>")
    spellings = TEXT_SPELLINGS

    def recognises(self, data: Mapping[str, Any]) -> bool:
        return names_kind(data, self.model_types)

    def read(self, data: Mapping[str, Any], where: str, preprocessor: Mapping[str, Any] | None = None) -> ModelConfig:
        f = Fields(data, where)
        return ModelConfig(
            decoder=_decoder(f),
            tokens=read_tokens(data, data, self.image_ids),
            name=str(f.get("_name_or_path", default="")),
            family=self.name,
            raw=dict(data),
        )

    def write(self, config: ModelConfig) -> dict[str, Any]:
        d, a, m = config.decoder, config.decoder.attention, config.decoder.mlp
        assert a
        assert m
        return {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            **write_sizes(d),
            "num_hidden_layers": len(d.pattern) // 2,
            "num_attention_heads": a.heads,
            "num_key_value_heads": a.kv_heads,
            "head_dim": a.head_dim,
            "intermediate_size": m.width,
            "hidden_act": "silu",
            "rms_norm_eps": d.eps,
            "rope_theta": a.rope_theta,
            "attention_bias": False,
            **write_tokens(config.tokens),
        }

    def tensor_key(self, parameter: str) -> str:
        return layer_key(parameter.removeprefix("language_model."))


def layer_key(name: str) -> str:
    """What a text checkpoint calls a parameter of the decoder."""
    if name in _OUTSIDE_LAYERS:
        return _OUTSIDE_LAYERS[name]
    match = re.fullmatch(r"backbone\.layers\.(\d+)\.(norm|mixer)\.(.+)", name)
    assert match, name
    layer, second = divmod(int(match[1]), 2)
    if match[2] == "norm":
        return f"model.layers.{layer}.{'post_attention_layernorm' if second else 'input_layernorm'}.{match[3]}"
    return f"model.layers.{layer}.{'mlp' if second else 'self_attn'}.{match[3]}"


def _decoder(f: Fields) -> DecoderConfig:
    f.only("hidden_act", "silu", "swish")
    f.only("is_causal", True)
    # Older files say how many layers see everything, newer ones list the kinds of all; a window alone means nothing.
    windows = f.flag("use_sliding_window", default=False) and f.get("sliding_window") is not None
    if windows and "sliding_attention" in (f.strings("layer_types") or ["sliding_attention"]):
        raise ConfigError(f"{f.where}: use_sliding_window true is not supported; attention here sees the whole past")
    heads, hidden = f.integer("num_attention_heads"), f.integer("hidden_size")
    return DecoderConfig(
        vocab=f.integer("vocab_size"),
        hidden=hidden,
        pattern="*-" * f.integer("num_hidden_layers"),
        attention=AttentionConfig(
            heads=heads,
            kv_heads=f.integer("num_key_value_heads", default=heads),
            head_dim=f.integer("head_dim", default=128),
            rope_theta=read_whole_rope(f, theta=10_000.0).theta,
            qk_norm=True,
        ),
        mlp=MLPConfig(f.integer("intermediate_size"), "swiglu"),
        eps=f.number("rms_norm_eps", default=1e-6),
        tied_embeddings=f.flag("tie_word_embeddings", default=False),
        max_positions=f.integer("max_position_embeddings", default=40_960),
    )


def holo2_8b_text() -> ModelConfig:
    """The decoder of Holo2-8B alone, as a Qwen3-8B: the transformer that the hybrid is compared with."""
    return ModelConfig(
        name="holo2-8b-text",
        family="qwen3",
        decoder=DecoderConfig(
            vocab=151_936,
            hidden=4096,
            pattern="*-" * 36,
            attention=AttentionConfig(heads=32, kv_heads=8, head_dim=128, rope_theta=1_000_000.0, qk_norm=True),
            mlp=MLPConfig(12288, "swiglu"),
            eps=1e-6,
            max_positions=262_144,
        ),
        tokens=TokenIds(151_655, 151_652, 151_653, bos=None, eos=(151_645,), first_unsampled=151_669),
    )
