"""The page's server: a few routes below an address that nobody can guess.

    http://127.0.0.1:41234/w/TOKEN/                 the page; below it its files, and
        state                                       every session's summary, and the version these are of
        session?id=...                              one session with its steps
        events?since=...&session=...                what changes from there on (server-sent events)
        frames/NAME, frames/NAME?small              pictures
        command                                     POST: steer, answer
        pulse                                       how many sessions wait for a person

Server-sent events and not a WebSocket: news go one way, commands the other, and each command wants an answer of its own
(done, or why not), which is what a POST is. A stream of events is plain HTTP, browsers reconnect it by themselves and
say where they were (`Last-Event-ID`), and no further package is needed.

Who may use it is decided here, before anything else: the host name must be ours (no DNS rebinding), a page of another
site may not ask (`Origin`, `Sec-Fetch-Site`), and the token in the path must be right, compared in constant time. There
is no cookie, so there is nothing that a browser would send along by itself. Whatever is wrong is answered with one and
the same 404.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import AsyncIterator
from importlib.resources import files

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holotron.agent.steering import NotNow
from holotron.callers import HostCheck, from_another_site
from holotron.console.frames import Picture
from holotron.console.recorded import WatchedRun
from holotron.console.thumbnails import Thumbnails
from holotron.errors import HolotronError, InputError

log = logging.getLogger(__name__)

MOST_STREAMS = 64
LARGEST_COMMAND = 64 * 1024  # bytes
PACE = {True: 0.1, False: 1.0}  # seconds between two messages to a viewer: of one session, of all of them
SILENCE = 15.0  # seconds after which a word is sent to show that the connection lives

_ASSETS = files(__package__) / "assets"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS = {
    # Nothing but our own files; text of pages can neither become markup (trusted types) nor load anything.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def make_app(run: WatchedRun, token: str, host: str) -> ASGIApp:
    page = _Page(run)
    routes = [
        Route("/", page.file),
        Route("/state", page.state),
        Route("/session", page.session),
        Route("/events", page.events),
        Route("/pulse", page.pulse),
        Route("/frames/{name}", page.frame),
        Route("/command", page.command, methods=["POST"]),
        Route("/{name}", page.file),
    ]
    return _Guarded(Starlette(routes=routes), token, host)


class _Guarded:
    """Lets through whoever has the token, and takes it out of the path."""

    def __init__(self, app: ASGIApp, token: str, host: str) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = HostCheck(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                more = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *(pair for pair in more if pair[0] not in given)]
            await send(message)

        rest = self._rest(scope)
        if rest is None:
            await _nothing()(scope, receive, send_guarded)
            return
        try:
            await self._app({**scope, "path": rest, "raw_path": rest.encode()}, receive, send_guarded)
        except Exception:
            log.exception("%s %s failed", scope["method"], rest)
            raise

    def _rest(self, scope: Scope) -> str | None:
        """The path behind the token; None for those who may not."""
        headers = dict(scope["headers"])
        start, slash, rest = scope["path"].removeprefix("/w/").partition("/")
        right = scope["path"].startswith("/w/") and slash and hmac.compare_digest(start.encode(), self._token)
        elsewhere = from_another_site(headers.get(b"host"), headers.get(b"origin"), headers.get(b"sec-fetch-site"))
        opened = scope["method"] == "GET" and rest == "" and headers.get(b"sec-fetch-mode") == b"navigate"
        if not right or not self._hosts.allows(headers.get(b"host")) or (elsewhere and not opened):
            return None
        return f"/{rest}"


class _Page:
    def __init__(self, run: WatchedRun) -> None:
        self._run = run
        self._thumbnails = Thumbnails(run)
        self._streams = 0

    async def file(self, http: Request) -> Response:
        name = http.path_params.get("name", "index.html")
        kind = _KINDS.get(name[name.rfind(".") :])
        asset = _ASSETS / name
        if kind is None or "/" in name or not asset.is_file():
            return _nothing()
        return Response(asset.read_bytes(), headers={"Content-Type": kind})

    async def state(self, http: Request) -> Response:
        await self._refresh()
        board = self._run.board
        changes = board.changes()
        body = f'{{"position":"{board.epoch}-{changes.version}","changes":{changes.json()}}}'
        return Response(body, media_type="application/json")

    async def session(self, http: Request) -> Response:
        try:
            found = await run_in_threadpool(self._run.session, http.query_params.get("id", ""))
        except KeyError:
            return JSONResponse({"error": "there is no such session here"}, 404)
        except HolotronError as error:  # a file of the run is damaged
            return JSONResponse({"error": str(error)}, 500)
        return JSONResponse(found)

    async def pulse(self, http: Request) -> Response:
        """For pages in the background, which hold no stream open."""
        seen = self._run.board.column("question", "state")
        waiting = sum(bool(question) or state == "held" for question, state in seen)
        return JSONResponse({"waiting": waiting, "running": sum(state != "ended" for _, state in seen)})

    async def frame(self, http: Request) -> Response:
        name = http.path_params["name"]
        if "small" in http.query_params:
            picture = await self._thumbnails.get(name)
        else:
            picture = await run_in_threadpool(self._run.frames.read, name)
        if picture is None:
            return Response(status_code=404)
        return _shown(picture)

    async def command(self, http: Request) -> Response:
        body = bytearray()
        async for piece in http.stream():
            body += piece
            if len(body) > LARGEST_COMMAND:
                return _refused(413, "the command is too long")
        try:
            read = json.loads(bytes(body))
            if not isinstance(read, dict) or not isinstance(read.get("session"), str):
                raise InputError("a command is a JSON object with session and do")
            await self._run.command(read["session"], read)
        except NotNow as error:
            return _refused(409, str(error))
        except (ValueError, RecursionError):
            return _refused(400, "that is no JSON")
        except InputError as error:
            return _refused(400, str(error))
        except HolotronError as error:
            return _refused(503, str(error))
        return JSONResponse({"done": True})

    # -------------------------------------------------------------------------------------------------------- events

    async def events(self, http: Request) -> Response:
        if self._streams >= MOST_STREAMS:
            return _refused(503, f"{MOST_STREAMS} pages are open already; close some")
        given = http.headers.get("last-event-id") or http.query_params.get("since", "")
        epoch, _, number = given.partition("-")
        known = int(number) if epoch == self._run.board.epoch and number.isdecimal() else None
        chosen = http.query_params.get("session") or None
        headers = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._stream(known, chosen), headers=headers)

    async def _stream(self, known: int | None, chosen: str | None) -> AsyncIterator[str]:
        """One viewer's. It asks the board at its own pace, so nothing waits for it, and nothing piles up for it."""
        board, pace = self._run.board, PACE[chosen is not None]
        self._streams += 1
        self._run.viewers = self._streams
        self._thumbnails.viewer_came(grid=chosen is None)
        silent = 0.0
        try:
            if known is None:  # another life of the server: what the page knows is of no use
                yield "event: reset\ndata: {}\n\n"
                return
            yield "retry: 1000\n\n"
            while not self._run.closing:
                if board.version != known and (changes := board.changes(known, chosen)):
                    known, silent = changes.version, 0.0
                    yield f"id: {board.epoch}-{known}\nevent: changes\ndata: {changes.json()}\n\n"
                elif silent >= SILENCE:
                    silent = 0.0
                    yield ": still here\n\n"
                await asyncio.sleep(pace)
                silent += pace
                await self._refresh()
        finally:
            self._streams -= 1
            self._run.viewers = self._streams
            self._thumbnails.viewer_left(grid=chosen is None)

    async def _refresh(self) -> None:
        if not self._run.live:
            await run_in_threadpool(self._run.refresh)


def _shown(picture: Picture) -> Response:
    """Pictures are named by their content, so they never change."""
    headers = {"Content-Type": picture.mime, "Cache-Control": "private, max-age=3600, immutable"}
    return Response(picture.data, headers=headers | {"Content-Security-Policy": "default-src 'none'; sandbox"})


def _nothing() -> Response:
    return Response("There is nothing here.\n", 404, media_type="text/plain")


def _refused(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status)
