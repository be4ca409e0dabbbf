"""Replicas that are none: they say what a test wants, to a real entrance."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from holotron.fleet.entrance import Entrance
from holotron.fleet.serving import Addresses
from holotron.server.layers import from_flags, resolve

KEY = "the-fleet's-own"
JSON = b"application/json"
REPLY = json.dumps({"choices": []}).encode()


def whole(body: bytes, kind: bytes = JSON, more: bytes = b"", status: int = 200) -> bytes:
    head = b"HTTP/1.1 %d X\r\ncontent-type: %b\r\n%bcontent-length: %d\r\n\r\n" % (status, kind, more, len(body))
    return head + body


def refusal(status: int, code: str) -> bytes:
    return whole(json.dumps({"error": {"message": "no", "code": code}}).encode(), status=status)


def is_whole(answer: bytes) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
    return length.isdigit() and len(body) == int(length)


class Stub:
    """A replica that says `reply` to chats; None: nothing, and the connection stays open."""

    def __init__(self, reply: bytes | None = whole(REPLY), **status: Any) -> None:
        self.reply: bytes | None = reply
        self.hangs = False
        self.asked: list[str] = []
        self.has = False
        self.status = {"stage": "ready", "sessions": [], "journal": "shared", "max_sessions": 100, "capacity": 100}
        self.status |= status

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        self._server.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
                path = head.split()[1].decode()
                self.asked.append(path)
                said = self._said(path)
                if self.hangs or said is None:
                    await asyncio.sleep(60)
                    return
                writer.write(said)
                if said == self.reply and not is_whole(said):
                    writer.close()
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return

    def _said(self, path: str) -> bytes | None:
        if path == "/fleet/status":
            return whole(json.dumps(self.status).encode())
        if path == "/fleet/has":
            return whole(json.dumps({"has": self.has}).encode())
        if path == "/metrics":
            return whole(b"# TYPE holotron_x counter\nholotron_x_total 1\n", b"text/plain")
        return whole(b"{}") if path.startswith("/fleet/") else self.reply


@asynccontextmanager
async def fleet(
    folder: Path, *stubs: Stub, flags: Sequence[str] = ()
) -> AsyncIterator[tuple[Entrance, httpx.AsyncClient]]:
    flags = ["--fleet.key", KEY, "--fleet.folder", str(folder), "--fleet.journal", "none", *flags]
    urls = [await stub.start() for stub in stubs]
    door = Entrance(resolve(from_flags(flags)[0]).settings, Addresses(urls), len(urls), KEY)
    await door.start()
    client = httpx.AsyncClient(transport=httpx.ASGITransport(door.app()), base_url="http://127.0.0.1", timeout=20)
    try:
        while sum(one.stage == "ready" for one in door.replicas.all()) < sum("stage" in stub.status for stub in stubs):
            await asyncio.sleep(0.01)
        yield door, client
    finally:
        await client.aclose()
        await door.stop()
        for stub in stubs:
            stub.close()


async def chat(client: httpx.AsyncClient, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": "x"}], **more}
    return await client.post("/v1/chat/completions", json=body, headers=headers)


def played(play: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(play(), 30))
