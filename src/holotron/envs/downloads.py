"""Files that pages hand to the agent: refused, or kept in a folder of the session's own, within limits."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.async_api import Download
from playwright.async_api import Error as PlaywrightError

from holotron.envs.effects.gate import Gate
from holotron.envs.pool import first_line

LARGEST = 100 * 1024 * 1024  # bytes


class Downloads:
    def __init__(self, folder: Path | None, note: Callable[[str], None], gate: Gate | None = None) -> None:
        """`folder`: in it each session gets its own; None refuses downloads. `note` tells the agent."""
        self._gate = gate
        self._folder = folder
        self._note = note
        self._own: Path | None = None

    async def receive(self, download: Download) -> None:
        name = safe_name(download.suggested_filename)
        if self._folder is None:
            self._note(f'The download of "{name}" was refused.')
            return
        try:
            if self._gate is not None and not await self._gate.allows_download(download.url, name):
                await download.cancel()
                self._note(f'The download of "{name}" was refused: the user did not allow it.')
                return
            path = await download.path()
            size = path.stat().st_size
            if size > LARGEST:
                await download.delete()
                self._note(f'The download of "{name}" was refused: it is larger than {LARGEST >> 20} MiB.')
                return
            target = self._place_for(self._folder, name)
            await download.save_as(target)
            self._note(f'Downloaded "{target.name}" ({size} bytes).')
        except PlaywrightError as error:
            self._note(f'The download of "{name}" failed: {first_line(error)}.')

    def _place_for(self, folder: Path, name: str) -> Path:
        """A new name in this session's own folder."""
        if self._own is None:
            folder.mkdir(parents=True, exist_ok=True)
            self._own = Path(tempfile.mkdtemp(prefix="session-", dir=folder))
        target, count = self._own / name, 1
        while target.exists():
            target = self._own / f"{Path(name).stem} ({count}){Path(name).suffix}"
            count += 1
        return target


def safe_name(name: str) -> str:
    """A file name that cannot leave its folder, hide, or trip a shell."""
    kept = re.sub(r"[^\w.()+ -]", "_", name.replace("\\", "/").rsplit("/", 1)[-1]).strip(" .")
    return kept[-120:] or "download"
