"""Qwen3.5 with its vision tower, dense and with experts. Holo3, Holo3.1 and Holo4 are of this family.

The tower is Qwen3-VL's without deepstack; the decoder is that of `qwen3_5`, with positions in three axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holotron.model.config import ModelConfig, QwenVisionConfig
from holotron.model.families import FAMILIES
from holotron.model.families.common import Fields, names_kind, read_tokens
from holotron.model.families.qwen3_5 import Qwen35, decoder, tensor_key, written
from holotron.model.families.qwen_tower import IMAGE_TOKENS, composite_key, read_vision, write_tokens, write_vision
from holotron.model.processor.tiling import ImageConfig

_CLASSES = ("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration")


@FAMILIES.register("qwen3_5_vl")
class Qwen35VL(Qwen35):
    name = "qwen3_5_vl"
    model_types = ("qwen3_5", "qwen3_5_moe", *_CLASSES)
    image_tokens = IMAGE_TOKENS
    image_ids = (248_056, 248_053, 248_054)

    def recognises(self, data: Mapping[str, Any]) -> bool:
        return names_kind(data, self.model_types)

    def read(self, data: Mapping[str, Any], where: str, preprocessor: Mapping[str, Any] | None = None) -> ModelConfig:
        top = Fields(data, where)
        text = top.part("text_config")
        tied = bool(top.get("tie_word_embeddings", default=text.get("tie_word_embeddings")))
        inside = replace(decoder(text, sees=True), tied_embeddings=tied)
        return ModelConfig(
            decoder=inside,
            vision=read_vision(top, inside.hidden),
            image=ImageConfig.from_hf(data, preprocessor),
            tokens=read_tokens(data, text.data, self.image_ids),
            name=str(top.get("_name_or_path", default="")),
            family=self.name,
            raw=dict(data),
        )

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
