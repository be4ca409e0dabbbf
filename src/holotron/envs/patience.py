"""Time limits that stand still while a person is asked.

async with patience.limit(15):          # as asyncio.timeout
    ...
with patience.stopped():                # no limit runs out in here, whoever waits on it
    await person.answers()
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class Patience:
    def __init__(self) -> None:
        self._limits: dict[asyncio.Timeout, float] = {}  # seconds that were left when the clock was stopped
        self._stops = 0

    @asynccontextmanager
    async def limit(self, seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
        if seconds is None:
            async with asyncio.timeout(None) as none:
                yield none
            return
        async with asyncio.timeout(None if self._stops else seconds) as limit:
            self._limits[limit] = seconds
            try:
                yield limit
            finally:
                del self._limits[limit]

    @contextmanager
    def stopped(self) -> Iterator[None]:
        self._stops += 1
        if self._stops == 1:
            now = asyncio.get_running_loop().time()
            for limit in self._limits:
                if (end := limit.when()) is not None and not limit.expired():
                    self._limits[limit] = max(end - now, 0.0)
                    limit.reschedule(None)
        try:
            yield
        finally:
            self._stops -= 1
            if not self._stops:
                now = asyncio.get_running_loop().time()
                for limit, left in self._limits.items():
                    if limit.when() is None:
                        limit.reschedule(now + left)
