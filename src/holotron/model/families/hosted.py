"""Models that are reached by URL only: nothing of them is loaded here, but agents know how to talk to them."""

from __future__ import annotations

from holotron.model.families import FAMILIES
from holotron.model.families.base import AgentDefaults, Family


@FAMILIES.register("hosted")
class Hosted(Family):
    name = "hosted"
    agents = (
        # Holo1 and Holo1.5, on Qwen2.5-VL.
        AgentDefaults(r"holo-?1", "surfer", temperature=0.0, source="github.com/hcompai/surfer-h-cli"),
        AgentDefaults(r"gpt-|claude|gemini|\bo[134]-", "tools", temperature=0.0),
    )
