"""Which actions a person would want to be asked about first: what cannot be taken back, or gives something away.

Payments, orders, messages, deletions, downloads, sign-ins, consent, passwords. The page itself is asked what lies under
the pointer or has the focus, so this is a judgement about names and roles: careful people keep an allow-list as well.
"""

from __future__ import annotations

import json
from importlib.resources import files

from holotron.envs.tab import Tab
from holotron.types import Action, Click, DoubleClick, PressKeys, Write

_SCRIPT = (files(__package__) / "assets" / "consequence.js").read_text()


async def consequence(tab: Tab, action: Action) -> str:
    """A phrase like 'presses "Pay now"' if the action is one to ask about, and nothing if it is not."""
    match action:
        case Click(x, y) | DoubleClick(x, y):
            return await _ask(tab, (x, y), "click")
        case Write(x=x, y=y, press_enter=enter):
            point = (x, y) if x is not None and y is not None else None
            return await _ask(tab, point, "write") or (await _ask(tab, point, "enter") if enter else "")
        case PressKeys(keys) if any(key.lower() in ("enter", "return") for key in keys):
            return await _ask(tab, None, "enter") or await _ask(tab, None, "click")
        case _:
            return ""


async def _ask(tab: Tab, point: tuple[float, float] | None, deed: str) -> str:
    return str(await tab.evaluate(f"{_SCRIPT.strip()}({json.dumps(point)}, {json.dumps(deed)})"))
