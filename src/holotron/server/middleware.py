"""Around every request: its id, its log line, and its place in the count of those in flight."""

from __future__ import annotations

import logging
import re
import secrets
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holotron.server.access import answer, header
from holotron.server.door import Door
from holotron.server.errors import translated
from holotron.server.logs import request_id
from holotron.server.running import ClientGone

log = logging.getLogger("holotron.requests")
_ID = re.compile(rb"[\w.:-]{1,128}")


class RequestContext:
    """Outermost: nothing that goes wrong inside leaves it as anything but an answer."""

    def __init__(self, app: ASGIApp, service: Door) -> None:
        self._app = app
        self._door = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"]
        if method == "HEAD":  # the same answer; the connection leaves its body out
            scope = {**scope, "method": "GET"}
        given = header(scope, b"x-request-id")
        id = given.decode() if given is not None and _ID.fullmatch(given) else f"req-{secrets.token_hex(12)}"
        token = request_id.set(id)
        scope["request_id"] = id
        started, status = time.monotonic(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (b"x-request-id", id.encode())]
            await send(message)

        self._door.in_flight += 1
        try:
            await self._app(scope, receive, send_with_id)
        except ClientGone:
            status = 499
        except Exception as error:
            log.exception("a request failed")
            if status == 0:
                await answer(translated(error), send_with_id)
        finally:
            self._door.in_flight -= 1
            if held := scope.get("held_bytes"):
                self._door.quotas.release_bytes(scope["owner"], held)
            self._report(scope, method, status, time.monotonic() - started)
            request_id.reset(token)

    def _report(self, scope: Scope, method: str, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "unknown")
        self._door.metrics.answered(route, status)
        quiet = route in ("/health", "/health/live", "/health/ready", "/metrics") and status < 400
        quiet = quiet or "routed" in scope or route.startswith("/fleet")  # the router has a line about it
        fields = {
            "method": method,
            "path": scope["path"][:200],
            "status": status,
            "seconds": round(seconds, 6),
            "client": (scope.get("client") or ("",))[0],
        }
        if len(self._door.keys) > 1 and "owner" in scope:
            fields["key"] = scope["owner"]
        log.log(logging.DEBUG if quiet else logging.INFO, "request", extra={"fields": fields | scope.get("notes", {})})
