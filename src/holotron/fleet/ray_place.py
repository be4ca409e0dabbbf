"""Processes on a Ray cluster: the same as on this machine (`rollouts.processes`), wherever there is room.

    place = RayPlace("auto", cpus=1)
    process = await place.start("player-0", main, settings)

Ray finds a machine with a free core, starts an actor there, and says when it or its machine has died. Everything else
is ours: messages, signs of life, replacing what was lost. An actor that is not asked for messages any more ends by
itself, browsers and all; Ray ends it too when it sees that the driver is gone.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holotron.errors import ConfigError, EnvironmentFault, MissingDependency
from holotron.rollouts.orphans import Scratch, reap
from holotron.rollouts.processes import (
    BEAT_SECONDS,
    SILENT_SECONDS,
    STARTING_SECONDS,
    STOP_SECONDS,
    Crashed,
    Main,
    Process,
    ProcessLost,
    Shared,
    Start,
    crashed,
)

ABANDONED_SECONDS = 2 * SILENT_SECONDS  # after which an actor that nobody asks anything ends


def ray_module() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
    if _has_token() and "ray" not in sys.modules:  # it reads its mode once: what it starts would have another one
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # as `ray start` does where there is one
    try:
        import ray
    except ImportError:
        raise MissingDependency.extra("ray", "ray") from None
    return ray


def _has_token() -> bool:
    named = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(os.environ)
    return bool(named) or (Path.home() / ".ray" / "auth_token").is_file()


def connect(address: str) -> Any:
    """Ray, connected to a cluster. `auto`: to the one that RAY_ADDRESS names or that runs here; if there is none, one
    of this machine alone is started, for as long as we run."""
    ray = ray_module()
    if ray.is_initialized():
        return ray
    wanted = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    if wanted.startswith("ray://"):
        raise ConfigError(
            f"{wanted} is the address for Ray's client; give the cluster's own (HOST:6379), on one of its machines"
        )
    wanted = wanted or _running_here() or "local"
    if wanted != "local" and not _answers(wanted):
        raise ConfigError(
            f"there is no Ray cluster at {wanted}. Start one with `ray start --head`, or say --ray local to use this "
            "machine alone."
        )
    options: dict[str, Any] = {"include_dashboard": False} if wanted == "local" else {}
    try:
        ray.init(address=wanted, log_to_driver=False, configure_logging=False, **options)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        raise ConfigError(f"Ray at {wanted} does not let us in: {_first_line(error)}") from None
    return ray


def _running_here() -> str:
    """The cluster that `ray start` left a note of on this machine, if it is still there."""
    note = Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray" / "ray_current_cluster"
    try:
        found = note.read_text().strip()
    except OSError:
        return ""
    return found if _answers(found) else ""


def _answers(address: str) -> bool:
    """Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError):
        return False
    return True


class RayPlace:
    own_gpus = True

    def __init__(self, address: str = "auto", *, cpus: float = 1.0, gpus: float = 0.0) -> None:
        self._ray = connect(address)
        self._options = {"num_cpus": cpus, "num_gpus": gpus, "max_restarts": 0, "max_concurrency": 100}
        self._actor = self._ray.remote(Host)

    @property
    def cores(self) -> int:
        """Of all machines that are there now."""
        return int(self._ray.cluster_resources().get("CPU", 0))

    async def start(self, name: str, main: Main, *arguments: Any) -> Process:
        process = _RayProcess(self._ray, name, self._actor.options(**self._options).remote())
        try:
            await process.begin(Start.of(name, main, arguments))
        except BaseException:
            process.kill()
            raise
        return process

    def shared(self) -> Shared:
        return _RayShared(self._ray)

    async def close(self) -> None:
        await asyncio.sleep(0.5)  # for those that had to be killed
        await asyncio.to_thread(reap)


# ----------------------------------------------------------------------------------------------------- with the driver


class _RayProcess:
    def __init__(self, ray: Any, name: str, actor: Any) -> None:
        self.name = name
        self._ray = ray
        self._actor = actor
        self._sent = 0
        self._waiting: list[Any] = []
        self._patience = STARTING_SECONDS

    async def begin(self, start: Start) -> None:
        await self._ask(self._actor.begin.remote(start), None)  # for as long as the cluster is full

    def send(self, message: Any) -> None:
        # Calls to an actor may overtake each other; numbers put them in order again.
        self._actor.post.remote(self._sent, [message])
        self._sent += 1

    async def receive(self) -> Any:
        while not self._waiting:
            said = await self._ask(self._actor.poll.remote(), self._patience)
            if said:
                self._patience = SILENT_SECONDS
                self._waiting = said
        message = self._waiting.pop(0)
        if isinstance(message, Crashed):
            raise ProcessLost(f"{self.name} crashed: {message.error}")
        return message

    async def _ask(self, answer: Any, patience: float | None) -> Any:
        try:
            async with asyncio.timeout(patience):
                return await answer
        except TimeoutError:
            raise ProcessLost(f"{self.name} was silent for {patience:g} s") from None
        except self._ray.exceptions.RayActorError as error:
            raise ProcessLost(f"{self.name} was lost: {_first_line(error)}") from None
        except self._ray.exceptions.RayError as error:
            raise EnvironmentFault(
                f"Ray failed: {_first_line(error)}. What is done is on record: with a cluster that works, the same "
                "command goes on."
            ) from None

    async def stop(self) -> None:
        """Never raises, whatever has become of Ray meanwhile."""
        with suppress(Exception):  # it is gone, or does not hear
            async with asyncio.timeout(STOP_SECONDS):
                await self._actor.stop.remote()
        self.kill()

    def kill(self) -> None:
        with suppress(Exception):
            self._ray.kill(self._actor)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return lines[-1] if "creation task" in lines[0] else lines[0]  # what it was stands at the end of a long story


class _RayShared:
    """Ray's object store: shared memory on each machine, sent to each machine once."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def write(self, tensors: Mapping[str, Any]) -> RayOpener:
        import torch

        plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        arrays = {name: tensor.view(torch.uint8).reshape(-1).numpy() for name, tensor in plain.items()}
        about = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in plain.items()}
        return RayOpener(self._ray.put(arrays), about)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class RayOpener:
    reference: Any  # to the object in Ray's store
    about: dict[str, tuple[Any, tuple[int, ...]]]

    def open(self) -> dict[str, Any]:
        import torch

        arrays = ray_module().get(self.reference)
        found = {}
        for name, (dtype, shape) in self.about.items():
            found[name] = torch.frombuffer(memoryview(arrays[name]), dtype=torch.uint8).view(dtype).view(shape)
        return found


# ------------------------------------------------------------------------------------------------- in another process


class Host:
    """The actor: an event loop that runs `main`, and two boxes."""

    def __init__(self) -> None:
        self._heard = time.monotonic()
        self._inbox: asyncio.Queue[Any] = asyncio.Queue()
        self._outbox: asyncio.Queue[Any] = asyncio.Queue()
        self._early: dict[int, list[Any]] = {}
        self._next = 0
        self._work: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scratch = Scratch()

    async def begin(self, start: Start) -> None:
        self._heard = time.monotonic() + STARTING_SECONDS  # the loop may stand still until it has begun
        self._loop = asyncio.get_running_loop()
        self._scratch.__enter__()
        threading.Thread(target=self._watch, name="holotron-watch", daemon=True).start()
        start.prepare()
        self._work = asyncio.ensure_future(start.main(self, *start.arguments))
        self._work.add_done_callback(self._ended)

    async def post(self, number: int, message: list[Any]) -> None:
        """In a list, as Ray would fetch what an argument by itself refers to."""
        self._early[number] = message
        while self._next in self._early:
            self._inbox.put_nowait(self._early.pop(self._next)[0])
            self._next += 1

    async def poll(self) -> list[Any]:
        """What was said since the last time; after a second without a word, nothing: that is a sign of life."""
        self._heard = time.monotonic()
        try:
            async with asyncio.timeout(BEAT_SECONDS):
                said = [await self._outbox.get()]
        except TimeoutError:
            return []
        while not self._outbox.empty():
            said.append(self._outbox.get_nowait())
        self._heard = time.monotonic()
        return said

    async def stop(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait({self._work})
        self._scratch.__exit__()
        threading.Timer(1.0, os._exit, (0,)).start()  # where Ray cannot end us: its head may be gone

    # ------------------------------------------------------------------------------------- the channel of whoever works

    def send(self, message: Any) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._outbox.put_nowait, message)

    async def receive(self) -> Any:
        return await self._inbox.get()

    def _ended(self, work: asyncio.Future[None]) -> None:
        if not work.cancelled():
            error = work.exception() or RuntimeError("it came to an end")
            self._outbox.put_nowait(crashed(error))

    def _watch(self) -> None:
        """In a thread, so that it also ends a process whose loop stands still."""
        while time.monotonic() - self._heard < ABANDONED_SECONDS:
            time.sleep(BEAT_SECONDS)
        os._exit(1)
