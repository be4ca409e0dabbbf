"""What is put into every page before its own scripts run, and what pages tell us through it."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from playwright.async_api import BrowserContext

from holotron.envs.hands import VALUES
from holotron.envs.secrets import Secrets
from holotron.envs.tab import Clipboard
from holotron.quoting import quoted

_ASSETS = files(__package__) / "assets"
_DRAWN = (_ASSETS / "drawn.js").read_text()
_SOCKETS = (_ASSETS / "sockets.js").read_text()
_SCRIPTS = tuple((_ASSETS / name).read_text() for name in ("page.js", "pickers.js"))


async def prepare(
    context: BrowserContext, clipboard: Clipboard, note: Callable[[str], None], *, secrets: Secrets | None = None
) -> None:
    """Install the scripts that run in every page, and listen to what they tell. A page can call this as well, so
    nothing it says is passed on to the agent in its own words, but in quotes. `secrets`: those to be kept."""

    def told(_: Any, kind: str, text: str) -> None:
        if kind == "copied":
            clipboard.text = str(text)
        elif kind == "picker" and text in VALUES:
            note(f"This {text} field opens no picker here; write a value such as {VALUES[text]}.")
        elif kind == "unasked":
            note("A connection was not opened, or not used: the page's content policy lets nobody be asked.")
        elif kind == "invalid":
            note(f"The browser says of a field: {quoted(str(text), 200)}.")

    await context.expose_binding("__holotron_tell", told)
    kept = (_DRAWN, _SOCKETS.replace("POLICY", json.dumps(secrets.socket_policy))) if secrets else ()
    for script in (*_SCRIPTS, *kept):
        await context.add_init_script(script)
