"""Nemotron 3 Nano Omni: Nemotron-H with experts and a RADIO tower that sees pictures at their own resolution.

Holotron-3-Nano and Holotron4-30B-A3B are of this family. Its sound and video parts are not used here. Published files
call it `NemotronH_Nano_Omni_Reasoning_V3`, transformers `nemotron_h_omni`; the latter is what we write, for it opens
without anybody's code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from holotron.errors import ConfigError
from holotron.model.config import ImageConfig, ModelConfig, ProjectorConfig, VisionConfig
from holotron.model.families import FAMILIES
from holotron.model.families.base import AgentDefaults, Chat, nested_decoder
from holotron.model.families.common import names_kind
from holotron.model.families.nemotron_h import nemotron_3_nano_30b_a3b
from holotron.model.families.nemotron_vl import NemotronVL, wraps_nemotron
from holotron.model.families.radio import is_dynamic


@FAMILIES.register("nemotron_omni")
class NemotronOmni(NemotronVL):
    name = "nemotron_omni"
    model_types = ("NemotronH_Nano_Omni_Reasoning_V3", "NemotronH_Omni_Reasoning_V3", "nemotron_h_omni")
    chat = Chat("chatml", mark="<|im_start|>", end="<|im_end|>")
    code = "nvidia/Nemotron-3-Nano-Omni-30B-A3B-Reasoning-BF16"
    image_ids = (18, 21, 22)
    agents = (
        AgentDefaults(
            r"holotron-?[34]",
            "desktop",
            temperature=0.8,
            top_p=0.95,
            max_tokens=4096,
            thinking=True,
            source="NVIDIA-NeMo/Nemotron@e27b371, usage-cookbook/Nemotron-3-Nano-Omni/computer-use-agent-with-omni/"
            "server/holotron_agent.py",
        ),
    )
    prefix_tokens = 10
    align_corners = False

    DYNAMIC: ClassVar[dict[str, int]] = {"min_num_patches": 1024, "max_num_patches": 13312}  # where no file says

    def recognises(self, data: Mapping[str, Any]) -> bool:
        # Before it had a name of its own, its files went by that of the generation before.
        return names_kind(data, self.model_types) or (wraps_nemotron(data, NemotronVL.model_types) and is_dynamic(data))

    def read(self, data: Mapping[str, Any], where: str, preprocessor: Mapping[str, Any] | None = None) -> ModelConfig:
        llm = nested_decoder(data)
        if isinstance(llm, Mapping) and llm.get("num_nextn_predict_layers"):
            # In training, tokens predicted ahead (MTP) came with a norm behind the tower that nobody stores.
            count = llm["num_nextn_predict_layers"]
            raise ConfigError(
                f"{where}: llm_config: num_nextn_predict_layers {count} is not supported; the vision tower of such "
                "checkpoints ends with a norm that is not built here"
            )
        return super().read(data, where, preprocessor)

    def images(self, data: Mapping[str, Any], preprocessor: Mapping[str, Any] | None = None) -> ImageConfig:
        said = super().images(data, preprocessor)
        return said if said.dynamic else super().images({**self.DYNAMIC, **data}, preprocessor)

    def write(self, config: ModelConfig) -> dict[str, Any]:
        written = super().write(config)
        del written["auto_map"]
        return written | {
            "architectures": ["NemotronH_Omni_Reasoning_V3"],
            "model_type": "nemotron_h_omni",
            # Not ours, but transformers builds a video embedder and wants to know its size.
            "video_temporal_patch_size": 2,
            "vision_config": written["vision_config"] | {"video_temporal_patch_size": 2},
        }


def holotron_3_nano() -> ModelConfig:
    """Holotron-3-Nano and Holotron4-30B-A3B without the sound encoder (0.6B of their 33B parameters)."""
    decoder = nemotron_3_nano_30b_a3b()
    return replace(
        decoder,
        name="holotron-3-nano",
        family=NemotronOmni.name,
        vision=VisionConfig(prefix=NemotronOmni.prefix_tokens, align_corners=NemotronOmni.align_corners),
        projector=ProjectorConfig(20480),  # so the published number of parameters says
        image=ImageConfig(min_patches=1024, max_patches=13312),
    )
