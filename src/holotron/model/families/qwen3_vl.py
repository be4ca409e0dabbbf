"""Qwen3-VL, dense and with experts: a Qwen3 transformer whose pictures have positions in three axes (M-RoPE) and enter at
several layers (deepstack). Holo2-4B, 8B and 30B-A3B are of this family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holotron.errors import ConfigError
from holotron.model.config import (
    AttentionConfig,
    DecoderConfig,
    MLPConfig,
    ModelConfig,
    MoEConfig,
    QwenVisionConfig,
)
from holotron.model.families import FAMILIES
from holotron.model.families.base import Chat, Family
from holotron.model.families.common import Fields, names_kind, read_tokens, write_sizes
from holotron.model.families.qwen3 import layer_key
from holotron.model.families.qwen_tower import (
    IMAGE_TOKENS,
    composite_key,
    read_rope,
    read_vision,
    write_tokens,
    write_vision,
)
from holotron.model.processor.tiling import ImageConfig

_CLASSES = ("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration")


@FAMILIES.register("qwen3_vl")
class Qwen3VL(Family):
    name = "qwen3_vl"
    model_types = ("qwen3_vl", "qwen3_vl_moe", *_CLASSES)
    image_tokens = IMAGE_TOKENS
    image_ids = (151_655, 151_652, 151_653)
    chat = Chat("chatml", mark="<|im_start|>", end="<|im_end|>")
    fused_experts = "transposed"

    def recognises(self, data: Mapping[str, Any]) -> bool:
        return names_kind(data, self.model_types)

    def read(self, data: Mapping[str, Any], where: str, preprocessor: Mapping[str, Any] | None = None) -> ModelConfig:
        top = Fields(data, where)
        text = top.part("text_config")
        decoder = _decoder(text, bool(top.get("tie_word_embeddings", default=text.get("tie_word_embeddings"))))
        return ModelConfig(
            decoder=decoder,
            vision=read_vision(top, decoder.hidden),
            image=ImageConfig.from_hf(data, preprocessor),
            tokens=read_tokens(data, text.data, self.image_ids),
            name=str(top.get("_name_or_path", default="")),
            family=self.name,
            raw=dict(data),
        )

    def write(self, config: ModelConfig) -> dict[str, Any]:
        d, moe = config.decoder, config.decoder.moe is not None
        kind = "qwen3_vl_moe" if moe else "qwen3_vl"
        assert isinstance(config.vision, QwenVisionConfig)
        return {
            "architectures": [_CLASSES[moe]],
            "model_type": kind,
            "text_config": _written(d, f"{kind}_text")
            | {"bos_token_id": config.tokens.bos, "eos_token_id": list(config.tokens.eos)},
            "vision_config": write_vision(config.vision, d.hidden, f"{kind}_vision"),
            "tie_word_embeddings": d.tied_embeddings,
            **write_tokens(config.tokens),
        }

    def tensor_key(self, parameter: str) -> str:
        inside = parameter.removeprefix("language_model.")
        return composite_key(parameter, layer_key(inside) if inside != parameter else None)


def _decoder(f: Fields, tied: bool) -> DecoderConfig:
    if f.get("attention_bias", default=False):
        raise ConfigError(f"{f.where}: biases in the attention projections are not part of this family")
    if f.get("hidden_act", default="silu") != "silu":
        raise ConfigError(f"{f.where}: hidden_act {f.get('hidden_act')!r} is not supported; this family uses 'silu'")
    heads, hidden, layers = f.integer("num_attention_heads"), f.integer("hidden_size"), f.integer("num_hidden_layers")
    experts = f.get("num_experts", "num_local_experts") is not None
    if f.get("mlp_only_layers") or f.integer("decoder_sparse_step", default=1) != 1:
        raise ConfigError(f"{f.where}: experts in some layers only (mlp_only_layers, decoder_sparse_step) are not built")
    head_dim = f.integer("head_dim", default=max(1, hidden // heads) if experts else 128)
    theta, sections = read_rope(f, default_theta=500_000.0, default_sections=(24, 20, 20))
    return DecoderConfig(
        vocab=f.integer("vocab_size"),
        hidden=hidden,
        pattern=("*E" if experts else "*-") * layers,
        attention=AttentionConfig(
            heads=heads,
            kv_heads=f.integer("num_key_value_heads", default=heads),
            head_dim=head_dim,
            rope_theta=theta,
            qk_norm=True,
            sections=sections,
        ),
        mlp=None if experts else MLPConfig(f.integer("intermediate_size"), "swiglu"),
        moe=_experts(f) if experts else None,
        eps=float(f.get("rms_norm_eps", default=1e-6)),
        tied_embeddings=tied,
        max_positions=f.integer("max_position_embeddings", default=128_000),
    )


def _experts(f: Fields) -> MoEConfig:
    return MoEConfig(
        experts=f.integer("num_experts", "num_local_experts"),
        top_k=f.integer("num_experts_per_tok"),
        width=f.integer("moe_intermediate_size"),
        shared_width=0,
        scoring="softmax",
        activation="swiglu",
    )


def _written(d: DecoderConfig, kind: str) -> dict[str, Any]:
    a = d.attention
    assert a is not None and a.rope_theta is not None and a.sections is not None
    out: dict[str, Any] = {
        "model_type": kind,
        **write_sizes(d),
        "num_hidden_layers": len(d.pattern) // 2,
        "num_attention_heads": a.heads,
        "num_key_value_heads": a.kv_heads,
        "head_dim": a.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": d.eps,
        "attention_bias": False,
        # Twice: transformers 4 and vLLM read the older pair of names, transformers 5 the newer one.
        "rope_theta": a.rope_theta,
        "rope_scaling": {"rope_type": "default", "mrope_section": list(a.sections), "mrope_interleaved": True},
    }
    if d.mlp:
        out["intermediate_size"] = d.mlp.width
    if d.moe:
        out |= {
            "num_experts": d.moe.experts,
            "num_experts_per_tok": d.moe.top_k,
            "moe_intermediate_size": d.moe.width,
            "intermediate_size": d.moe.width,  # of layers without experts, of which there are none
            "norm_topk_prob": True,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        }
    return out
