"""/fleet: how a router moves sessions between servers, and takes up those of one that died. Only with `fleet.key`,
which no client has.

    GET  /fleet/sessions                              whose sessions are here, and how large
    POST /fleet/sessions/leave   {"owner", "id"}      into a file of `fleet.folder`; held until told the end
    POST /fleet/sessions/arrive  {"file"}             goes on here, with everything it remembers
    POST /fleet/sessions/left    {"owner", "id"}      it has arrived elsewhere: close it here
    POST /fleet/sessions/stays   {"owner", "id"}      it has not: it is free again
    POST /fleet/sessions/revive  {"owner", "id"}      from the journal of a server that is no more; computed again
    GET  /fleet/files/{name}                          a session on its way, for a server on another machine

Files lie in a folder that both servers see: shared memory on one machine, a shared disk between several. Where they do
not (`at` says where it is), the file is fetched from the other server. They hold conversations, so the folder is the
user's alone, and a file is removed when it has been read.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import httpx
from fastapi import APIRouter, Depends, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict
from safetensors import SafetensorError

from holotron.engine import ExportedSession, UnknownSession
from holotron.errors import ConfigError
from holotron.server.bodies import body_of
from holotron.server.errors import ApiError, unavailable
from holotron.server.private import private_folder
from holotron.server.replies import Json
from holotron.server.routed import bears
from holotron.server.running import unbroken
from holotron.server.served import ServedSession, ServedSessions, described
from holotron.server.service import Service

LEFT_BEHIND_SECONDS = 3600.0
_FILE = re.compile(r"[0-9a-f]{32}\.(session|responses|weights)")


class FleetBody(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Named(FleetBody):
    owner: str
    id: str


class Left(Named):
    file: str | None = None  # that it left in, to be removed
    journal: str | None = None  # in which its log is kept from now on


class Arriving(FleetBody):
    file: str
    at: str | None = None  # the server it comes from
    journal: str | None = None  # in which its log was kept


def fleet_only(key: str) -> Any:
    """A dependency: only the router may ask this."""

    def allowed(http: Request) -> None:
        if not bears(http.headers.get("authorization", "").encode(), key.encode()):
            raise ApiError(401, "this wants the key of the fleet (fleet.key)", code="invalid_api_key")
        http.scope["owner"] = "fleet"  # whose bytes are being worked on

    return Depends(allowed)


class Harbour:
    """The folder through which files come and go."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder = folder
        self._key = key
        try:
            private_folder(folder)
            remove_left_behind(folder)
        except OSError as error:
            raise ConfigError(f"fleet.folder: {folder} cannot be used: {error.strerror or error}") from None

    def new(self, kind: str) -> Path:
        return self.folder / f"{secrets.token_hex(16)}.{kind}"

    def known(self, name: str) -> Path:
        if not _FILE.fullmatch(name):
            raise ApiError(400, "that is not the name of a session's file", param="file")
        return self.folder / name

    async def fetched(self, name: str, at: str | None) -> Path:
        """Here, from wherever it is: whole or not at all."""
        path = self.known(name)
        if path.exists() or at is None:
            return path
        part = path.with_name(f"{path.stem}-{secrets.token_hex(4)}{path.suffix}")
        headers = {"authorization": f"Bearer {self._key}"}
        try:
            async with (
                httpx.AsyncClient(timeout=60) as client,
                client.stream("GET", f"{at}/fleet/files/{name}", headers=headers) as answer,
            ):
                if answer.status_code != 200:
                    raise ApiError(400, f"there is no file {name} at {at}", param="file")
                with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    async for piece in answer.aiter_bytes(2**20):
                        file.write(piece)
            part.replace(path)
        except httpx.HTTPError as error:
            raise unavailable(f"{at} cannot be reached for a file: {error!r}", "not_reached") from None
        except OSError as error:
            raise unavailable(f"{self.folder} does not take a file: {error.strerror}", "not_reached") from None
        finally:
            part.unlink(missing_ok=True)
        return path

    @contextlib.asynccontextmanager
    async def borrowed(self, name: str, at: str | None) -> AsyncIterator[Path]:
        """What somebody else keeps; a copy that had to be made goes again."""
        kept = self.known(name).exists()
        path = await self.fetched(name, at)
        try:
            yield path
        finally:
            if not kept:
                path.unlink(missing_ok=True)


def remove_left_behind(folder: Path) -> None:
    """Sessions on their way when a process was killed. Others may use the folder, so what is new stays."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.suffix in (".session", ".responses") and path.stat().st_mtime < time.time() - LEFT_BEHIND_SECONDS:
                path.unlink()


async def restored(sessions: ServedSessions, exported: ExportedSession) -> ServedSession:
    told: Any = exported.about["served"]
    return await sessions.adopt(told["owner"], told["id"], exported, told)


def sessions_router(key: str, harbour: Harbour) -> APIRouter:
    router = APIRouter(prefix="/fleet", tags=["fleet"], dependencies=[fleet_only(key)], include_in_schema=False)

    def sessions_of(http: Request) -> ServedSessions:
        service: Service = http.app.state.service
        return service.loaded_now().sessions

    @router.get("/sessions")
    async def list_all(http: Request) -> Json:
        data = []
        for owner, served in sessions_of(http).everybodys():
            try:
                info = await served.engine_session.info()
            except UnknownSession:
                continue
            data.append(
                {"owner": owner, "id": served.id, "tokens": info.tokens, "bytes": info.bytes, "busy": served.held}
            )
        return {"object": "list", "data": data}

    @router.get("/files/{name}")
    async def file(name: str) -> FileResponse:
        path = harbour.known(name)
        if not path.exists():
            raise ApiError(404, f"there is no file {name}", code="not_found")
        return FileResponse(path)

    @router.post("/sessions/leave")
    async def leave(http: Request, request: Annotated[Named, Depends(body_of(Named))]) -> Json:
        served = sessions_of(http).get(request.owner, request.id)
        served.hold()
        served.leaving = True
        path = harbour.new("session")
        try:
            exported = await served.engine_session.export()
            exported = replace(exported, about={**exported.about, "served": described(served, request.owner)})
            service: Service = http.app.state.service
            await service.workers.run("fleet", lambda: exported.write(path), "large")
        except (OSError, SafetensorError) as error:
            served.release()
            path.unlink(missing_ok=True)
            raise unavailable(f"fleet.folder: {harbour.folder} does not take it: {error}", "not_written") from None
        except BaseException:
            served.release()
            path.unlink(missing_ok=True)
            raise
        return {"file": path.name, "bytes": exported.nbytes, "tokens": exported.tokens}

    @router.post("/sessions/arrive")
    async def arrive(http: Request, request: Annotated[Arriving, Depends(body_of(Arriving))]) -> Json:
        service: Service = http.app.state.service
        path = await harbour.fetched(request.file, request.at)
        sessions, device = sessions_of(http), service.loaded_now().engine.model.device
        exported = await service.workers.run("fleet", lambda: ExportedSession.read(path, device), "large")
        served = await unbroken(restored(sessions, exported))
        path.unlink(missing_ok=True)
        owner = exported.about["served"]["owner"]
        if (journal := service.journal) is not None:
            if journal.id == request.journal:
                journal.adopt(owner, served.id)
            else:
                await journal.save(owner, served)
        return served.describe()

    @router.post("/sessions/left")
    async def left(http: Request, request: Annotated[Left, Depends(body_of(Left))]) -> Json:
        service: Service = http.app.state.service
        sessions, journal = sessions_of(http), service.journal
        served = sessions.get(request.owner, request.id)
        await sessions.close(request.owner, served, moved=True)
        if journal is not None and journal.id == request.journal:
            journal.forget(request.owner, request.id)
        elif journal is not None:
            await journal.drop(request.owner, request.id)
        if request.file is not None:
            harbour.known(request.file).unlink(missing_ok=True)
        return {"id": served.id, "object": "session.moved"}

    @router.post("/sessions/stays")
    async def stays(http: Request, request: Annotated[Left, Depends(body_of(Left))]) -> Json:
        served = sessions_of(http).get(request.owner, request.id)
        served.release()
        if request.file is not None:
            harbour.known(request.file).unlink(missing_ok=True)
        return served.describe()

    @router.post("/sessions/revive")
    async def revive(http: Request, request: Annotated[Named, Depends(body_of(Named))]) -> Json:
        service: Service = http.app.state.service
        loaded, journal = service.loaded_now(), service.journal
        try:  # somebody was here before
            return loaded.sessions.get(request.owner, request.id).describe()
        except UnknownSession:
            pass
        exported = None
        if journal is not None:
            exported = await journal.load(request.owner, request.id, loaded.processor)
        if journal is None or exported is None:
            raise UnknownSession(f"there is no session {request.id!r}, nor the log of one")
        served = await unbroken(restored(loaded.sessions, exported))
        journal.adopt(request.owner, request.id)
        return served.describe()

    return router
