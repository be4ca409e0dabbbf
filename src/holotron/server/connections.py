"""Connections that cannot be held open for nothing: uvicorn's own protocol, with time-outs and a count.

uvicorn limits how long a connection may rest *between* two requests. What is added here: how long a request's head and
body may take to arrive, how long an answer may go unread, how many connections there may be at all and from one
address. Large requests are read in turns (`portions`). And answers leave at once (TCP_NODELAY: without it, each answer
on a connection that is kept waits 40 ms for the client's acknowledgement of its head).

    config = uvicorn.Config(app, http=connection_class(Connections(settings.connections)))
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import socket
import time
from collections import Counter
from typing import Any, Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from holotron.server.errors import ApiError
from holotron.server.portions import PORTION, TURN_SECONDS, Turns
from holotron.server.settings import ConnectionSettings

log = logging.getLogger("holotron.connections")

BODY_BYTES_PER_SECOND = 64 * 1024  # a client slower than this is not going to finish
RESERVED_FILES = 64  # descriptors for everything that is not a connection
QUIET_SECONDS = 10.0  # between two log lines about the same trouble


class Connections:
    """All open connections of a server, counted."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self.limit = min(settings.max_open, raise_file_limit(settings.max_open + RESERVED_FILES) - RESERVED_FILES)
        self.open = 0
        self.refused = 0
        self.turns = Turns()
        self._by_address: Counter[str] = Counter()
        self._said = 0.0

    def problem(self, address: str) -> ApiError | None:
        """Why this address may not have one more connection."""
        per_address = self.settings.max_per_address
        if self.open >= self.limit:
            return ApiError(
                503, "too many connections", type="server_error", code="too_many_connections", retry_after=1.0
            )
        if per_address is not None and self._by_address[address] >= per_address:
            return ApiError(
                429,
                "too many connections from your address",
                type="rate_limit_error",
                code="too_many_connections",
                retry_after=1.0,
            )
        return None

    def add(self, address: str) -> None:
        self.open += 1
        self._by_address[address] += 1

    def remove(self, address: str) -> None:
        self.open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def refuse(self, error: ApiError) -> None:
        """Said once in a while, not each time: a flood of connections must not become a flood of lines."""
        self.refused += 1
        if time.monotonic() - self._said > QUIET_SECONDS:
            self._said = time.monotonic()
            log.warning(error.message, extra={"fields": {"open": self.open, "refused": self.refused}})


def raise_file_limit(wanted: int) -> int:
    """Let the process open as many files as it is going to need, if it may. How many it can open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        better = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (better, hard))
            soft = better
        except (OSError, ValueError):
            pass
    return wanted if soft == resource.RLIM_INFINITY else max(soft, RESERVED_FILES + 1)


class QuietAccept:
    """Should descriptors run out all the same, asyncio reports every connection it cannot accept, thousands a second.
    One line is enough."""

    def __init__(self) -> None:
        self._said = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "accept" in context.get("message", ""):
            if time.monotonic() - self._said > QUIET_SECONDS:
                self._said = time.monotonic()
                log.error("no connection can be accepted: the process has no file descriptors left")
            return
        loop.default_exception_handler(context)


def connection_class(connections: Connections) -> type[H11Protocol]:
    """A protocol for `uvicorn.Config(http=...)`, which makes one object per connection."""
    settings = connections.settings

    class Connection(H11Protocol):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._address: str | None = None  # as counted
            self._waiting_for: Literal["head", "body", "rest"] | None = None
            self._arrival: asyncio.TimerHandle | None = None  # when that must be here
            self._started = 0.0
            self._received = 0
            self._unread: asyncio.TimerHandle | None = None
            self._left = bytearray()  # has arrived and waits to be read; meanwhile nothing more is taken off the wire
            self._in_turn = False

        # ------------------------------------------------------------------------------------------- coming and going

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            raw: socket.socket | None = transport.get_extra_info("socket")
            if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            address = self.client[0] if self.client else ""
            if (problem := connections.problem(address)) is not None:
                connections.refuse(problem)
                self._refuse(problem)
                return
            self._address = address
            connections.add(address)
            self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._address is not None:
                connections.remove(self._address)
                self._address = None
            self._cancel_timers()
            self._left.clear()
            super().connection_lost(exc)

        def _cancel_timers(self) -> None:
            for timer in (self._arrival, self._unread):
                if timer is not None:
                    timer.cancel()
            self._arrival = self._unread = None

        # --------------------------------------------------------------------------------------------------- reading

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            self._received += len(data)
            if not self._left:
                data = self._read(data)
                if self._passes:  # the head came with it
                    data = self._read(data)
            if data and not self.transport.is_closing():
                self._left += data
                self.transport.pause_reading()
                self._take_turns()

        @property
        def _passes(self) -> bool:
            """A body of announced length is passed on as it comes: there is nothing in it to read."""
            chunked = any(name == b"transfer-encoding" for name, _ in self.headers or ())
            return self.conn.their_state is h11.SEND_BODY and not chunked

        def _read(self, data: bytes) -> bytes:
            """Read what takes no time to speak of. What is left is for later."""
            size = len(data) if self._passes else PORTION
            if piece := data[:size]:
                super().data_received(piece)
                self._watch()
            return data[size:]

        def _take_turns(self) -> None:
            if self._left and not self._in_turn:
                self._in_turn = True
                connections.turns.wait(self._read_on)

        def _read_on(self) -> bool:
            until = self.loop.time() + TURN_SECONDS
            while self._left and self.loop.time() < until and not self.transport.is_closing():
                if self.conn.their_state is h11.DONE:  # the next request waits until this one is answered
                    self._in_turn = False
                    return False
                size = len(self._left) if self._passes else PORTION
                piece = bytes(self._left[:size])
                del self._left[:size]
                self._read(piece)
            self._in_turn = bool(self._left) and not self.transport.is_closing()
            if not self._in_turn and not self.flow.read_paused and not self.transport.is_closing():
                self.transport.resume_reading()
            return self._in_turn

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()
            self._take_turns()

        def _watch(self) -> None:
            """See to it that what has begun to arrive goes on arriving."""
            if self.transport.is_closing():
                return
            state = self.conn.their_state
            if state is h11.SEND_BODY:
                if self.cycle is not None and self.cycle.response_complete:
                    # The answer did not need the body. It is thrown away, so that the client gets to read the answer.
                    if self._waiting_for != "rest":
                        self._expect("rest", settings.header_seconds)
                elif self._waiting_for != "body":
                    self._expect("body", settings.body_seconds)
            elif state is h11.IDLE and self.conn.trailing_data[0]:
                if self._waiting_for != "head":
                    self._expect_head()
            elif self._waiting_for is not None and not (state is h11.IDLE and self.cycle is None):
                # Complete; or between two requests, where uvicorn's own timer runs.
                self._waiting_for = None
                if self._arrival is not None:
                    self._arrival.cancel()
                    self._arrival = None

        def _expect_head(self) -> None:
            self._expect("head", settings.header_seconds)

        def _expect(self, what: Literal["head", "body", "rest"], seconds: float) -> None:
            if self._arrival is not None:
                self._arrival.cancel()
            self._waiting_for, self._started, self._received = what, self.loop.time(), 0
            self._arrival = self.loop.call_later(seconds, self._late)

        def _late(self) -> None:
            """Time is up, unless a large body is on its way at a decent speed."""
            self._arrival = None
            if self.transport.is_closing():
                return
            if self._waiting_for == "body":
                until = self._started + settings.body_seconds + self._received / BODY_BYTES_PER_SECOND
                if (left := until - self.loop.time()) > 0:
                    self._arrival = self.loop.call_later(max(left, 0.1), self._late)
                    return
                if self.flow.read_paused:  # the application does not read: that is not the client's fault
                    self._expect("body", settings.body_seconds)
                    return
            nothing_came = self._waiting_for == "head" and not self.conn.trailing_data[0]
            if nothing_came or self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
                self.transport.close()
            else:
                message = f"the request's {self._waiting_for} did not arrive in time"
                self._refuse(ApiError(408, message, code="request_timeout"))

        # --------------------------------------------------------------------------------------------------- writing

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._unread is None:
                self._unread = self.loop.call_later(settings.write_seconds, self._never_read)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._unread is not None:
                self._unread.cancel()
                self._unread = None

        def _never_read(self) -> None:
            self._unread = None
            self.transport.abort()  # what is unsent is dropped: closing would wait for it

        # ------------------------------------------------------------------------------------------------- refusing

        def send_400_response(self, msg: str) -> None:
            self._refuse(ApiError(400, msg))

        def _refuse(self, error: ApiError) -> None:
            """An answer of our own, and the end of the connection."""
            body = json.dumps(error.body()).encode()
            fields = {**error.headers(), "content-type": "application/json", "content-length": str(len(body))}
            headers = [(name.encode(), value.encode()) for name, value in {**fields, "connection": "close"}.items()]
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                status = {400: b"Bad Request", 408: b"Request Timeout", 429: b"Too Many Requests"}
                head = h11.Response(
                    status_code=error.status, headers=headers, reason=status.get(error.status, b"Service Unavailable")
                )
                parts = [self.conn.send(part) for part in (head, h11.Data(data=body), h11.EndOfMessage())]
                self.transport.write(b"".join(part for part in parts if part))
            if self.cycle is not None and not self.cycle.response_complete:
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            self.transport.close()
            # A client that does not read even this is not waited for.
            self._cancel_timers()
            self._unread = self.loop.call_later(settings.write_seconds, self._never_read)

    return Connection
