"""What ties a session's pages to its gate: the script that runs in them, keys before they are typed, dialogs.

await open_gate(gate, browser, context)         # before the first page
adopt(gate, tab)                                # each page
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from playwright.async_api import Browser, BrowserContext

from holotron.envs.effects.gate import Gate
from holotron.envs.effects.typed import is_payment
from holotron.envs.focus import focused
from holotron.envs.tab import Tab

_SCRIPT = (files("holotron.envs") / "assets" / "gate.js").read_text()
_CRITICAL = {"password": "a password", "payment": "payment data"}
_CONTROL = (files("holotron.envs") / "assets" / "control.js").read_text().strip()


async def open_gate(gate: Gate, browser: Browser, context: BrowserContext) -> None:
    """Hold what leaves this browser, and prepare the pages that will be opened in the context."""

    async def message(_: Any, url: str, text: str) -> bool:
        return await gate.allows_message(str(url), str(text))

    async def cookies(url: str) -> str:
        return "; ".join(f"{one.get('name')}={one.get('value')}" for one in await context.cookies(url))

    gate.cookies = cookies
    await context.expose_binding("__holotron_message", message)
    await context.add_init_script(_SCRIPT)
    await gate.attach(await browser.new_browser_cdp_session())


def adopt(gate: Gate, tab: Tab) -> None:
    """Look before keys are pressed in this tab, and notice when it goes to another page."""
    letters: list[str] = []  # pressed one by one

    async def before_keys(text: str) -> None:
        focus = await focused(tab)
        letters.append(text)
        del letters[:-64]
        whole = text if len(text) > 1 else "".join(letters)
        what = _CRITICAL.get(focus.kind, "payment data" if is_payment(whole) else "")
        await gate.before_typing(focus, whole, what)
        if len(text) > 1:
            letters.clear()

    tab.before_keys = before_keys
    tab.page.on(
        "framenavigated", lambda frame: gate.background.page_changed() if frame is tab.page.main_frame else None
    )


async def name_of_control(tab: Tab, point: tuple[float, float] | None) -> str:
    """What the page calls what is about to be pressed; nothing where it cannot be known."""
    place = "null" if point is None else f"[{point[0]}, {point[1]}]"
    return str(await tab.evaluate(f"{_CONTROL}({place})") or "")
