"""Connections to replicas, on asyncio's event loop and on the one that Ray Serve runs an application in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from holotron.fleet.upstream import MOST_UNREAD, Broken, Upstream

LARGE = b"x" * (4 * MOST_UNREAD)  # reading is paused on the way


def uvloop_loop() -> asyncio.AbstractEventLoop:
    loop = pytest.importorskip("uvloop").new_event_loop()
    assert isinstance(loop, asyncio.AbstractEventLoop)
    return loop


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop_loop])
def test_answers_come_whole_and_connections_are_used_again(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    connections = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            asked = await reader.readexactly(length)
            if asked == b"half":
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
                writer.close()
                return
            said = LARGE if asked == b"large" else asked
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(said), said))

    async def talk() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        upstream = Upstream("127.0.0.1", server.sockets[0].getsockname()[1])
        for asked, said in ((b"small", b"small"), (b"large", LARGE), (b"", b"")):
            got = await upstream.ask("POST", "/", body=asked)
            await asyncio.sleep(0.05)  # nobody reads meanwhile
            assert await got.body() == said
        assert connections == 1
        with pytest.raises(Broken):
            await (await upstream.ask("POST", "/", body=b"half")).body()
        upstream.close()
        server.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(talk(), 30))
