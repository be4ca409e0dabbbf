"""Request bodies: read up to a limit, checked against their type; large ones off the event loop.

A body that is too large is refused by its announced length before a byte of it is kept. Its bytes are still taken off
the wire for a while (and thrown away), because most clients do not look for an answer before they have sent everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from holotron.server.errors import ApiError, invalid
from holotron.server.limits import JsonCount
from holotron.server.running import ClientGone, while_connected
from holotron.server.service import Service

SMALL = 64 * 1024
DISCARD_BYTES, DISCARD_SECONDS = 2**30, 10.0

Model = TypeVar("Model", bound=BaseModel)


def body_of(model: type[Model], *, optional: bool = False) -> Callable[[Request], Awaitable[Model]]:
    """A dependency that reads a request's JSON body."""

    async def read(http: Request) -> Model:
        service: Service = http.app.state.service
        data, count = await read_body(http, service)
        if not data and optional:
            return model()
        kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ApiError(415, f"send JSON with content-type: application/json, not {kind or 'nothing'!r}")
        try:
            if len(data) <= SMALL and not count.suspicious:
                return model.model_validate_json(data)

            def parse() -> Model:
                if count.suspicious:
                    count.check(data)
                return model.model_validate_json(data)

            return await while_connected(http, service.workers.run(service.caller(http).turn, parse, "parse"))
        except ValidationError as error:
            # Never the input itself: it may be large, and secret.
            raise invalid(error.errors(include_url=False, include_input=False, include_context=False)) from None
        except RecursionError:
            raise ApiError(400, "the JSON is nested too deeply") from None

    return read


async def read_body(http: Request, service: Service) -> tuple[bytes, JsonCount]:
    """All of it, counted. The bytes count as held until the request is over: see `RequestContext`."""
    limit, owner = service.settings.server.max_body_bytes, http.scope["owner"]
    announced = http.headers.get("content-length", "")
    data, count = bytearray(), JsonCount(service.settings.limits)
    too_large = announced.isdecimal() and int(announced[:20]) > limit
    try:
        if too_large:
            await _discard(http)
        else:
            async for piece in http.stream():
                if len(data) + len(piece) > limit:
                    too_large = True
                    data.clear()
                    await _discard(http)
                    break
                service.quotas.hold_bytes(owner, len(piece))
                http.scope["held_bytes"] = http.scope.get("held_bytes", 0) + len(piece)
                data += piece
                count.add(piece)
    except ClientDisconnect:
        raise ClientGone from None
    if too_large:
        raise ApiError(413, f"the request is larger than {limit:,} bytes", code="request_too_large")
    return bytes(data), count


async def _discard(http: Request) -> None:
    thrown = 0
    try:
        async with asyncio.timeout(DISCARD_SECONDS):
            while thrown < DISCARD_BYTES:
                message = await http.receive()
                thrown += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return
