"""The open connections of a small asyncio server, so that closing it leaves none behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

# What may end a connection at any moment and is nobody's fault: it breaks off, says nonsense, or the server closes.
_ENDS = (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError)


class Connections:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def one(self, writer: asyncio.StreamWriter) -> AsyncIterator[None]:
        """Around everything that is done with a connection, in the task that asyncio started for it."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(*_ENDS):
                yield
        finally:
            self._tasks.discard(task)
            writer.close()

    async def close(self, server: asyncio.Server | None) -> None:
        if server is not None:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
