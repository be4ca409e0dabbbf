"""Nemotron 3 Nano Omni: Nemotron-H with experts and a RADIO tower that sees pictures at their own resolution.

Holotron-3-Nano and Holotron4-30B-A3B are of this family. Its sound and video parts are not used here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holotron.model.families import FAMILIES
from holotron.model.families.base import AgentDefaults, Chat
from holotron.model.families.common import names_kind
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
            r"holotron-?[34]|nemotron-3-nano-omni",
            "holotron",
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

    def recognises(self, data: Mapping[str, Any]) -> bool:
        # Before it had a name of its own, its files went by that of the generation before.
        return names_kind(data, self.model_types) or (wraps_nemotron(data, NemotronVL.model_types) and is_dynamic(data))
