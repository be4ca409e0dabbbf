"""Log-ins that outlive a session: cookies and local storage in a file, in Playwright's own format.

    SessionOptions(profile=Path("shop.json"))      # read if it is there, written when the session ends

Whoever has the file is logged in: it is readable by its owner alone, and never part of a run directory.
"""

from __future__ import annotations

import json
from pathlib import Path

from playwright.async_api import BrowserContext

from holotron.errors import ConfigError
from holotron.storage.files import make_folder, replace_file


def saved_state(profile: Path | None) -> str | None:
    """The file that Playwright is to read, if there is one yet. Where none can be written is said now: at the end the
    log-ins would be lost."""
    if profile is None:
        return None
    if not profile.exists():
        make_folder(profile.parent)
        return None
    try:
        if isinstance(json.loads(profile.read_text())["cookies"], list):
            return str(profile)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise ConfigError(f"{profile} is not a saved browser profile; name another file, or delete it to start a new one")


async def save_state(context: BrowserContext, profile: Path) -> None:
    state = await context.storage_state()
    make_folder(profile.parent)
    replace_file(profile, json.dumps(state).encode(), private=True)
