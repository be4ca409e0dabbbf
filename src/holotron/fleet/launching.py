"""Starting replicas, on this machine: one process each, with a GPU of its own or a share of the cores.

A launcher is asked to start the n-th replica and gives back where it listens. `ray_cluster` has another one.

A replica (`holotron.fleet.replica`) reads its settings from its standard input, which is a pipe from the entrance: no
secret is on a command line, and when the entrance dies the pipe ends, and the replica with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from holotron.errors import ConfigError
from holotron.server.settings import Settings

LAST_LINES = 20  # of what a replica said before it died
MOST_PER_CORE = 8  # replicas on a CPU: each is a process with a model of its own
STOP_SECONDS = 10.0


class StartFailed(Exception):
    """It ended before it listened."""

    def __init__(self, message: str, *, hopeless: bool = False) -> None:
        """`hopeless`: it would fail again, for the same reason."""
        super().__init__(message)
        self.hopeless = hopeless


class Running(Protocol):
    """A replica that was started."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...

    async def ended(self) -> str:
        """Wait for its end: what it said last."""

    @property
    def hopeless(self) -> bool:
        """It ended for a reason that would end it again."""

    def kill(self) -> None: ...

    async def stop(self) -> None:
        """In order: it finishes what it does, for a while."""


class Launcher(Protocol):
    @property
    def ours(self) -> bool:
        """Whether it starts them; else somebody else does, some time."""

    async def start(self, n: int) -> Running: ...
    async def close(self) -> None: ...


@dataclass(frozen=True)
class Share:
    """What of a machine a replica gets."""

    gpu: str | None = None  # as CUDA_VISIBLE_DEVICES calls it
    threads: int | None = None

    def environment(self) -> dict[str, str]:
        given = dict(os.environ)
        if self.gpu is not None:
            given["CUDA_VISIBLE_DEVICES"] = self.gpu
        if self.threads is not None:
            given["OMP_NUM_THREADS"] = str(self.threads)
        return given


def shares(count: int, device: str | None) -> list[Share]:
    """Of this machine, for so many replicas."""
    import torch

    wants_gpu = device.startswith("cuda") if device is not None else torch.cuda.is_available()
    if not wants_gpu:
        cores = len(os.sched_getaffinity(0))
        if count > MOST_PER_CORE * cores:
            raise ConfigError(
                f"{count} replicas on {cores} cores would only keep each other waiting: start at most "
                f"{MOST_PER_CORE * cores}, or spread them over machines (--ray ADDRESS)"
            )
        return [Share(threads=max(1, cores // count))] * count
    if device is not None and ":" in device:
        raise ConfigError(f"model.device {device} names one GPU; with --replicas each gets its own: say cuda")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = [name.strip() for name in visible.split(",") if name.strip()] if visible is not None else None
    if gpus is None:
        gpus = [str(n) for n in range(torch.cuda.device_count())]
    if count > len(gpus):
        raise ConfigError(
            f"{count} replicas want a GPU each, and {len(gpus)} can be seen here: start fewer (--replicas "
            f"{len(gpus)}), make more visible (CUDA_VISIBLE_DEVICES), or spread them over machines (--ray ADDRESS)"
        )
    return [Share(gpu=name) for name in gpus[:count]]


class LocalLauncher:
    ours = True

    def __init__(self, settings: Settings, agent: Any, places: Sequence[Share]) -> None:
        """`settings`: of every replica. `agent`: the model's profile."""
        self._order = {"settings": with_secrets(settings), "agent": agent}
        self._places = places

    async def start(self, n: int, called: int | None = None) -> LocalProcess:
        """`called`: its number in log lines, if that is another."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "holotron.fleet.replica",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._places[n].environment(),
            start_new_session=True,  # Ctrl-C is for the entrance, which then stops them in order
            limit=2**20,
        )
        running = LocalProcess(process, n if called is None else called)
        await running.begin(self._order | {"threads": self._places[n].threads})
        return running

    async def close(self) -> None:
        return


class LocalProcess:
    def __init__(self, process: asyncio.subprocess.Process, n: int) -> None:
        self.host, self.port = "127.0.0.1", 0  # unless its settings say another
        self._process = process
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._reading = asyncio.ensure_future(self._read(n))

    @property
    def pid(self) -> int:
        return self._process.pid

    async def begin(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            await self._process.stdin.drain()
        line = await self._process.stdout.readline()
        if not line:
            raise StartFailed(await self.ended(), hopeless=self.hopeless)
        self.port = json.loads(line)["port"]

    async def _read(self, n: int) -> None:
        """What it says goes on to our own standard error, each line with its number."""
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            text = line.decode(errors="replace").rstrip("\n")
            self._last.append(text)
            sys.stderr.write(_numbered(text, n) + "\n")

    async def ended(self) -> str:
        status = await self._process.wait()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._reading), 5)
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        said = [told for line in self._last if (told := _complaint(line))]
        return f"it ended with {how}" + (f": {said[-1]}" if said else "")

    @property
    def hopeless(self) -> bool:
        # Settings, checkpoints, packages: see `holotron.errors`. A crash has another status.
        return self._process.returncode in (2, 3, 8)

    def kill(self) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                # Its own `kill` looks first whether it has ended, and takes the status away from who waits for it.
                os.kill(self._process.pid, signal.SIGKILL)

    async def stop(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._process.stdin.write(b"stop\n")
            await self._process.stdin.drain()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
        except TimeoutError:
            self.kill()
            await self._process.wait()


def _numbered(line: str, n: int) -> str:
    """Log lines are JSON, or text."""
    if line.startswith("{") and line.endswith("}"):
        return f'{{"replica": "{n}", {line[1:]}'
    return f"[{n}] {line}"


def _complaint(line: str) -> str:
    """What a line says, if it is not just news."""
    try:
        told = json.loads(line)
        return str(told["message"]) if told["level"] in ("error", "critical") else ""
    except (ValueError, KeyError, TypeError):
        return line.strip()


def with_secrets(settings: Settings) -> Any:
    """As JSON that can be read back, keys included."""

    def plain(value: Any) -> Any:
        if hasattr(value, "get_secret_value"):
            return value.get_secret_value()
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [plain(part) for part in value]
        return value if isinstance(value, str | int | float | bool | None) else str(value)

    return plain(settings.model_dump())
