"""A process that `processes.LocalPlace` started: `python -m holotron.rollouts.child SOCKET`."""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import sys
import threading
from typing import Any

from holotron.rollouts.orphans import Scratch
from holotron.rollouts.processes import BEAT_SECONDS, EMPTY, STOP_SECONDS, Start, crashed, frame, read_frame


class SocketChannel:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self.inbox: asyncio.Queue[Any] = asyncio.Queue()

    def send(self, message: Any) -> None:
        self._loop.call_soon_threadsafe(self.write, frame(message))

    async def receive(self) -> Any:
        return await self.inbox.get()

    def write(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)


async def serve(link: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=link)
    start: Start = pickle.loads(await read_frame(reader))
    start.prepare()
    channel = SocketChannel(writer)
    work = asyncio.ensure_future(start.main(channel, *start.arguments))
    heard = asyncio.create_task(_hear(reader, channel))
    beating = asyncio.create_task(_beat(channel))
    await asyncio.wait({work, heard}, return_when=asyncio.FIRST_COMPLETED)
    end_in(STOP_SECONDS)
    work.cancel()  # whoever started us is gone, if it is not over anyway
    await asyncio.wait({work})
    if not work.cancelled() and (error := work.exception()) is not None:
        channel.write(frame(crashed(error)))
    beating.cancel()
    if not writer.is_closing():
        writer.close()
        await asyncio.wait({asyncio.ensure_future(writer.wait_closed())}, timeout=1.0)


async def _hear(reader: asyncio.StreamReader, channel: SocketChannel) -> None:
    """Until the other end is closed: by the system, if it was killed."""
    try:
        while True:
            channel.inbox.put_nowait(pickle.loads(await read_frame(reader)))
    except (asyncio.IncompleteReadError, OSError):
        return


async def _beat(channel: SocketChannel) -> None:
    while True:
        channel.write(EMPTY)
        await asyncio.sleep(BEAT_SECONDS)


def end_in(seconds: float) -> None:
    """Whatever hangs in tidying up, this process ends. Browsers see that we are gone and end too."""
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()


def main() -> None:
    with Scratch():
        asyncio.run(serve(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
