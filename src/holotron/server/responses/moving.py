"""Stored responses as data: moved to another server, or kept on disk for the case that this one dies.

A conversation of responses is a tree: each points to the one it continues. It moves as a whole, as one JSON file, with
the sessions that are still remembered beside it. One that is taken up from the disk has no session: what continues it
is written from the items and computed again, as after any forgetting.

    GET  /fleet/responses                                       owner, id and root of each
    POST /fleet/responses/leave   {"owner", "root"}             a file, and files of sessions, by response
    POST /fleet/responses/arrive  {"file", "sessions", "at"}
    POST /fleet/responses/left    {"owner", "root"}
    POST /fleet/responses/revive  {"owner", "id"}               from the disk, with those it continues
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from safetensors import SafetensorError

from holotron.engine import ExportedSession
from holotron.errors import HolotronError
from holotron.server.bodies import body_of
from holotron.server.errors import ApiError
from holotron.server.limits import size_of
from holotron.server.moving import FleetBody, Harbour, Named, fleet_only
from holotron.server.responses.items import Json, fingerprint
from holotron.server.responses.store import ResponseStore, Stored
from holotron.server.running import unbroken
from holotron.server.served import described
from holotron.server.service import Service


class Tree(FleetBody):
    owner: str
    root: str
    journal: str | None = None  # where they are kept from now on


class ArrivingTree(FleetBody):
    file: str
    sessions: Mapping[str, str] = {}
    at: str | None = None
    journal: str | None = None


def from_json(told: Json, previous: Stored | None) -> Stored:
    everything = 2**62
    logprob_bytes = size_of(told["body"], everything) - size_of(told["body"], everything, without="logprobs")
    return Stored(
        told["id"],
        told["owner"],
        told["body"],
        tuple(told["sent"]),
        tuple(map(fingerprint, told["sent"])),
        previous,
        head=tuple(told["head"]) if told["head"] is not None else None,
        resent=told["resent"],
        by_model=told["by_model"],
        continued=told["continued"],
        more_bytes=logprob_bytes,
    )


def take(store: ResponseStore, all: Iterable[Json]) -> list[Stored]:
    """Those that are not here already, the first one first. What was kept elsewhere is kept here, as old as it is."""
    here: dict[str, Stored] = {}
    taken = []
    for told in all:
        found = store.find(told["owner"], told["id"])
        if found is None:
            found = from_json(told, here.get(told["previous"]))
            if not told.get("gone"):
                store.keep(found, age=told["age"] + time.time() - told["told"])
            taken.append(found)
        here[told["id"]] = found
    return taken


def responses_router(key: str, harbour: Harbour) -> APIRouter:
    router = APIRouter(
        prefix="/fleet/responses", tags=["fleet"], dependencies=[fleet_only(key)], include_in_schema=False
    )

    def store_of(http: Request) -> ResponseStore:
        service: Service = http.app.state.service
        return service.loaded_now().responses

    @router.get("")
    async def list_all(http: Request) -> Json:
        rows = [
            {"owner": stored.owner, "id": stored.id, "root": stored.chain()[0].id}
            for stored in store_of(http).everybodys()
        ]
        return {"object": "list", "data": rows}

    @router.post("/leave")
    async def leave(http: Request, request: Annotated[Tree, Depends(body_of(Tree))]) -> Json:
        store, service = store_of(http), http.app.state.service
        tree = store.tree(request.owner, request.root)
        kept = {stored.id for stored in store.everybodys()}
        told = [stored.to_json(store.now) | {"gone": stored.id not in kept} for stored in tree]
        sessions: dict[str, str] = {}
        for stored in tree:
            if (session := stored.live_session) is None or stored.continued:
                continue  # of those that were continued the next one's session has everything
            path = harbour.new("session")
            try:
                exported = await session.engine_session.export()
                exported = replace(exported, about={**exported.about, "served": described(session, stored.owner)})
                await service.workers.run("fleet", lambda e=exported, p=path: e.write(p), "large")
                sessions[stored.id] = path.name
            except (HolotronError, OSError, SafetensorError):  # it can be continued all the same
                path.unlink(missing_ok=True)
        file = harbour.new("responses")
        file.touch(0o600)
        await asyncio.to_thread(file.write_text, json.dumps(told))
        return {"file": file.name, "sessions": sessions, "responses": len(told)}

    @router.post("/arrive")
    async def arrive(http: Request, request: Annotated[ArrivingTree, Depends(body_of(ArrivingTree))]) -> Json:
        store, service = store_of(http), http.app.state.service
        path = await harbour.fetched(request.file, request.at)
        told = json.loads(await asyncio.to_thread(path.read_text))
        taken, device = take(store, told), service.loaded_now().engine.model.device
        if service.journal is not None and service.journal.id != request.journal:
            for stored in taken:
                await store.saved(stored)
        for stored in taken:
            if (name := request.sessions.get(stored.id)) is None:
                continue
            file = await harbour.fetched(name, request.at)
            with contextlib.suppress(HolotronError, ApiError):
                exported = await service.workers.run("fleet", lambda f=file: ExportedSession.read(f, device), "large")
                about: Any = exported.about["served"]
                stored.session = await unbroken(store.sessions.adopt(stored.owner, about["id"], exported, about))
            file.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        return {"responses": len(taken)}

    @router.post("/left")
    async def left(http: Request, request: Annotated[Tree, Depends(body_of(Tree))]) -> Json:
        store, service = store_of(http), http.app.state.service
        kept = service.journal is not None and service.journal.id == request.journal
        gone = store.tree(request.owner, request.root)
        for stored in gone:
            store.let_go(stored, kept=kept)
        return {"responses": len(gone)}

    @router.post("/revive")
    async def revive(http: Request, request: Annotated[Named, Depends(body_of(Named))]) -> Json:
        store = store_of(http)
        if store.find(request.owner, request.id) is None:
            chain = store.files.chain(request.owner, request.id) if store.files is not None else []
            if not chain:
                raise ApiError(404, f"there is no response {request.id!r}", code="response_not_found")
            take(store, chain)
        return {"id": request.id}

    return router
