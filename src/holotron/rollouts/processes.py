"""Other processes, and talking with them: on this machine (`LocalPlace`), or wherever a cluster puts them (`fleet`).

    process = await place.start("player-0", main, settings)       # main(channel, settings) runs there
    process.send(message)
    answer = await process.receive()                              # ProcessLost when it is gone, or has fallen silent

Both sides send Python objects, in order. A process shows every second that its event loop turns; one that does not for
`SILENT_SECONDS` is ended. The other way round, a process whose starter is gone ends by itself, and takes its browsers
with it: nothing is left to anybody's care. What could be left all the same is found by `orphans`.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from holotron.errors import HolotronError
from holotron.rollouts.orphans import reap

BEAT_SECONDS = 1.0
SILENT_SECONDS = 30.0
STARTING_SECONDS = 600.0  # a model may have to be loaded first, with the event loop standing still
STOP_SECONDS = 15.0  # for a process to end when asked to
_HEADER = struct.Struct("!Q")
EMPTY = _HEADER.pack(0)  # a frame without a message: a sign of life


class ProcessLost(HolotronError):
    """The other process is gone: killed, crashed, silent, or its machine is."""


class Channel(Protocol):
    """To whoever started this process."""

    def send(self, message: Any) -> None:
        """From any thread."""

    async def receive(self) -> Any: ...


Main = Callable[..., Awaitable[None]]  # (channel, *arguments); a function of a module, so that it has a name there


class Process(Protocol):
    name: str

    def send(self, message: Any) -> None: ...

    async def receive(self) -> Any: ...

    async def stop(self) -> None:
        """Let it end, and end it if it does not. Never raises."""


class Shared(Protocol):
    """Arrays that many processes read, handed over once and not once for each."""

    def write(self, arrays: Mapping[str, Any]) -> Opener:
        """Overwrites what was written before: nobody may be reading that any more."""

    def close(self) -> None: ...


class Opener(Protocol):
    """Goes to other processes in a message."""

    def open(self) -> dict[str, Any]: ...


class Place(Protocol):
    """Where processes can be started."""

    own_gpus: bool  # a process sees only those GPUs that it was given

    async def start(self, name: str, main: Main, *arguments: Any) -> Process:
        """Returns when it has begun, which on a full cluster may take a while."""

    def shared(self) -> Shared: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Crashed:
    """The last thing a process says, if it can."""

    error: str


def crashed(error: BaseException) -> Crashed:
    if isinstance(error, HolotronError):
        return Crashed(str(error))
    where = traceback.extract_tb(error.__traceback__)[-1:]
    return Crashed(f"{type(error).__name__}: {error}" + "".join(f" ({at.filename}:{at.lineno})" for at in where))


@dataclass(frozen=True, slots=True)
class Start:
    """The first thing a process is told."""

    name: str
    main: Main
    arguments: tuple[Any, ...]
    path: tuple[str, ...]  # where the starter finds its modules
    folder: str  # and from where it counts relative paths

    @staticmethod
    def of(name: str, main: Main, arguments: tuple[Any, ...]) -> Start:
        return Start(name, main, arguments, tuple(sys.path), str(Path.cwd()))

    def prepare(self) -> None:
        """In the new process: the same modules and files are found, as far as they are here."""
        sys.path.extend(entry for entry in self.path if entry not in sys.path)
        with suppress(OSError):
            os.chdir(self.folder)


# ---------------------------------------------------------------------------------------------------- on this machine


def frame(message: Any) -> bytes:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _HEADER.pack(len(data)) + data


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = _HEADER.unpack(await reader.readexactly(_HEADER.size))
    return await reader.readexactly(length)


class LocalPlace:
    """Processes of this machine, each a Python of its own, tied to us by a pair of sockets."""

    own_gpus = False

    async def start(self, name: str, main: Main, *arguments: Any) -> Process:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "holotron.rollouts.child", str(theirs.fileno())]
            process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,  # ours is for results
                start_new_session=True,  # Ctrl-C is for us; they are told
            )
        try:
            reader, writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            process.kill()
            process.wait()
            raise
        writer.write(frame(Start.of(name, main, arguments)))
        return _LocalProcess(name, process, reader, writer)

    def shared(self) -> Shared:
        from holotron.rollouts.shared import LocalShared

        return LocalShared()

    async def close(self) -> None:
        await asyncio.to_thread(reap)


class _LocalProcess:
    def __init__(
        self, name: str, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.name = name
        self._process = process
        self._reader = reader
        self._writer = writer
        self._patience = STARTING_SECONDS

    def send(self, message: Any) -> None:
        if not self._writer.is_closing():
            self._writer.write(frame(message))

    async def receive(self) -> Any:
        try:
            while True:
                async with asyncio.timeout(self._patience):
                    data = await read_frame(self._reader)
                if data:
                    break
        except TimeoutError:
            await self._end()
            raise ProcessLost(f"{self.name} was silent for {self._patience:g} s") from None
        except (asyncio.IncompleteReadError, OSError):
            raise ProcessLost(f"{self.name} {await self._end()}") from None
        self._patience = SILENT_SECONDS
        message = pickle.loads(data)
        if isinstance(message, Crashed):
            await self._end()
            raise ProcessLost(f"{self.name} crashed: {message.error}")
        return message

    async def stop(self) -> None:
        await self._end(STOP_SECONDS)

    async def _end(self, patience: float = 1.0) -> str:
        """How it ended."""
        self._writer.close()  # it sees that, and ends
        try:
            status = await asyncio.to_thread(self._process.wait, patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = await asyncio.to_thread(self._process.wait)
        if status >= 0:
            return f"ended with status {status}"
        return f"was killed ({signal.Signals(-status).name})"
