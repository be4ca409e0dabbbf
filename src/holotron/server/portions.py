"""Reading in portions: no connection keeps the event loop for longer than a moment, whatever arrives on it.

What a piece of a request costs depends on what is in it. A body in chunks of one byte, or a head of sixty thousand
lines, fills what comes in one go (256 KiB) with work for a tenth of a second and more, on every connection, and nobody
needs a key for that. So only little is read at once. Who has more to read takes turns: one turn of one connection in a
round of the event loop, and in between everybody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

PORTION = 4096  # bytes that are read at once, whatever is in them
TURN_SECONDS = 0.002


class Turns:
    def __init__(self) -> None:
        self._waiting: deque[Callable[[], bool]] = deque()  # the first one is next, or at work

    def wait(self, read: Callable[[], bool]) -> None:
        """`read` reads for a moment, and says whether there is more to read."""
        self._waiting.append(read)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        read, more = self._waiting[0], False
        try:
            more = read()
        finally:
            self._waiting.popleft()
            if more:
                self._waiting.append(read)
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._next)
