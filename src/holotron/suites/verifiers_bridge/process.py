"""The process that plays verifiers environments, from our side.

host = HostProcess(interpreter(), "holotron-sites", {})
episode = await host.play(3)
told = await host.next(episode)            # {"ask": ...} or {"end": ...}
await host.reply(episode, {"content": "42"})
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import json
import os
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holotron.errors import ConfigError, EnvironmentFault, MissingDependency

PYTHON = "HOLOTRON_VERIFIERS_PYTHON"
SCRIPT = Path(__file__).parent / "host.py"
START_SECONDS = 300.0  # a busy machine takes a minute to import verifiers
LINE = 1 << 28  # bytes; a request holds every screenshot of its episode


def interpreter() -> str:
    """Who has verifiers: the interpreter that the user names, else this one."""
    named = os.environ.get(PYTHON, "")
    if named:
        if not os.access(named, os.X_OK):
            raise ConfigError(f"{PYTHON} is {named}, which is no program")
        return named
    if importlib.util.find_spec("verifiers") is None:
        raise MissingDependency(
            "verifiers is not installed here. Install it (pip install verifiers), or set "
            f"{PYTHON} to the interpreter of an environment that has it"
        )
    return sys.executable


class HostProcess:
    def __init__(self, python: str, name: str, settings: Mapping[str, Any]) -> None:
        self._command = [python, str(SCRIPT), name, json.dumps(dict(settings))]
        self._name = name
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self._ids = itertools.count(1)
        self._told: dict[int, asyncio.Queue[dict[str, Any]]] = {}
        self._ready: asyncio.Future[None] | None = None
        self._said: deque[str] = deque(maxlen=20)
        self._tasks: list[asyncio.Task[None]] = []

    async def play(self, index: int) -> int:
        await self._start()
        id = next(self._ids)
        self._told[id] = asyncio.Queue()
        await self._send({"id": id, "play": index})
        return id

    async def next(self, episode: int) -> dict[str, Any]:
        told = await self._told[episode].get()
        if "end" in told or "lost" in told:
            self._told.pop(episode, None)
        if "lost" in told:
            raise EnvironmentFault(f"{self._name}: its process ended: {self._last()}")
        return told

    async def reply(self, episode: int, message: Mapping[str, Any]) -> None:
        await self._send({"id": episode, "reply": dict(message)})

    async def cancel(self, episode: int) -> None:
        if self._told.pop(episode, None) is not None and self._alive:
            await self._send({"id": episode, "cancel": True})

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), 10)
            except TimeoutError:
                process.kill()
                await process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    # ---------------------------------------------------------------------------------------------------- the inside

    @property
    def _alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def _start(self) -> None:
        async with self._starting:
            if self._alive:
                return
            await self.close()
            pipe = asyncio.subprocess.PIPE
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, stderr=pipe, limit=LINE
            )
            self._ready = asyncio.get_running_loop().create_future()
            self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._overhear())]
            try:
                await asyncio.wait_for(asyncio.shield(self._ready), START_SECONDS)
            except TimeoutError:
                await self.close()
                raise ConfigError(f"{self._name} was not ready after {START_SECONDS:.0f} seconds") from None

    async def _listen(self) -> None:
        assert self._process is not None and self._process.stdout is not None and self._ready is not None
        process, ready = self._process, self._ready
        async for line in self._process.stdout:
            told = json.loads(line)
            if "ready" in told:
                ready.set_result(None)
            elif (queue := self._told.get(told["id"])) is not None:
                queue.put_nowait(told)
        await process.wait()
        await asyncio.sleep(0.1)  # for its last words
        if not ready.done():
            ready.set_exception(ConfigError(f"verifiers cannot play {self._name}: {self._last()}"))
        for queue in self._told.values():
            queue.put_nowait({"lost": True})

    async def _overhear(self) -> None:
        assert self._process is not None and self._process.stderr is not None
        async for line in self._process.stderr:
            if text := line.decode(errors="replace").strip():
                self._said.append(text)

    def _last(self) -> str:
        return self._said[-1] if self._said else "no reason given"

    async def _send(self, order: Mapping[str, Any]) -> None:
        if not self._alive:
            raise EnvironmentFault(f"{self._name}: its process has ended: {self._last()}")
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            await self._process.stdin.drain()
        except OSError as error:
            raise EnvironmentFault(f"{self._name}: its process has ended: {error}") from error
