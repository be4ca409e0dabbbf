"""HTTP to one replica: connections that are kept, one request at a time on each. Small on purpose, because every
request of every client goes through here: a head, a body in one piece, and the answer as it comes.

    answer = await upstream.ask("POST", "/v1/chat/completions", headers, body)      # Broken: nobody answers
    async for piece in answer.pieces(): ...                                         # Broken: it stopped in the middle
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import h11

from holotron.addresses import in_url

IDLE_SECONDS = 30.0  # less than a replica waits for the next request
CONNECT_SECONDS = 5.0
MOST_UNREAD = 2**20  # bytes of an answer that its client has not taken yet
LAST_WORDS_SECONDS = 2.0  # for what a process that ended had said already

Headers = Sequence[tuple[bytes, bytes]]


class Broken(Exception):
    """The replica does not answer, or stopped in the middle of it."""


class Refused(Exception):
    """The replica's answer to something of the router's own was no."""

    def __init__(self, status: int, body: Any) -> None:
        error = body.get("error", {}) if isinstance(body, dict) else {}
        super().__init__(f"{status}: {error.get('message', body)}")
        self.status = status
        self.code: str | None = error.get("code")
        self.message: str = error.get("message", str(body))


class _Connection(asyncio.Protocol):
    def __init__(self, all_open: set[_Connection]) -> None:
        self._all_open = all_open
        self._http = h11.Connection(h11.CLIENT)
        self._transport: asyncio.Transport | None = None
        self._events: deque[Any] = deque()
        self._unread = 0
        self._waiting: asyncio.Future[None] | None = None
        self.lost = False
        self.answered = False  # something of the answer came
        self.used = time.monotonic()

    # ------------------------------------------------------------------------------------------------ asyncio's part

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's, in Ray Serve, is none by its class
        self._all_open.add(self)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self.answered = True
        self._http.receive_data(data)
        self._read()

    def eof_received(self) -> None:
        if not self.lost:
            self._http.receive_data(b"")
            self._read()
            self.lost = True  # what was read before is still to be had
            self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._all_open.discard(self)
        self.lost = True
        self._wake()

    def _read(self) -> None:
        try:
            while True:
                event = self._http.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                    break
                self._events.append(event)
                if isinstance(event, h11.Data):
                    self._unread += len(event.data)
                if isinstance(event, h11.EndOfMessage):
                    break
        except h11.RemoteProtocolError:
            self.close()
        if self._unread > MOST_UNREAD and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    @property
    def own_address(self) -> str | None:
        name = self._transport.get_extra_info("sockname") if self._transport is not None else None
        return str(name[0]) if name else None

    # --------------------------------------------------------------------------------------------------- the router's

    def send(self, method: str, target: bytes, headers: Headers, body: bytes) -> None:
        assert self._transport is not None
        self.answered = False
        fields = [*headers, (b"content-length", b"%d" % len(body))]
        if self.lost:
            raise Broken("the connection was lost")
        head = self._http.send(h11.Request(method=method, target=target, headers=fields))
        self._http.send(h11.Data(data=body))
        self._http.send(h11.EndOfMessage())
        self._transport.writelines([head or b"", body])

    async def event(self) -> Any:
        while not self._events:
            if self.lost:
                raise Broken("the connection was lost")
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        event = self._events.popleft()
        if isinstance(event, h11.Data):
            self._unread -= len(event.data)
            if self._unread <= MOST_UNREAD // 2 and self._transport is not None and not self.lost:
                self._transport.resume_reading()
        return event

    def reusable(self) -> bool:
        """After an answer: whether the next request may go the same way."""
        if self.lost or self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        self.used = time.monotonic()
        return True

    def close(self) -> None:
        self.lost = True
        if self._transport is not None:
            self._transport.abort()
        self._wake()


class Answer:
    def __init__(self, upstream: Upstream, connection: _Connection, head: h11.Response) -> None:
        self.status: int = head.status_code
        self.headers: list[tuple[bytes, bytes]] = list(head.headers)
        self._upstream, self._connection = upstream, connection

    def header(self, name: bytes) -> str | None:
        return next((value.decode("latin-1") for key, value in self.headers if key == name), None)

    @property
    def streams(self) -> bool:
        return (self.header(b"content-type") or "").startswith("text/event-stream")

    async def pieces(self) -> AsyncIterator[bytes]:
        """Of its body, to the end."""
        whole = False
        try:
            while True:
                event = await self._connection.event()
                if isinstance(event, h11.EndOfMessage):
                    whole = True
                    return
                if isinstance(event, h11.Data):
                    yield bytes(event.data)
        finally:
            if whole:
                self._upstream.give_back(self._connection)
            else:
                self._connection.close()

    async def body(self) -> bytes:
        return b"".join([piece async for piece in self.pieces()])

    def close(self) -> None:
        """Nobody wants the rest: the replica stops the work."""
        self._connection.close()


class Upstream:
    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._free: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._gone = False

    async def ask(self, method: str, target: str, headers: Headers = (), body: bytes = b"") -> Answer:
        """The head of the answer. A connection that the replica has closed meanwhile is no reason to fail."""
        while True:
            if self._gone:
                raise Broken(f"{self.host}:{self.port} is given up")
            connection, fresh = self._taken(), False
            if connection is None:
                connection, fresh = await self._connect(), True
            try:
                connection.send(method, target.encode(), [(b"host", in_url(self.host).encode()), *headers], body)
                while not isinstance(event := await connection.event(), h11.Response):
                    pass
                return Answer(self, connection, event)
            except Broken:
                connection.close()
                if fresh or connection.answered:
                    raise
            except BaseException:
                connection.close()
                raise

    def seen_from(self) -> str | None:
        """By which address of ours it talks to us."""
        for connection in self._open:
            if (own := connection.own_address) is not None:
                return own
        return None

    async def json(
        self, method: str, target: str, body: Any = None, *, headers: Headers = (), seconds: float = 60.0
    ) -> Any:
        """Something of the router's own: its JSON. `Refused`: not a 2xx."""
        data = b"" if body is None else json.dumps(body).encode()
        try:
            async with asyncio.timeout(seconds):
                answer = await self.ask(method, target, [*headers, (b"content-type", b"application/json")], data)
                text = await answer.body()
        except TimeoutError:
            raise Broken(f"no answer to {method} {target} within {seconds:g} s") from None
        try:
            told = json.loads(text) if text else None
        except ValueError:
            told = text.decode("latin-1")
        if answer.status >= 300:
            raise Refused(answer.status, told)
        return told

    def _taken(self) -> _Connection | None:
        while self._free:
            connection = self._free.pop()
            if not connection.lost and time.monotonic() - connection.used < IDLE_SECONDS:
                return connection
            connection.close()
        return None

    async def _connect(self) -> _Connection:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                loop = asyncio.get_running_loop()
                made = await loop.create_connection(lambda: _Connection(self._open), self.host, self.port)
                return made[1]
        except (OSError, TimeoutError) as error:
            raise Broken(f"{self.host}:{self.port} cannot be reached: {error}") from None

    def give_back(self, connection: _Connection) -> None:
        if connection.reusable():
            self._free.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        for connection in self._free:
            connection.close()
        self._free.clear()

    def cut(self) -> None:
        """Nobody answers any more, and nobody says so either: a machine that is gone closes no connection."""
        self._gone = True
        for connection in list(self._open):
            connection.close()
