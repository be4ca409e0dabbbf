"""Small pictures, made at a pace that no agent feels.

Shrinking a screenshot takes some milliseconds, and forty sessions take screenshots all the time. So thumbnails are made
by one thread that rests most of the time: it is at work for at most a twentieth of one core while a run is going on.
The tiles of the overview are renewed in turn, as fast as that allows and as the number of viewers does (each picture
goes to each of them); all viewers are shown the same ones, which were made once.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from holotron.console.frames import Picture

if TYPE_CHECKING:
    from holotron.console.recorded import WatchedRun

SHARE = 0.05  # of one core, while agents are at work
SENT = 20.0  # pictures a second, to all viewers together
FASTEST = 12.0  # tiles renewed in a second


class Thumbnails:
    def __init__(self, run: WatchedRun) -> None:
        self._run = run
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="thumbnails")
        self._turn = asyncio.Lock()
        self._grids = 0
        self._renewing: asyncio.Task[None] | None = None
        self._made_at: dict[str, float] = {}  # sessions, and when their tile was last renewed

    async def get(self, name: str) -> Picture | None:
        """Made if need be; then those who ask wait for their turn."""
        if (known := self._run.frames.known_small(name)) is not None:
            return known
        async with self._turn:
            made, worked = await asyncio.get_running_loop().run_in_executor(self._worker, self._make, name)
            if self._run.live:
                await asyncio.sleep(min(worked * (1 / SHARE - 1), 1.0))
        return made

    def _make(self, name: str) -> tuple[Picture | None, float]:
        """The picture, and how long a core worked for it: on a busy machine it takes longer, which is no work."""
        began = time.thread_time()
        return self._run.frames.small(name), time.thread_time() - began

    def viewer_came(self, *, grid: bool) -> None:
        self._grids += grid
        if self._grids and self._run.live and (self._renewing is None or self._renewing.done()):
            self._renewing = asyncio.ensure_future(self._renew())

    def viewer_left(self, *, grid: bool) -> None:
        self._grids -= grid

    async def _renew(self) -> None:
        """Give tiles the latest screens, the one that has waited longest first, as long as somebody looks at them."""
        while self._grids:
            tiles = self._run.board.column("id", "frame", "thumb")
            stale = [(id, frame) for id, frame, thumb in tiles if frame and frame != thumb]
            if stale:
                id, frame = min(stale, key=lambda tile: self._made_at.get(tile[0], 0.0))
                self._made_at[id] = time.monotonic()
                if await self.get(frame) is not None:
                    self._run.board.put(id, thumb=frame)
            await asyncio.sleep(max(1 / FASTEST, self._grids / SENT))
