"""Files that pages hand to the agent: refused, or kept in quarantine, a folder of the session's own, within limits.

A file arrives in a folder that the browser can write to and nobody else reads, and is counted while it arrives: what
is too large is given up before it fills a disk. What is kept goes to the session's folder under a harmless name,
readable by its owner alone, executable by nobody. Nothing is ever opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import CDPSession
from playwright.async_api import Error as PlaywrightError

from holotron.envs.effects.gate import Gate
from holotron.envs.pool import BrowserLease, first_line
from holotron.envs.tab import Tab

LARGEST = 100 * 1024 * 1024  # bytes of one file
ALTOGETHER = 300 * 1024 * 1024  # bytes of a session
MOST = 20  # files of a session


@dataclass(slots=True)
class _Arriving:
    name: str
    ended: asyncio.Future[str]  # how: "completed", "canceled", or why it was given up
    size: int = 0


class Downloads:
    def __init__(self, folder: Path | None, note: Callable[[str], None], gate: Gate | None = None) -> None:
        """`folder`: in it each session gets its own; None refuses downloads. `note` tells the agent."""
        self._gate = gate
        self._folder = folder
        self._note = note
        self._own: Path | None = None
        self._staging: Path | None = None
        self._cdp: CDPSession | None = None
        self._begin: Callable[[Any], None] = asyncio.ensure_future
        self._context = ""
        self._arriving: dict[str, _Arriving] = {}
        self._files = 0
        self._bytes = 0  # of what was kept

    async def open(self, lease: BrowserLease, tab: Tab, begin: Callable[[Any], None]) -> None:
        """Take what the pages of a tab's context hand over. `begin` starts work in the background."""
        if self._folder is None:
            return
        context = str((await tab.send("Target.getTargetInfo"))["targetInfo"].get("browserContextId", ""))
        self._staging = Path(tempfile.mkdtemp(prefix="holotron-arriving-"))
        if lease.user is not None:
            os.chown(self._staging, lease.user, lease.user)
        self._cdp, self._context, self._begin = await lease.browser.new_browser_cdp_session(), context, begin
        self._cdp.on("Browser.downloadWillBegin", lambda event: begin(self._receive(event)))
        self._cdp.on("Browser.downloadProgress", self._progress)
        behavior = {"behavior": "allowAndName", "downloadPath": str(self._staging), "eventsEnabled": True}
        await self._cdp.send("Browser.setDownloadBehavior", behavior | {"browserContextId": context})

    def forget(self) -> None:
        """Begin anew: another task, another folder, nothing counted yet."""
        self._own, self._files, self._bytes = None, 0, 0

    def close(self) -> None:
        if self._staging is not None:
            shutil.rmtree(self._staging, ignore_errors=True)

    def refuse(self, name: str) -> None:
        """One that could not be kept anywhere."""
        if self._folder is None:
            self._note(f'The download of "{safe_name(name)}" was refused.')

    # --------------------------------------------------------------------------------------------------- one of them

    async def _receive(self, event: Any) -> None:
        guid, name = str(event["guid"]), safe_name(str(event["suggestedFilename"]))
        file = _Arriving(name, asyncio.get_running_loop().create_future())
        self._arriving[guid] = file
        self._files += 1
        try:
            if self._files > MOST:
                await self._give_up(guid, f"there were {MOST} already")
            elif self._gate is not None and not await self._gate.allows_download(str(event["url"]), name):
                await self._give_up(guid, "the user did not allow it")
            how = await file.ended
            if how == "completed":
                self._keep(guid, file)
            else:
                self._note(f'The download of "{name}" was {"refused: " + how if how != "canceled" else "canceled"}.')
        except (PlaywrightError, OSError) as error:
            self._note(f'The download of "{name}" failed: {first_line(error)}.')
        finally:
            del self._arriving[guid]

    def _progress(self, event: Any) -> None:
        guid = str(event["guid"])
        file = self._arriving.get(guid)
        if file is None or file.ended.done():
            return
        file.size = int(event["receivedBytes"])
        expected = max(file.size, int(event["totalBytes"]))
        others = sum(one.size for one in self._arriving.values() if one is not file)
        if expected > LARGEST:
            self._begin(self._give_up(guid, f"it is larger than {LARGEST >> 20} MiB"))
        elif self._bytes + others + expected > ALTOGETHER:
            self._begin(self._give_up(guid, f"files of more than {ALTOGETHER >> 20} MiB are not kept"))
        elif event["state"] != "inProgress":
            file.ended.set_result(str(event["state"]))

    async def _give_up(self, guid: str, why: str) -> None:
        file = self._arriving[guid]
        if not file.ended.done():
            file.ended.set_result(why)
        if self._cdp is not None:
            with contextlib.suppress(PlaywrightError):  # it has ended by itself
                await self._cdp.send("Browser.cancelDownload", {"guid": guid, "browserContextId": self._context})
        if self._staging is not None:
            (self._staging / guid).unlink(missing_ok=True)

    def _keep(self, guid: str, file: _Arriving) -> None:
        assert self._staging is not None and self._folder is not None
        target = self._place_for(self._folder, file.name)
        shutil.copyfile(self._staging / guid, target)
        (self._staging / guid).unlink()
        target.chmod(0o600)
        size = target.stat().st_size
        self._bytes += size
        self._note(f'Downloaded "{target.name}" ({size} bytes).')

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
