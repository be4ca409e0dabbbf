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
from holotron.server.running import ClientGone

SMALL = 64 * 1024
DISCARD_BYTES, DISCARD_SECONDS = 2**30, 10.0

Model = TypeVar("Model", bound=BaseModel)


def body_of(model: type[Model], *, optional: bool = False) -> Callable[[Request], Awaitable[Model]]:
    """A dependency that reads a request's JSON body."""

    async def read(http: Request) -> Model:
        data = await read_body(http, http.app.state.service.settings.server.max_body_bytes)
        if not data and optional:
            return model()
        kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ApiError(415, f"send JSON with content-type: application/json, not {kind or 'nothing'!r}")
        try:
            if len(data) <= SMALL:
                return model.model_validate_json(data)
            return await asyncio.to_thread(model.model_validate_json, data)
        except ValidationError as error:
            # Never the input itself: it may be large, and secret.
            raise invalid(error.errors(include_url=False, include_input=False, include_context=False)) from None
        except RecursionError:
            raise ApiError(400, "the JSON is nested too deeply") from None

    return read


async def read_body(http: Request, limit: int) -> bytes:
    announced = http.headers.get("content-length", "")
    data = bytearray()
    too_large = announced.isdigit() and int(announced) > limit
    try:
        if too_large:
            await _discard(http)
        else:
            async for piece in http.stream():
                data += piece
                if len(data) > limit:
                    too_large = True
                    data.clear()
                    await _discard(http)
                    break
    except ClientDisconnect:
        raise ClientGone from None
    if too_large:
        raise ApiError(413, f"the request is larger than {limit:,} bytes", code="request_too_large")
    return bytes(data)


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
