"""What ties a session's pages to its gate: the script that runs in them, keys before they are typed, dialogs.

await open_gate(gate, browser, context)         # before the first page
adopt(gate, tab)                                # each page
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

from playwright.async_api import Browser, BrowserContext

from holotron.envs.effects.gate import Gate
from holotron.envs.effects.typed import is_payment
from holotron.envs.focus import field_at, focused, selected
from holotron.envs.tab import Tab

_ASSETS = files("holotron.envs") / "assets"
_SCRIPT, _WORKERS = ((_ASSETS / name).read_text() for name in ("gate.js", "workers.js"))
_CRITICAL = {"password": "a password", "payment": "payment data"}
_CONTROL = (_ASSETS / "control.js").read_text().strip()
_PART = re.compile(r"\d{3,6}")  # a card's number in several fields


async def open_gate(gate: Gate, browser: Browser, context: BrowserContext) -> None:
    """Hold what leaves this browser, and prepare the pages that will be opened in the context."""

    async def cookies(url: str) -> str:
        return "; ".join(f"{one.get('name')}={one.get('value')}" for one in await context.cookies(url))

    gate.cookies = cookies
    await context.add_init_script(_SCRIPT.replace("HELD", gate.held).replace("ASKS", str(gate.asks).lower()))
    if gate.asks:
        await context.add_init_script(_WORKERS)
    await gate.attach(await browser.new_browser_cdp_session())


async def adopt(gate: Gate, tab: Tab) -> None:
    """Look before keys are pressed in this tab, and notice when it goes to another page."""
    letters: list[str] = []  # pressed one by one
    parts: list[str] = []  # digits, written into one field after another

    async def before_keys(text: str) -> None:
        focus = await focused(tab)
        letters.append(text)
        del letters[:-64]
        whole = text if len(text) > 1 else "".join(letters)
        parts[:] = [*parts[-4:], text] if _PART.fullmatch(text) else parts if len(text) == 1 else []
        paid = is_payment(whole) or any(is_payment("".join(parts[first:])) for first in range(len(parts) - 2))
        what = _CRITICAL.get(focus.kind, "payment data" if paid else "")
        await gate.before_typing(focus, whole, what)
        if len(text) > 1:
            letters.clear()

    tab.before_keys = before_keys

    def changed(event: Any) -> None:
        if "parentId" not in event["frame"]:
            gate.background.page_changed()
            parts.clear()

    await tab.on_event("Page", "frameNavigated", changed)  # not where a page only writes another address of its own


async def before_dragging(gate: Gate, tab: Tab, x: float, y: float) -> None:
    """Text that is selected goes along: into a field that lies where the drag ends, it is typed."""
    text = await selected(tab)
    focus = await field_at(tab, x, y) if text else None
    if focus is not None and focus.text:
        what = _CRITICAL.get(focus.kind, "payment data" if is_payment(text) else "")
        await gate.before_typing(focus, text, what)


async def name_of_control(tab: Tab, point: tuple[float, float] | None) -> str:
    """What the page calls what is about to be pressed; nothing where it cannot be known."""
    place = "null" if point is None else f"[{point[0]}, {point[1]}]"
    return str(await tab.evaluate(f"{_CONTROL}({place})") or "")
