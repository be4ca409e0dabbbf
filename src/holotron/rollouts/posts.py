"""A post: a process that does its work as long as it lives, and is replaced when it is lost.

    post = Post(place, "player-0", main, arguments)
    await post.run(heard, lost)                          # until cancelled

`heard(process, message)` is told everything it says; `lost(process, reason)` that it is gone, before the next one
begins.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NoReturn

from holotron.errors import EnvironmentFault
from holotron.rollouts.processes import Main, Place, Process, ProcessLost

log = logging.getLogger(__name__)

_MOST_FAILURES = 3  # in a row, of processes that were lost before they said anything


class Post:
    def __init__(self, place: Place, name: str, main: Main, *arguments: Any) -> None:
        self._place = place
        self._name = name
        self._main = main
        self._arguments = arguments

    async def run(self, heard: Callable[[Process, Any], None], lost: Callable[[Process, str], None]) -> NoReturn:
        """Raises `EnvironmentFault` when no process comes up that works."""
        failures = generation = 0
        while True:
            process = None
            spoke = False
            try:
                process = await self._place.start(f"{self._name}.{generation}", self._main, *self._arguments)
                while True:
                    message = await process.receive()
                    spoke = True
                    heard(process, message)
            except ProcessLost as error:
                log.warning("%s", error)
                if process is not None:
                    lost(process, str(error))
                failures = 0 if spoke else failures + 1
                if failures == _MOST_FAILURES:
                    raise EnvironmentFault(f"no process came up that works: {error}") from None
                await asyncio.sleep(failures)
            finally:
                if process is not None:
                    await process.stop()
            generation += 1
