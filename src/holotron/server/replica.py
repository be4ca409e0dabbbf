"""/fleet: what a router asks and tells one of its replicas besides sessions.

    GET  /fleet/status                               how far it is in its life, what it holds, its weights' version
    POST /fleet/has      {"owner", "kind", "name"}   whether a session or a response is here
    POST /fleet/replies  {"reply", "said", ...}      before a request is repeated: what its client has heard of the
                                                     reply. If it was finished, in a session, it is undone
    POST /fleet/weights  {"version", ...}            new weights, see `server.weights`

Only the router has the key for these.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Request
from pydantic import Field

from holotron.engine import HalfLoaded
from holotron.server import weights
from holotron.server.bodies import body_of
from holotron.server.moving import FleetBody, Harbour, fleet_only, sessions_router
from holotron.server.replies import Json
from holotron.server.responses.moving import responses_router
from holotron.server.routed import Said
from holotron.server.service import Service
from holotron.server.weights import NewWeights

MOST_REPEATS = 4096  # that were announced and have not come yet


class Heard(FleetBody):
    reply: str
    owner: str
    session: str | None = None  # in which it is given
    begun: bool
    said: Mapping[int, tuple[Annotated[int, Field(ge=0, lt=2**31)], ...]]


class Wanted(FleetBody):
    owner: str
    kind: Literal["session", "response"]
    name: str


def add_fleet_routes(app: FastAPI, key: str, folder: Path) -> None:
    harbour = Harbour(folder, key)
    app.include_router(sessions_router(key, harbour))
    app.include_router(responses_router(key, harbour))
    app.include_router(_router(key, harbour))


def _router(key: str, harbour: Harbour) -> APIRouter:
    router = APIRouter(prefix="/fleet", tags=["fleet"], dependencies=[fleet_only(key)], include_in_schema=False)

    @router.get("/status")
    async def status(http: Request) -> Json:
        service: Service = http.app.state.service
        service.has_router = True
        return await standing(service)

    @router.post("/has")
    async def has(http: Request, request: Annotated[Wanted, Depends(body_of(Wanted))]) -> Json:
        service: Service = http.app.state.service
        loaded = service.loaded_now()
        if request.kind == "response":
            return {"has": loaded.responses.find(request.owner, request.name) is not None}
        return {"has": any(served.id == request.name for served in loaded.sessions.all(request.owner))}

    @router.post("/replies")
    async def replies(http: Request, request: Annotated[Heard, Depends(body_of(Heard))]) -> Json:
        service: Service = http.app.state.service
        if request.session is not None:
            await service.loaded_now().sessions.undo(request.owner, request.session, request.reply)
        service.said[request.reply] = Said(request.begun, request.said)
        while len(service.said) > MOST_REPEATS:
            service.said.pop(next(iter(service.said)))
        return {"reply": request.reply}

    @router.post("/weights")
    async def update(http: Request, request: Annotated[NewWeights, Depends(body_of(NewWeights))]) -> Json:
        service: Service = http.app.state.service
        engine = service.loaded_now().engine
        try:
            version = await weights.update(engine, request, harbour)
        except HalfLoaded:
            service.stage = "failed"  # neither the old nor the new model: whoever started it starts it again
            raise
        return {"version": version}

    return router


async def standing(service: Service) -> dict[str, Any]:
    loaded = service.loaded
    told: dict[str, Any] = {"stage": service.stage, "pid": os.getpid(), "in_flight": service.in_flight}
    if loaded is None:
        return told
    stats, config = await loaded.engine.aio.stats(), loaded.engine.config
    return told | {
        "model": loaded.name,
        "weights": loaded.engine.weights,
        "version": stats.version,
        "running": stats.running,
        "waiting": stats.waiting,
        "sessions": [[owner, served.id] for owner, served in loaded.sessions.everybodys()],
        "responses": loaded.responses.count,
        "max_sessions": config.max_sessions,
        "capacity": config.max_running + config.max_waiting,
        "journal": service.journal.id if service.journal is not None else None,
        "journal_bytes": service.journal.held if service.journal is not None else 0,
    }
