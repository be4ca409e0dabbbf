"""HTTP/1.1 from the standard library: just enough for server-rendered pages on the loopback interface.

    server = HttpServer(answer)                # answer(HttpRequest) -> HttpResponse, called on the server's own thread
    server.port
    server.close()

It also takes requests in the form that proxies get (`GET http://host/path`), so that pages can live under any host name
while everything is one loopback port. One thread runs all connections; a page that is slow on purpose
(`HttpResponse.delay`) holds up nobody else.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

from holotron.envs.connections import Connections

log = logging.getLogger(__name__)

HEAD_LIMIT = 64 * 1024  # bytes
BODY_LIMIT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class HttpRequest:
    method: str
    host: str  # without the port
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # names in lower case
    body: bytes = b""

    @property
    def form(self) -> dict[str, str]:
        """The fields of a plain HTML form; of several with one name, the last."""
        return dict(parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True))

    @property
    def cookies(self) -> dict[str, str]:
        pairs = (part.strip().partition("=") for part in self.headers.get("cookie", "").split(";"))
        return {name: value for name, _, value in pairs if name}


@dataclass(slots=True)
class HttpResponse:
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0  # seconds before it is sent


class HttpServer:
    """Listens at once, on a thread of its own."""

    def __init__(self, answer: Callable[[HttpRequest], HttpResponse], *, port: int = 0) -> None:
        self._answer = answer
        self._loop = asyncio.new_event_loop()
        self._connections = Connections()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sites", daemon=True)
        self._thread.start()
        starting = asyncio.start_server(self._serve, "127.0.0.1", port, limit=HEAD_LIMIT)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(timeout=10)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._connections.close(self._server), self._loop).result(timeout=10)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=10)
            self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._connections.one(writer):
            while await self._exchange(reader, writer):
                pass

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; whether the connection stays open."""
        request = await _read(reader)
        try:
            response = self._answer(request)
        except Exception:  # a fault of ours must not look like a page that never comes
            log.exception("%s %s failed", request.method, request.path)
            response = HttpResponse(b"Internal error", 500, {"Content-Type": "text/plain"})
        if response.delay:
            await asyncio.sleep(response.delay)
        keep = request.headers.get("connection", "").lower() != "close"
        writer.write(_head(response, keep) + (b"" if request.method == "HEAD" else response.body))
        await writer.drain()
        return keep


async def _read(reader: asyncio.StreamReader) -> HttpRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    parts = urlsplit(target)
    length = int(headers.get("content-length", 0))
    if not 0 <= length <= BODY_LIMIT:
        raise ValueError(f"a body of {length} bytes")
    return HttpRequest(
        method=method,
        host=(parts.hostname or headers.get("host", "").partition(":")[0]).lower(),
        path=parts.path or "/",
        query=dict(parse_qsl(parts.query, keep_blank_values=True)),
        headers=headers,
        body=await reader.readexactly(length),
    )


def _head(response: HttpResponse, keep: bool) -> bytes:
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in response.headers.items()]
    lines += [f"Set-Cookie: {name}={value}; Path=/; SameSite=Lax" for name, value in response.cookies.items()]
    # Going back must ask again: an old page from the browser's memory would show a state that is gone.
    lines += ["Cache-Control: no-store", f"Content-Length: {len(response.body)}"]
    lines += [f"Connection: {'keep-alive' if keep else 'close'}", "", ""]
    return "\r\n".join(lines).encode("latin-1")
