"""/fleet: how a router moves sessions between servers. Only with `fleet.key`, which no client has.

    GET  /fleet/sessions                              whose sessions are here, and how large
    POST /fleet/sessions/leave   {"owner", "id"}      into a file of `fleet.folder`; held until told the end
    POST /fleet/sessions/arrive  {"file"}             goes on here, with everything it remembers
    POST /fleet/sessions/left    {"owner", "id"}      it has arrived elsewhere: close it here
    POST /fleet/sessions/stays   {"owner", "id"}      it has not: it is free again

Files lie in a folder that both servers see: shared memory on one machine, a shared disk between several. They hold
conversations, so the folder is the user's alone, and a file is removed when it has been read.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict

from holotron.engine import ExportedSession, Mark
from holotron.model.processor import Transcript
from holotron.server.bodies import body_of
from holotron.server.errors import ApiError
from holotron.server.replies import Json
from holotron.server.running import unbroken
from holotron.server.served import ServedSession, ServedSessions, ServedTurn
from holotron.server.service import Service

_FILE = re.compile(r"[0-9a-f]{32}\.session")


class Named(BaseModel):
    model_config = ConfigDict(extra="forbid")

    owner: str
    id: str


class Arriving(BaseModel):
    model_config = ConfigDict(extra="forbid")

    file: str


# ------------------------------------------------------------------------------------------- a served session as data


def described(served: ServedSession, owner: str) -> Json:
    return {
        "owner": owner,
        "id": served.id,
        "scope": served.engine_session.scope.hex(),
        "kind": served.kind,
        "tools": served.tools,
        "turns": [
            {
                "start": turn.start,
                "prompt": turn.prompt,
                "end": turn.end,
                "opens_reasoning": turn.opens_reasoning,
                "thinking": turn.thinking,
                "mark": [turn.mark.id, turn.mark.position] if turn.mark is not None else None,
                "begun": turn.said.begun,
                "tail": turn.said.tail,
            }
            for turn in served.turns
        ],
    }


async def restored(sessions: ServedSessions, exported: ExportedSession) -> ServedSession:
    told: Any = exported.about["served"]
    begins: Transcript = sessions.begins
    turns = [
        ServedTurn(
            start=turn["start"],
            prompt=turn["prompt"],
            said=replace(begins, begun=turn["begun"], tail=tuple(turn["tail"])),
            opens_reasoning=turn["opens_reasoning"],
            thinking=turn["thinking"],
            end=turn["end"],
            mark=Mark(*turn["mark"]) if turn["mark"] is not None else None,
        )
        for turn in told["turns"]
    ]
    scope = bytes.fromhex(told["scope"])
    return await sessions.adopt(told["owner"], told["id"], exported, scope, (told["kind"], told["tools"], turns))


# -------------------------------------------------------------------------------------------------------------- routes


def fleet_router(key: str, folder: Path) -> APIRouter:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def allowed(http: Request) -> None:
        kind, _, given = http.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), key.encode()):
            raise ApiError(401, "this wants the key of the fleet (fleet.key)", code="invalid_api_key")
        http.scope["owner"] = "fleet"  # whose bytes are being worked on

    router = APIRouter(prefix="/fleet", tags=["fleet"], dependencies=[Depends(allowed)], include_in_schema=False)

    def sessions_of(http: Request) -> ServedSessions:
        service: Service = http.app.state.service
        return service.loaded_now().sessions

    @router.get("/sessions")
    async def list_all(http: Request) -> Json:
        data = []
        for owner, served in sessions_of(http).everybodys():
            info = await served.engine_session.info()
            data.append(
                {"owner": owner, "id": served.id, "tokens": info.tokens, "bytes": info.bytes, "busy": served.held}
            )
        return {"object": "list", "data": data}

    @router.post("/sessions/leave")
    async def leave(http: Request, request: Annotated[Named, Depends(body_of(Named))]) -> Json:
        served = sessions_of(http).get(request.owner, request.id)
        served.hold()
        name = f"{secrets.token_hex(16)}.session"
        try:
            exported = await served.engine_session.export()
            exported = replace(exported, about={**exported.about, "served": described(served, request.owner)})
            service: Service = http.app.state.service
            await service.workers.run("fleet", lambda: exported.write(folder / name), "large")
        except BaseException:
            served.release()
            (folder / name).unlink(missing_ok=True)
            raise
        return {"file": name, "bytes": exported.nbytes, "tokens": exported.tokens}

    @router.post("/sessions/arrive")
    async def arrive(http: Request, request: Annotated[Arriving, Depends(body_of(Arriving))]) -> Json:
        if not _FILE.fullmatch(request.file):
            raise ApiError(400, "that is not the name of a session's file", param="file")
        path, service = folder / request.file, http.app.state.service
        exported = await service.workers.run("fleet", lambda: ExportedSession.read(path), "large")
        served = await unbroken(restored(sessions_of(http), exported))
        path.unlink(missing_ok=True)
        return served.describe()

    @router.post("/sessions/left")
    async def left(http: Request, request: Annotated[Named, Depends(body_of(Named))]) -> Json:
        sessions = sessions_of(http)
        served = sessions.get(request.owner, request.id)
        await sessions.close(request.owner, served)
        return {"id": served.id, "object": "session.moved"}

    @router.post("/sessions/stays")
    async def stays(http: Request, request: Annotated[Named, Depends(body_of(Named))]) -> Json:
        served = sessions_of(http).get(request.owner, request.id)
        served.release()
        return served.describe()

    return router
