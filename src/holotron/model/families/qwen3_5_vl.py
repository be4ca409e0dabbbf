"""Qwen3.5 with its vision tower, dense and with experts. Holo3, Holo3.1 and Holo4 are of this family.

The tower is Qwen3-VL's without deepstack; the decoder is that of `qwen3_5`, with positions in three axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holotron.model.config import (
    AttentionConfig,
    DecoderConfig,
    DeltaConfig,
    MLPConfig,
    ModelConfig,
    MoEConfig,
    QwenVisionConfig,
    TokenIds,
)
from holotron.model.families import FAMILIES
from holotron.model.families.base import AgentDefaults
from holotron.model.families.common import Fields, names_kind, read_tokens
from holotron.model.families.qwen3_5 import Qwen35, decoder, is_text, tensor_key, written
from holotron.model.families.qwen3_vl import IMAGE, TOWER_300M, TOWER_400M
from holotron.model.families.qwen_tower import (
    COMPOSITE_SPELLINGS,
    IMAGE_TOKENS,
    composite_key,
    read_images,
    read_vision,
    write_tokens,
    write_vision,
)
from holotron.model.processor.tiling import ImageConfig

_CLASSES = ("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration")


@FAMILIES.register("qwen3_5_vl")
class Qwen35VL(Qwen35):
    name = "qwen3_5_vl"
    model_types = ("qwen3_5", "qwen3_5_moe", *_CLASSES)
    spellings = COMPOSITE_SPELLINGS
    image_tokens = IMAGE_TOKENS
    image_ids = (248_056, 248_053, 248_054)
    agents = (
        # Of Holo3 and Holo3.1 the contract is published: note, thought and a flat tool call as JSON, 0 to 1000, the
        # last three screenshots, reasoning on, for which there is room as in Holotron's loop. Holo4: taken to be alike.
        AgentDefaults(
            r"holo-?[34]", "holotron", max_tokens=4096, thinking=True, source="hub.hcompany.ai/agent-loop (2026)"
        ),
    )

    def recognises(self, data: Mapping[str, Any]) -> bool:
        return names_kind(data, self.model_types) and not is_text(data)

    def read(self, data: Mapping[str, Any], where: str, preprocessor: Mapping[str, Any] | None = None) -> ModelConfig:
        top = Fields(data, where)
        text = top.part("text_config")
        tied = top.flag("tie_word_embeddings", default=text.flag("tie_word_embeddings", default=False))
        inside = replace(decoder(text, sees=True), tied_embeddings=tied)
        return ModelConfig(
            decoder=inside,
            vision=read_vision(top, inside.hidden),
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
        kind = "qwen3_5_moe" if moe else "qwen3_5"
        assert isinstance(config.vision, QwenVisionConfig)
        text = written(d) | {"bos_token_id": config.tokens.bos, "eos_token_id": list(config.tokens.eos)}
        vision = write_vision(config.vision, d.hidden, f"{kind}_vision")
        del text["architectures"]
        return {
            "architectures": [_CLASSES[moe]],
            "model_type": kind,
            "text_config": text,
            "vision_config": vision,
            "tie_word_embeddings": d.tied_embeddings,
            **write_tokens(config.tokens),
        }

    def tensor_key(self, parameter: str) -> str:
        inside = parameter.removeprefix("language_model.")
        return composite_key(parameter, tensor_key(inside) if inside != parameter else None)


# ------------------------------------------------------------------------------------------------- published models
# Sizes are those of the config.json of Qwen/Qwen3.5-{0.8B,4B,9B,27B,35B-A3B}, which Holo3, Holo3.1 and Holo4 were
# trained from; sources are in docs/models.md. Layers that predict tokens ahead (MTP) are not built.

TOKENS = TokenIds(248_056, 248_053, 248_054, bos=None, eos=(248_046, 248_044))


def _qwen(
    name: str,
    layers: int,
    hidden: int,
    heads: tuple[int, int],
    value_heads: int,
    vision: QwenVisionConfig,
    *,
    mlp: int = 0,
    moe: MoEConfig | None = None,
    tied: bool = False,
) -> ModelConfig:
    second = "E" if moe is not None else "-"
    inside = DecoderConfig(
        vocab=248_320,
        hidden=hidden,
        pattern="".join(mixer + second for mixer in "GGG*") * (layers // 4),
        delta=DeltaConfig(key_heads=16, value_heads=value_heads, key_dim=128, value_dim=128),
        attention=AttentionConfig(
            *heads, head_dim=256, rope_theta=1e7, qk_norm=True, rotary_dim=64, gated=True, sections=(11, 11, 10)
        ),
        mlp=MLPConfig(mlp, "swiglu") if mlp else None,
        moe=moe,
        eps=1e-6,
        centred_norms=True,
        tied_embeddings=tied,
        max_positions=262_144,
    )
    tower = replace(vision, deepstack=())
    return ModelConfig(inside, tower, image=IMAGE, tokens=TOKENS, name=name, family=Qwen35VL.name)


def holo31_08b() -> ModelConfig:
    tower = QwenVisionConfig(hidden=768, layers=12, heads=12, mlp=3072)
    return _qwen("holo3.1-0.8b", 24, 1024, (8, 2), 16, tower, mlp=3584, tied=True)


def holo31_4b() -> ModelConfig:
    return _qwen("holo3.1-4b", 32, 2560, (16, 4), 32, TOWER_300M, mlp=9216, tied=True)


def holo31_9b() -> ModelConfig:
    return _qwen("holo3.1-9b", 32, 4096, (16, 4), 32, TOWER_400M, mlp=12_288)


def holo4_27b() -> ModelConfig:
    return _qwen("holo4-27b", 64, 5120, (24, 4), 48, TOWER_400M, mlp=17_408)


def holo31_35b_a3b() -> ModelConfig:
    """Also Holo3-35B-A3B and Holo4-35B-A3B."""
    experts = MoEConfig(
        256, top_k=8, width=512, shared_width=512, scoring="softmax", activation="swiglu", shared_gate=True
    )
    return _qwen("holo3.1-35b-a3b", 40, 2048, (16, 2), 32, TOWER_400M, moe=experts)
