"""Request bodies: read up to a limit, checked against their type; large ones off the event loop.

A body that is too large is refused by its announced length before a byte of it is kept. Its bytes are still taken off
the wire for a while (and thrown away), because most clients do not look for an answer before they have sent everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from holotron.server.door import Door
from holotron.server.errors import ApiError, invalid
from holotron.server.limits import check_values, many_values
from holotron.server.running import ClientGone, while_connected
from holotron.server.service import Service
from holotron.server.settings import LimitSettings

SMALL = 64 * 1024
DISCARD_BYTES, DISCARD_SECONDS = 2**30, 10.0

Model = TypeVar("Model", bound=BaseModel)


def body_of(model: type[Model], *, optional: bool = False) -> Callable[[Request], Awaitable[Model]]:
    """A dependency that reads a request's JSON body."""

    async def read(http: Request) -> Model:
        service: Service = http.app.state.service
        limits = service.settings.limits
        pieces = await read_body(http, service)
        if not pieces and optional:
            return model()
        kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ApiError(415, f"send JSON with content-type: application/json, not {kind or 'nothing'!r}")
        coding = http.headers.get("content-encoding", "identity").strip().lower()
        if coding != "identity":  # a small body may unpack to any size
            raise ApiError(415, f"content-encoding {coding[:40]!r} is not supported: send the JSON as it is")
        try:
            if sum(map(len, pieces)) <= SMALL and not many_values(limits, data := b"".join(pieces)):
                return parsed(model, data)

            def parse() -> Model:
                data = b"".join(pieces)
                pieces.clear()
                if many_values(limits, data):
                    check_values(limits, data)
                return parsed(model, data)

            return await while_connected(http, service.workers.run(service.caller(http).turn, parse, "parse"))
        except ValidationError as error:
            # Never the input itself: it may be large, and secret.
            raise invalid(error.errors(include_url=False, include_input=False, include_context=False)) from None
        except RecursionError:
            raise ApiError(400, "the JSON is nested too deeply") from None

    return read


def parsed(model: type[Model], data: bytes) -> Model:
    """In two steps: `model_validate_json` turns a long text into Python's once per type it could have, and keeps
    Python's lock meanwhile (30 MB: 90 ms; so 14)."""
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise ApiError(400, f"the body is not JSON: {error}") from None
    return model.model_validate(value)


async def check_json(limits: LimitSettings, data: bytes) -> None:
    """Before somebody else reads it: that reading it will not take forever."""
    if many_values(limits, data):
        await asyncio.to_thread(check_values, limits, data)


async def read_body(http: Request, service: Door) -> list[bytes]:
    """All of it, in the pieces it came in. They count as held until the request is over: see `RequestContext`."""
    limit, owner = service.settings.server.max_body_bytes, http.scope["owner"]
    announced = http.headers.get("content-length", "")
    pieces: list[bytes] = []
    held = 0
    too_large = announced.isdecimal() and int(announced[:20]) > limit
    try:
        if too_large:
            await _discard(http)
        else:
            async for piece in http.stream():
                if held + len(piece) > limit:
                    too_large = True
                    pieces.clear()
                    await _discard(http)
                    break
                if piece:
                    service.quotas.hold_bytes(owner, len(piece))
                    held += len(piece)
                    http.scope["held_bytes"] = held
                    pieces.append(piece)
    except ClientDisconnect:
        raise ClientGone from None
    if too_large:
        raise ApiError(413, f"the request is larger than {limit:,} bytes", code="request_too_large")
    return pieces


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
