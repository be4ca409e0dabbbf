"""The entrance: one address for all replicas, behind the same doors as one server has.

Connections, keys, Host checks, quotas, ids and draining are the server's own (`holotron.server`); what is inside is the
router instead of a model. Besides clients, whoever has the fleet's key may ask:

    GET  /fleet/replicas                             what there is, and how it is
    POST /fleet/replicas/{name}/drain                move its sessions away, give it nothing new
    POST /fleet/replicas/{name}/resume               it takes part again
    POST /fleet/replicas/{name}/restart              drain it, end it, start it again
    POST /fleet/weights                              new weights for all, see `weights`
    GET, PUT /fleet/files/{name}                     weights on their way
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from holotron.addresses import in_url
from holotron.errors import HolotronError
from holotron.fleet.homes import Homes
from holotron.fleet.launching import Launcher
from holotron.fleet.metrics import RouterMetrics
from holotron.fleet.moving import Mover
from holotron.fleet.replicas import Replica, Replicas
from holotron.fleet.router import Router
from holotron.fleet.supervising import Supervisor
from holotron.fleet.updating import Updates
from holotron.fleet.upstream import Broken, Refused
from holotron.fleet.weights import sign_of
from holotron.server.access import Access
from holotron.server.door import Stage
from holotron.server.errors import ApiError, translated, unavailable
from holotron.server.keys import api_keys
from holotron.server.middleware import RequestContext
from holotron.server.quotas import Quotas
from holotron.server.routed import bears
from holotron.server.settings import Settings

log = logging.getLogger("holotron.fleet")

TEND_SECONDS = 1.0
SCRAPE_SECONDS = 5.0  # for a replica's metrics: without those of one that hangs there are the others'
_FILE = re.compile(r"/fleet/files/([0-9a-f]{32}\.weights)")
_REPLICA = re.compile(r"/fleet/replicas/([^/]+)/(drain|resume|restart)")


class Entrance:
    """A `server.door.Door`."""

    def __init__(self, settings: Settings, launcher: Launcher, count: int, key: str) -> None:
        self.settings = settings
        self.stage: Stage = "loading"
        self.in_flight = 0
        self.cut = asyncio.Event()
        self.keys = api_keys(settings.server)
        self.quotas = Quotas(settings.quota, keys=len(self.keys), buffered_bytes=settings.server.max_buffered_bytes)
        self.metrics = RouterMetrics()
        self.replicas, self.homes = Replicas(), Homes()
        self.mover = Mover(self.replicas, self.homes)
        seconds = self.metrics.overhead.observe
        self.router = Router(self, self.replicas, self.homes, self.mover, lambda owner: self._held[owner], seconds)
        self.updates = Updates(self.replicas, settings.fleet.folder, self._address)
        self.supervisor = Supervisor(
            launcher, self.replicas, key, on_status=self._looked_at, on_death=self.router.prefixes.forget
        )
        self.failure: HolotronError | None = None
        self._count, self._key = count, key
        self._admin_key = settings.fleet.key.get_secret_value().encode() if settings.fleet.key is not None else None
        self._tasks: list[asyncio.Task[None]] = []
        self._draining: set[Replica] = set()
        self._scraping = asyncio.Lock()
        self._held: Counter[str] = Counter()  # bytes of sessions, by owner

    @property
    def to_be_moved(self) -> bool:
        return False  # sessions end with their last replica

    # --------------------------------------------------------------------------------------------------------- living

    async def start(self) -> None:
        self._tasks = [asyncio.ensure_future(self._keep(n)) for n in range(self._count)]
        self._tasks.append(asyncio.ensure_future(self._tend()))

    async def _keep(self, n: int) -> None:
        try:
            await self.supervisor.keep(n)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.exception("nobody looks after replica %d any more", n)
            self.supervisor.given_up[str(n)] = repr(error)
        if (problem := self.supervisor.problem(self._count)) is not None:
            self.failure, self.stage = problem, "failed"

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.supervisor.stop()
        self.updates.close()

    async def _looked_at(self, replica: Replica) -> None:
        self._sort_out(replica)
        if replica.stage == "behind":
            await self.updates.catch_up(replica)
        if replica.stage == "ready":
            if self.stage == "loading":
                self.stage = "ready"
                log.info("the first replica is ready", extra={"fields": {"name": replica.name}})
            self.quotas.size(self.replicas.total("capacity"))
        if replica.alive:
            self.homes.seen(replica, ((owner, name) for owner, name in replica.told.get("sessions", ())))
        if replica.told.get("stage") == "draining" and replica not in self._draining:
            self._draining.add(replica)  # it was told to end: its sessions go elsewhere
            self._tasks.append(asyncio.ensure_future(self._drain(replica)))

    def _sort_out(self, replica: Replica) -> None:
        """One that serves something else than most would make a client's answers depend on chance: it gets nothing new
        until the others serve the same, as they do in the course of an update."""
        if replica.stage not in ("ready", "behind", "other"):
            return
        prevailing = self.replicas.prevailing()
        if prevailing is None or prevailing == replica.serves:
            replica.stage = "behind" if replica.stage == "other" else replica.stage
        elif replica.stage != "other":
            replica.stage = "other"
            (model, weights), (most, theirs) = replica.serves, prevailing
            message = "replica %s serves %s (%s) while most serve %s (%s): it gets nothing new"
            log.error(message, replica.name, model, weights, most, theirs)

    async def _drain(self, replica: Replica) -> None:
        said = False
        while replica.alive:
            try:
                moved = await self.mover.drain(replica)
                log.info("replica %s ends; %d conversations were moved", replica.name, moved)
                return
            except ApiError as error:
                if not said:
                    log.warning("replica %s ends, and its sessions wait: %s", replica.name, error.message)
                said = True
                await self.replicas.change(TEND_SECONDS)

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(TEND_SECONDS)
            try:
                await self.mover.balance()
                self.homes.tend(self.settings.sessions.ttl_seconds, self.settings.responses.ttl_seconds)
                if self.quotas.memory_bytes is not None:
                    await self._count_memory()
            except Exception:
                log.exception("tending the fleet failed")

    async def _count_memory(self) -> None:
        held: Counter[str] = Counter()
        for replica in [one for one in self.replicas.all() if one.alive and not one.quiet]:
            for row in (await replica.ask("GET", "/fleet/sessions", seconds=SCRAPE_SECONDS))["data"]:
                held[row["owner"]] += row["bytes"]
        self._held = held

    # -------------------------------------------------------------------------------------------------------- answering

    def app(self) -> ASGIApp:
        inside = Access(self._inside, settings=self.settings.server, keys=self.keys, quotas=self.quotas)
        return RequestContext(inside, self)

    async def _inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        path: str = scope["path"]
        try:
            if path in ("/health", "/health/ready", "/health/live", "/metrics") or path.startswith("/fleet"):
                scope["route"] = SimpleNamespace(path=path if not path.startswith("/fleet") else "/fleet")
                response = await self._own(scope, receive)
                await response(scope, receive, send)
                return
            self._open()
        except (ApiError, HolotronError, Refused, Broken) as error:
            answer = _as_api_error(error)
            await JSONResponse(answer.body(), answer.status, answer.headers())(scope, receive, send)
            return
        await self.router(scope, receive, send)

    def _open(self) -> None:
        if self.stage == "draining":
            raise unavailable("the server is shutting down", "shutting_down")
        if self.stage != "ready":
            raise unavailable("the model is still being loaded", "loading", retry_after=10.0)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await self.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _own(self, scope: Scope, receive: Receive) -> Response:
        path: str = scope["path"]
        if path == "/health/live":
            return JSONResponse({"status": "alive"})
        if path.startswith("/health"):
            ready = self.stage == "ready" and bool(self.replicas.serving())
            rows = {one.name: one.stage for one in self.replicas.all()}
            return JSONResponse({"status": self.stage, "replicas": rows}, 200 if ready else 503)
        if path == "/metrics":
            return await self._metrics()
        return await self._administer(Request(scope, receive))

    async def _metrics(self) -> Response:
        alive = [one for one in self.replicas.all() if one.alive and not one.quiet]

        async def of(replica: Replica) -> str:
            try:
                async with asyncio.timeout(SCRAPE_SECONDS):
                    headers = replica.headers("metrics", "metrics", "0" * 32 + "-0")
                    answer = await replica.upstream.ask("GET", "/metrics", headers)
                    return (await answer.body()).decode()
            except (Broken, TimeoutError):
                return ""

        async with self._scraping:  # or what was read first might be counted last
            texts = await asyncio.gather(*map(of, alive))
            told = {one.name: text for one, text in zip(alive, texts, strict=True)}
            text = await asyncio.to_thread(self.metrics.text, self, told)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    def all_replicas(self) -> Iterable[Replica]:
        return self.replicas.all()

    def counts(self) -> Mapping[str, tuple[str, float]]:
        return {
            "repeats": ("Requests that were sent to another replica because theirs was gone", self.router.repeats),
            "restarts": ("Replicas that were started again", self.supervisor.restarts),
            "failed_moves": ("Conversations that stayed where they were", self.mover.failed),
        }

    def labelled(self) -> Mapping[str, tuple[str, str, Mapping[str, float]]]:
        return {
            "moves": ("Conversations that changed their replica", "why", _plain(self.mover.moves)),
            "bound": ("Requests of conversations, by how their replica was found", "how", _plain(self.router.bound)),
        }

    # ----------------------------------------------------------------------------------------------- for administrators

    async def _administer(self, http: Request) -> Response:
        if self._admin_key is None:
            raise ApiError(404, f"{http.method} {http.url.path}: Not Found (set fleet.key)", code="not_found")
        if not bears(http.headers.get("authorization", "").encode(), self._admin_key):
            raise ApiError(401, "this wants the key of the fleet (fleet.key)", code="invalid_api_key")
        path = http.url.path
        if http.method == "GET" and path == "/fleet/replicas":
            return JSONResponse(self.about())
        if http.method == "POST" and (found := _REPLICA.fullmatch(path)):
            return JSONResponse(await self._command(found[1], found[2]))
        if http.method == "POST" and path == "/fleet/weights":
            try:
                order = await http.json()
            except (ValueError, RecursionError):
                raise ApiError(400, "the body is not JSON") from None
            version = await self.updates.publish(order)
            return JSONResponse({"version": version, "replicas": self.about()["replicas"]})
        if found := _FILE.fullmatch(path):
            return await self._file(http, self.settings.fleet.folder / found[1])
        raise ApiError(404, f"{http.method} {path}: Not Found", code="not_found")

    def about(self) -> dict[str, Any]:
        rows = [
            {
                "name": one.name,
                "url": one.url,
                "stage": one.stage,
                "alive": one.alive,
                "in_flight": one.in_flight,
                "model": one.told.get("model"),
                "weights": one.told.get("weights"),
                "version": one.version,
                "pid": one.told.get("pid"),
                "sessions": len(one.told.get("sessions", ())),
                "responses": one.told.get("responses", 0),
                "journal_bytes": one.told.get("journal_bytes", 0),
            }
            for one in self.replicas.all()
        ]
        given_up = dict(self.supervisor.given_up)
        folder = self.settings.fleet.folder
        place = {"folder": str(folder), "folder_sign": sign_of(folder)}
        return {"version": self.updates.version, **place, "replicas": rows, "given_up": given_up}

    async def _command(self, name: str, verb: str) -> dict[str, Any]:
        replica = self.replicas.get(name)
        if replica is None or replica.stage == "dead":
            raise ApiError(404, f"there is no replica {name!r} that lives", code="not_found")
        if verb == "resume":
            replica.kept_back = False
            await replica.look()
            await self._looked_at(replica)
            return {"name": name, "stage": replica.stage}
        started = time.monotonic()
        moved = await self.mover.drain(replica)
        seconds, left = round(time.monotonic() - started, 3), len(self.homes.of(replica))
        told = {"name": name, "moved": moved, "left": left, "seconds": seconds}
        if verb == "restart":
            await self.supervisor.restart(name)
        return told

    async def _file(self, http: Request, path: Path) -> Response:
        if http.method == "PUT":
            if path.exists():
                raise ApiError(409, f"there is a file {path.name} already")
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                async for piece in http.stream():
                    file.write(piece)
            return JSONResponse({"file": path.name})
        if http.method == "GET" and path.exists():
            return FileResponse(path)
        return PlainTextResponse("there is no such file", 404)

    def _address(self, replica: Replica) -> str:
        """Where it finds what is here, should it be on another machine."""
        host = self.settings.server.host
        if host in ("0.0.0.0", "::"):
            host = replica.upstream.seen_from() or host
        return f"http://{in_url(host)}:{self.settings.server.port}"


def _plain(counts: Mapping[Any, int]) -> dict[str, float]:
    return {str(key): float(count) for key, count in counts.items()}


def _as_api_error(error: Exception) -> ApiError:
    if isinstance(error, Refused):
        return ApiError(error.status, error.message, code=error.code)
    if isinstance(error, Broken):
        return unavailable(f"a replica did not answer: {error}", "no_replica")
    return translated(error)
