"""Nemotron Nano v2 VL: Nemotron-H with a RADIO tower, pictures cut into tiles. Holotron-12B is of this family.

`NemotronH_Nano_VL_V2` is what its files call it. Our module tree is named after its tensors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from holotron.errors import ConfigError
from holotron.model.config import (
    AttentionConfig,
    DecoderConfig,
    ImageConfig,
    MambaConfig,
    MLPConfig,
    ModelConfig,
    ProjectorConfig,
    TokenIds,
    VisionConfig,
)
from holotron.model.families import FAMILIES
from holotron.model.families.base import AgentDefaults, Chat, Family, nested_decoder
from holotron.model.families.common import Fields, names_kind, read_tokens, write_tokens
from holotron.model.families.nemotron_h import NemotronH, read_decoder, write_decoder
from holotron.model.families.radio import is_dynamic, read_vision, vision_patch, write_vision

PATTERN_12B = "M-M-M-M*-" * 6 + "M-M-M-M-"


@FAMILIES.register("nemotron_vl")
class NemotronVL(Family):
    name = "nemotron_vl"
    model_types: ClassVar[tuple[str, ...]] = ("NemotronH_Nano_VL_V2",)
    chat = Chat("nemotron-vl", mark="<SPECIAL_11>", end="<SPECIAL_12>")
    agents: ClassVar[tuple[AgentDefaults, ...]] = (
        # No loop of Holotron-12B's own was published; it gets the last three screenshots, as its successor does.
        AgentDefaults(r"holotron", "holotron"),
        AgentDefaults(r"holotron-mini|\btiny\b|small-30m", "compact", history="append", temperature=0.0),
    )
    # Of the tower whatever is not asked for: conditioners, video embedders come and go between releases. But what its
    # blocks compute with is asked for, or it is another tower.
    ignored = re.compile(
        NemotronH.ignored.pattern + r"|^sound|^vision_model\.(?!radio_model\.model\.blocks\.\d+\.(attn|mlp|norm))"
    )
    neutral = re.compile(r"^vision_model\..*\.(layer_scale[12]\.lambda1|ls[12](\.gamma)?)$")
    spellings = (
        (r"(?:model\.)?language_model\.model\.", "language_model.backbone."),
        (r"model\.(?=language_model\.|vision_model\.|mlp1\.|sound)", ""),
    )
    code = "nvidia/NVIDIA-Nemotron-Nano-12B-v2-VL-BF16"
    # What the tower is like where its configuration does not say.
    prefix_tokens = 16
    align_corners = True

    def recognises(self, data: Mapping[str, Any]) -> bool:
        return wraps_nemotron(data, self.model_types) and not is_dynamic(data)

    def read(self, data: Mapping[str, Any], where: str, preprocessor: Mapping[str, Any] | None = None) -> ModelConfig:
        top = Fields(data, where)
        llm = top.part("llm_config", "text_config", "language_config")
        shuffle = max(round(1 / top.number("downsample_ratio", default=0.5)), 1)
        if top.get("ps_version", default="v2") != "v2":
            raise ConfigError(f"{where}: ps_version {data['ps_version']!r} is not supported; this family uses 'v2'")
        return ModelConfig(
            decoder=read_decoder(llm),
            vision=read_vision(top, prefix=self.prefix_tokens, align_corners=self.align_corners),
            projector=ProjectorConfig(width=top.integer("projector_hidden_size", default=4096), shuffle=shuffle),
            image=self.images(data, preprocessor),
            tokens=read_tokens(data, llm.data, self.image_ids),
            name=str(top.get("_name_or_path", default="")),
            family=self.name,
            raw=dict(data),
        )

    def images(self, data: Mapping[str, Any], preprocessor: Mapping[str, Any] | None = None) -> ImageConfig:
        patch = vision_patch(Fields(data, "config.json"))
        return ImageConfig.from_hf({**data, "patch_size": patch}, preprocessor)

    def write(self, config: ModelConfig) -> dict[str, Any]:
        if config.vision is None or config.projector is None:
            return {**write_decoder(config.decoder), **write_tokens(config.tokens)}
        assert isinstance(config.vision, VisionConfig)
        image = config.image.to_hf()
        return {
            "architectures": [self.model_types[0]],
            "model_type": self.model_types[0],
            "auto_map": {"AutoConfig": f"configuration.{self.model_types[0]}_Config"},
            "llm_config": write_decoder(config.decoder),
            "vision_config": write_vision(config.vision, config.image),
            "projector_hidden_size": config.projector.width,
            "vit_hidden_size": config.vision.hidden,
            "ps_version": "v2",
            # vLLM reads these two and wants them to be there.
            "template": None,
            "image_tag_type": "internvl",
            **image,
            "force_image_size": image["image_size"],
            "downsample_ratio": 1 / config.projector.shuffle,
            **write_tokens(config.tokens),
        }


def wraps_nemotron(data: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    """Is this a vision-language model around Nemotron-H: by its own name, or, if it has none, by its inner part?"""
    if names_kind(data, names):
        return True
    inner = nested_decoder(data)
    if inner is None or "model_type" in data:
        return False
    return not isinstance(inner, Mapping) or inner.get("model_type") in (None, *NemotronH.model_types)


def holotron_12b() -> ModelConfig:
    """Holotron-12B: Nemotron-H hybrid decoder, RADIO ViT-H tower, two-layer projector."""
    return ModelConfig(
        name="holotron-12b",
        decoder=DecoderConfig(
            vocab=131_200,  # 131,072 text tokens, then image tokens, padded; a real checkpoint's tensors decide
            hidden=5120,
            pattern=PATTERN_12B,
            mamba=MambaConfig(heads=128, head_dim=80, state=128, groups=8),
            attention=AttentionConfig(heads=40, kv_heads=8, head_dim=128),
            mlp=MLPConfig(20480),
        ),
        vision=VisionConfig(),
        projector=ProjectorConfig(20480),
        tokens=TokenIds(),
    )
