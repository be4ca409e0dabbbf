"""/v1/responses: make one, fetch it and what it was made from, delete it. What it means: docs/responses.md."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, Response

from holotron.server.bodies import body_of
from holotron.server.errors import ApiError
from holotron.server.generating import answer
from holotron.server.openapi import takes
from holotron.server.responses.asking import planned
from holotron.server.responses.items import Json
from holotron.server.responses.job import ResponseJob
from holotron.server.responses.output import ResponseEvents
from holotron.server.responses.store import Stored
from holotron.server.responses.wire import ResponsesRequest, not_supported
from holotron.server.running import LongAnswer, Running
from holotron.server.service import Service

router = APIRouter(prefix="/v1/responses", tags=["openai"])

_STREAMS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The response; with `stream`, as events", "content": {"text/event-stream": {}}}
}


@router.post("", openapi_extra=takes(ResponsesRequest), responses=_STREAMS)
async def create_response(
    http: Request, request: Annotated[ResponsesRequest, Depends(body_of(ResponsesRequest))]
) -> Response:
    service: Service = http.app.state.service
    job = ResponseJob(service, await planned(http, request), service.caller(http))
    if not job.without_model():
        return await answer(job, http)
    await job.saved()
    response: Response = JSONResponse(job.body)
    if request.stream:

        async def events() -> AsyncIterator[Json]:
            for event in (*job.begun(), *job.last):
                yield event

        seconds = service.settings.connections.write_seconds
        response = ResponseEvents(events(), Running([]), service.cut, seconds, contextlib.ExitStack())
    if job.routed is not None:
        response.headers.update(job.for_router())
    return response


@router.post("/compact")
async def compact_response() -> Json:
    raise not_supported("compaction", "previous_response_id", "truncation: auto drops what no longer fits")


@router.post("/input_tokens")
async def count_input_tokens() -> Json:
    raise not_supported("counting input tokens", "input", "a response's usage tells them")


@router.post("/{response_id}/cancel")
async def cancel_response(http: Request, response_id: str) -> Json:
    _find(http, response_id)
    hint = "closing the connection stops a reply"
    raise not_supported("cancelling: no response runs in the background, which", "response_id", hint)


@router.get("/{response_id}")
async def get_response(http: Request, response_id: str, stream: bool = False) -> Response:
    """`stream` is for responses in the background, which there are none of."""
    found = _find(http, response_id)
    if stream:
        raise not_supported("streaming a stored response", "stream")
    return _long(http, found.body)


@router.delete("/{response_id}")
async def delete_response(http: Request, response_id: str) -> Json:
    service: Service = http.app.state.service
    service.serving().responses.delete(http.scope["owner"], response_id)
    return {"id": response_id, "object": "response", "deleted": True}


@router.get("/{response_id}/input_items")
async def list_input_items(
    http: Request,
    response_id: str,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "desc",
    after: str | None = None,
) -> Response:
    """The items that its request brought, the last first."""
    found = _find(http, response_id)
    items = list(found.sent)
    if found.resent and found.previous is not None:
        items = [*found.previous.history(), *items]
    if order == "desc":
        items.reverse()
    if after is not None:
        places = [n for n, item in enumerate(items) if item["id"] == after]
        if not places:
            raise ApiError(404, f"Item with id '{after}' not found.", code="item_not_found", param="after")
        items = items[places[0] + 1 :]
    page = items[:limit]
    ends = {"first_id": page[0]["id"] if page else None, "last_id": page[-1]["id"] if page else None}
    return _long(http, {"object": "list", "data": page, **ends, "has_more": len(items) > limit})


def _long(http: Request, body: Json) -> Response:
    """It may hold pictures, or every token's alternatives."""
    service: Service = http.app.state.service
    return LongAnswer(body, service.cut)


def _find(http: Request, id: str) -> Stored:
    service: Service = http.app.state.service
    return service.serving().responses.get(http.scope["owner"], id)
