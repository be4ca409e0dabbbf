"""Qwen3-VL, dense and with experts: a Qwen3 transformer whose pictures have positions in three axes (M-RoPE) and enter
at several layers (deepstack). Holo2-4B, 8B and 30B-A3B are of this family."""

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
    TokenIds,
)
from holotron.model.families import FAMILIES
from holotron.model.families.base import AgentDefaults, Chat, Family
from holotron.model.families.common import Fields, names_kind, read_tokens, write_sizes
from holotron.model.families.qwen3 import layer_key
from holotron.model.families.qwen_tower import (
    COMPOSITE_SPELLINGS,
    IMAGE_TOKENS,
    MROPE,
    composite_key,
    read_images,
    read_sections,
    read_vision,
    write_tokens,
    write_vision,
)
from holotron.model.families.rope import read_whole_rope
from holotron.model.processor.smart_resize import MEAN, PIXELS, STD
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
    spellings = COMPOSITE_SPELLINGS
    agents = (
        # Three screenshots to a request; it thinks unless it is told not to, so a reply needs room for that; how it is
        # sampled its checkpoint says.
        AgentDefaults(
            r"holo-?2", "holotron", max_tokens=4096, source="hcompai/hai-cookbook@2ba8961, holo2/deploy_with_vllm.md"
        ),
    )

    def recognises(self, data: Mapping[str, Any]) -> bool:
        return names_kind(data, self.model_types)

    def read(self, data: Mapping[str, Any], where: str, preprocessor: Mapping[str, Any] | None = None) -> ModelConfig:
        top = Fields(data, where)
        text = top.part("text_config")
        tied = top.flag("tie_word_embeddings", default=text.flag("tie_word_embeddings", default=False))
        decoder = _decoder(text, tied)
        return ModelConfig(
            decoder=decoder,
            vision=read_vision(top, decoder.hidden, deepstack=(8, 16, 24)),
            image=self.images(data, preprocessor),
            tokens=read_tokens(data, text.data, self.image_ids),
            name=str(top.get("_name_or_path", default="")),
            family=self.name,
            raw=dict(data),
        )

    def images(self, data: Mapping[str, Any], preprocessor: Mapping[str, Any] | None = None) -> ImageConfig:
        return read_images(Fields(data, "config.json"), preprocessor)

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
    f.only("hidden_act", "silu", "swish")
    f.only("is_causal", True)
    heads, hidden, layers = f.integer("num_attention_heads"), f.integer("hidden_size"), f.integer("num_hidden_layers")
    experts = f.get("num_experts", "num_local_experts") is not None
    if f.get("mlp_only_layers") or f.integer("decoder_sparse_step", default=1) != 1:
        raise ConfigError(
            f"{f.where}: experts in some layers only (mlp_only_layers, decoder_sparse_step) are not built"
        )
    head_dim = f.integer("head_dim", default=max(1, hidden // heads) if experts else 128)
    rope = read_whole_rope(f, theta=500_000.0, kinds=MROPE)
    return DecoderConfig(
        vocab=f.integer("vocab_size"),
        hidden=hidden,
        pattern=("*E" if experts else "*-") * layers,
        attention=AttentionConfig(
            heads=heads,
            kv_heads=f.integer("num_key_value_heads", default=heads),
            head_dim=head_dim,
            rope_theta=rope.theta,
            qk_norm=True,
            sections=read_sections(rope.given, (24, 20, 20)),
        ),
        mlp=None if experts else MLPConfig(f.integer("intermediate_size"), "swiglu"),
        moe=_experts(f) if experts else None,
        eps=f.number("rms_norm_eps", default=1e-6),
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


# ------------------------------------------------------------------------------------------------- published models
# Sizes are those of the config.json of Qwen/Qwen3-VL-{4B,8B,30B-A3B}, which Holo2 was trained from; counts of
# parameters equal the published ones (docs/models.md).

TOWER_300M = QwenVisionConfig(hidden=1024, layers=24, heads=16, mlp=4096, deepstack=(5, 11, 17))
TOWER_400M = QwenVisionConfig(hidden=1152, layers=27, heads=16, mlp=4304, deepstack=(8, 16, 24))
TOKENS = TokenIds(151_655, 151_652, 151_653, bos=None, eos=(151_645, 151_643), first_unsampled=151_669)
IMAGE = ImageConfig(mean=MEAN, std=STD, min_pixels=PIXELS["shortest_edge"], max_pixels=PIXELS["longest_edge"])


def _holo2(name: str, decoder: DecoderConfig, vision: QwenVisionConfig) -> ModelConfig:
    return ModelConfig(decoder, vision, image=IMAGE, tokens=TOKENS, name=name, family=Qwen3VL.name)


def _attention(heads: int, kv_heads: int) -> AttentionConfig:
    return AttentionConfig(heads, kv_heads, head_dim=128, rope_theta=5e6, qk_norm=True, sections=(24, 20, 20))


def holo2_4b() -> ModelConfig:
    decoder = DecoderConfig(
        vocab=151_936,
        hidden=2560,
        pattern="*-" * 36,
        attention=_attention(32, 8),
        mlp=MLPConfig(9728, "swiglu"),
        eps=1e-6,
        tied_embeddings=True,
        max_positions=262_144,
    )
    return _holo2("holo2-4b", decoder, TOWER_300M)


def holo2_8b() -> ModelConfig:
    decoder = DecoderConfig(
        vocab=151_936,
        hidden=4096,
        pattern="*-" * 36,
        attention=_attention(32, 8),
        mlp=MLPConfig(12_288, "swiglu"),
        eps=1e-6,
        max_positions=262_144,
    )
    return _holo2("holo2-8b", decoder, TOWER_400M)


def holo2_30b_a3b() -> ModelConfig:
    decoder = DecoderConfig(
        vocab=151_936,
        hidden=2048,
        pattern="*E" * 48,
        attention=_attention(32, 4),
        moe=MoEConfig(128, top_k=8, width=768, shared_width=0, scoring="softmax", activation="swiglu"),
        eps=1e-6,
        max_positions=262_144,
    )
    return _holo2("holo2-30b-a3b", decoder, TOWER_400M)
