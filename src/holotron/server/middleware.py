"""Around every request: its id, its log line, its place in the count of those in flight, and the key it came with."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import secrets
import time
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holotron.server.errors import ApiError, translated
from holotron.server.logs import request_id
from holotron.server.running import ClientGone
from holotron.server.service import Service

log = logging.getLogger("holotron.requests")
_ID = re.compile(rb"[\w.:-]{1,128}")


def header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for key, value in scope["headers"] if key == name), None)


class RequestContext:
    """Outermost: nothing that goes wrong inside leaves it as anything but an answer."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = header(scope, b"x-request-id")
        id = given.decode() if given is not None and _ID.fullmatch(given) else f"req-{secrets.token_hex(12)}"
        token = request_id.set(id)
        started, status = time.monotonic(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (b"x-request-id", id.encode())]
            await send(message)

        self._service.in_flight += 1
        try:
            await self._app(scope, receive, send_with_id)
        except ClientGone:
            status = 499
        except Exception as error:
            log.exception("a request failed")
            if status == 0:
                await answer(translated(error), send_with_id)
        finally:
            self._service.in_flight -= 1
            self._report(scope, status, time.monotonic() - started)
            request_id.reset(token)

    def _report(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "unknown")
        self._service.metrics.answered(route, status)
        quiet = route in ("/health", "/health/live", "/health/ready", "/metrics") and status < 400
        fields = {
            "method": scope["method"],
            "path": scope["path"][:200],
            "status": status,
            "seconds": round(seconds, 6),
            "client": (scope.get("client") or ("",))[0],
        }
        log.log(logging.DEBUG if quiet else logging.INFO, "request", extra={"fields": fields | scope.get("notes", {})})


class ApiKeys:
    """Everything under /v1 needs a key, if there are any. What a key opened belongs to it."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/v1"):
            owner = self._owner(scope)
            if owner is None:
                message = "the API key is missing or wrong; send it as Authorization: Bearer <key>"
                await answer(ApiError(401, message, code="invalid_api_key"), send)
                return
            scope["owner"] = owner
        await self._app(scope, receive, send)

    def _owner(self, scope: Scope) -> str | None:
        if not self._keys:
            return "anyone"
        kind, _, given = (header(scope, b"authorization") or b"").partition(b" ")
        # All keys are compared, each in constant time: the time taken tells nothing about any of them.
        matches = [hmac.compare_digest(given.strip(), key) for key in self._keys]
        if kind.lower() != b"bearer" or not any(matches):
            return None
        return hashlib.sha256(self._keys[matches.index(True)]).hexdigest()[:12]


async def answer(error: ApiError, send: Send) -> None:
    body = json.dumps(error.body()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(key.encode(), value.encode()) for key, value in error.headers().items()]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
