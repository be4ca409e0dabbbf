"""Log-ins that outlive a session: cookies and local storage in a file, in Playwright's own format.

    SessionOptions(profile=Path("shop.json"))      # read if it is there, written when the session ends

Whoever has the file is logged in: it is readable by its owner alone, and never part of a run directory.
"""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

from playwright.async_api import BrowserContext
from playwright.async_api import Error as PlaywrightError

from holotron.envs.pool import CLOSE_TIMEOUT, first_line
from holotron.errors import ConfigError, StorageError
from holotron.storage.files import make_folder, replace_file

log = logging.getLogger(__name__)


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
    """At the end of a session, which nothing may hold up. Where it fails, that is said: next time nobody is."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT):
            state = await context.storage_state()
        make_folder(profile.parent)
        replace_file(profile, json.dumps(state).encode(), private=True)
    except (PlaywrightError, TimeoutError, StorageError) as error:
        log.warning("log-ins could not be saved to %s: %s", profile, first_line(error))
