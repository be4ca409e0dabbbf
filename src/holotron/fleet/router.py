"""The data path: a client's request goes to the replica where its conversation lives, and the answer comes back as it
is written. Should the replica die meanwhile, the request is sent to another one as the same reply, and the client sees
a delay.

An ASGI application behind the same doors as one server has (`entrance`): by then the request has an owner.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from holotron.fleet.asking import PUBLIC, Asks, asked, quickly_read, route_of
from holotron.fleet.choosing import Prefixes
from holotron.fleet.homes import Home, Homes, Visit
from holotron.fleet.moving import Mover
from holotron.fleet.own_answers import OwnAnswers
from holotron.fleet.passing import Passing
from holotron.fleet.replicas import Replica, Replicas
from holotron.fleet.streams import Heard
from holotron.fleet.upstream import Answer, Broken, Refused
from holotron.server import routed
from holotron.server.access import answer as answer_error
from holotron.server.access import header
from holotron.server.bodies import check_json, read_body
from holotron.server.door import Door
from holotron.server.errors import ApiError, unavailable
from holotron.server.missing import not_found
from holotron.server.running import or_gone

log = logging.getLogger("holotron.fleet")

MOST_TRIES = 8
PUBLIC_SECONDS = 30.0  # for a description of the API to come
FAITHFUL_TRIES = 4  # with the replica where a session was to be opened; it may have been
PAUSE_SECONDS = 0.02  # before one is asked again that lives; then longer and longer
BUSY_SECONDS = 10.0  # for a replica to notice that its client, the router, has gone
AGAIN = ("loading", "shutting_down")  # what another replica would not say
GONE = ("session_not_found", "response_not_found", "previous_response_not_found")
_DROPPED = {b"connection", b"keep-alive", b"transfer-encoding", b"date", b"server", b"x-request-id", b"content-length"}


class Router:
    def __init__(
        self,
        door: Door,
        replicas: Replicas,
        homes: Homes,
        mover: Mover,
        held: Callable[[str], int],
        seconds: Callable[[float], None],
    ) -> None:
        """`held`: bytes that an owner's sessions hold. `seconds`: is told how long a request took to get here."""
        self._door, self._replicas, self._homes, self._mover = door, replicas, homes, mover
        self._held, self._seconds = held, seconds
        self._own = OwnAnswers(replicas, homes, mover)
        self.prefixes = Prefixes()
        self._reader = asyncio.Semaphore(1)  # reading JSON keeps Python's lock: one large body at a time
        self.repeats = 0
        self.bound: Counter[str] = Counter()  # requests by how their replica was found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = SimpleNamespace(path=route_of(scope["path"]))
        passing: Passing | None = None
        try:
            passing = await self._read(scope, receive, send) if "owner" in scope else _public(scope, send)
            with self._admitted(passing):
                await or_gone(receive, self._answer(passing), self._door.cut)
        except ApiError as error:
            if passing is not None and passing.begun:
                await passing.end_stream(error)
            else:
                await answer_error(error, send)

    async def _read(self, scope: Scope, receive: Receive, send: Send) -> Passing:
        body = b"".join(await read_body(Request(scope, receive), self._door))
        scope["begun"] = time.monotonic()
        await check_json(self._door.settings.limits, body)
        named, owner = header(scope, b"x-session-id"), scope["owner"]
        told = scope["method"], scope["path"], body, named.decode("latin-1") if named else None, owner
        if quickly_read(body):
            asks = asked(*told)
        else:
            async with self._reader:
                asks = await asyncio.to_thread(asked, *told)
        scope["patience"] = self._door.settings.server.request_seconds or 3600.0
        return Passing(scope, send, body, asks, owner, _new_reply(), Heard())

    @contextlib.contextmanager
    def _admitted(self, passing: Passing) -> Iterator[None]:
        if passing.asks.kind != "generate":
            yield
            return
        quotas, owner = self._door.quotas, passing.owner
        with quotas.admitted(owner):
            try:
                yield
            finally:
                quotas.used(owner, passing.heard.spent or 0)

    # ------------------------------------------------------------------------------------------------------- answering

    async def _answer(self, passing: Passing) -> None:
        asks = passing.asks
        self._check_quotas(passing)
        if asks.kind == "sessions":
            await self._own.list_sessions(passing)
            return
        if asks.kind == "move":
            await self._own.move(passing)
            return
        if asks.kind == "session" and passing.scope["method"] == "DELETE" and await self._own.end_header(passing):
            return
        while True:
            visit: Visit | None = None
            try:
                visit = await self._enter(passing)
                if await self._visit(passing, visit):
                    return
            except (Broken, Refused) as error:
                self.repeats += 1
                passing.heard.torn()
                passing.repeated = True
                if visit is not None and not visit.interrupted:
                    passing.broke.add(visit.replica)
                if visit is None or not visit.interrupted:
                    passing.tries += 1
                    await (visit.replica.suspect() if visit is not None else asyncio.sleep(0.1))
                if passing.tries >= MOST_TRIES or time.monotonic() > passing.until:
                    log.warning("a request is given up after %d tries: %s", passing.tries, error)
                    raise unavailable("the replicas that were asked did not answer", "no_replica") from None
                if visit is not None and visit.replica.alive:
                    await asyncio.sleep(min(1.0, PAUSE_SECONDS * 2**passing.tries))
            finally:
                if visit is not None:
                    visit.replica.in_flight -= 1
                    for home in (visit.home, *visit.made):
                        if home is not None:
                            home.leave(visit)
                    for home in visit.made:
                        if home.provisional:
                            self._homes.forget(home)

    def _check_quotas(self, passing: Passing) -> None:
        asks, quotas, owner = passing.asks, self._door.quotas, passing.owner
        more = asks.forks + asks.opens
        if quotas.memory_bytes is not None and (more or asks.session is not None) and asks.kind != "session":
            quotas.check_memory(self._held(owner))
        if more:
            most = self._replicas.total("max_sessions") or 2**62
            quotas.check_sessions(owner, self._homes.count(owner), more, most)

    async def _visit(self, passing: Passing, visit: Visit) -> bool:
        """Ask this replica. False: ask again. `Broken`: it is gone, or the conversation is about to move."""
        replica = visit.replica
        if visit.interrupted:
            raise Broken("the conversation moves")
        if passing.repeated:
            await replica.ask("POST", "/fleet/replies", passing.again())
        else:
            self._seconds(time.monotonic() - passing.scope["begun"])
        visit.asking = asyncio.ensure_future(
            replica.upstream.ask(passing.scope["method"], passing.target, passing.headers(replica), passing.body)
        )
        try:
            answer = visit.answer = await visit.asking
        except asyncio.CancelledError:
            visit.asking.cancel()
            client_gone = (task := asyncio.current_task()) is not None and task.cancelling()
            if visit.interrupted and not client_gone:
                raise Broken("the conversation moves") from None
            raise
        try:
            if answer.streams:
                await self._stream(passing, answer)
            elif not await self._whole(passing, answer, visit):
                return False
        except asyncio.CancelledError:  # the client has gone
            answer.close()
            raise
        self._learn(passing, visit, answer)
        return True

    async def _stream(self, passing: Passing, answer: Answer) -> None:
        heard = passing.heard
        if not passing.begun:
            passing.begun = True
            await passing.send({"type": "http.response.start", "status": answer.status, "headers": _kept(answer)})
        async for piece in answer.pieces():
            if data := heard.passed(piece):
                await passing.send({"type": "http.response.body", "body": data, "more_body": True})
        await passing.send({"type": "http.response.body", "body": heard.rest(), "more_body": False})

    async def _whole(self, passing: Passing, answer: Answer, visit: Visit) -> bool:
        """An answer in one piece: the client sees nothing of it before it is complete."""
        body = await answer.body()
        if answer.status >= 400:
            code = _code(body)
            if answer.status == 503 and code in AGAIN:
                await visit.replica.look()
                self._replicas.ring()
                if time.monotonic() < passing.until:
                    await asyncio.sleep(0.05)
                    return False
            if passing.repeated and code == "session_busy" and time.monotonic() < passing.scope["begun"] + BUSY_SECONDS:
                await asyncio.sleep(0.05)  # the replica is just noticing that the first try is over
                return False
            if passing.repeated and passing.scope["method"] == "DELETE" and answer.status == 404:
                await passing.say_deleted()
                return True
            if visit.home is not None and self._is_elsewhere(passing, visit.home, code):
                await asyncio.sleep(0.05)
                return False
        if (spent := answer.header(routed.SPENT.encode())) is not None:
            passing.heard.spent = int(spent)
        if passing.begun:  # a stream was promised
            raise _as_error(answer.status, body)
        headers = [*_kept(answer), (b"content-length", b"%d" % len(body))]
        await passing.send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await passing.send({"type": "http.response.body", "body": body})
        return True

    def _is_elsewhere(self, passing: Passing, home: Home, code: str | None) -> bool:
        """Another entrance of these replicas has moved it, or is about to: who has it now is to be asked again."""
        if code == "session_moving" and time.monotonic() < passing.until:
            self._homes.forget(home)
            return True
        if code not in GONE or passing.looked_again or home.provisional:
            return False
        passing.looked_again = True
        self._homes.forget_name(home, passing.asks.session or passing.asks.response or "")
        return True

    # -------------------------------------------------------------------------------------------------------- choosing

    async def _enter(self, passing: Passing) -> Visit:
        """Find the conversation's home, or make one; wait while it moves, and take it up again if its replica died."""
        asks, owner = passing.asks, passing.owner
        home = await self._home(passing)
        if home is not None:
            async with home.lock:
                if not home.replica.alive:
                    await self._mover.revive(home)
                elif home.replica in passing.broke and passing.tries >= FAITHFUL_TRIES and home.remembers_nothing:
                    self._homes.relocate(home, await self._mover.place(broke=passing.broke))
                await self._check_free(owner, asks.made, home.replica)
                visit = home.enter()
                visit.may_be_cut = not asks.forks
                for name in asks.made:
                    if self._homes.get(owner, "session", name) is None:
                        made = self._homes.settle(owner, "session", name, home.replica, provisional=True)
                        visit.made.append(made)
                        made.visits.append(visit)
        else:
            seconds = max(1.0, min(60.0, passing.until - time.monotonic()))
            idle = await self._mover.place(seconds, passing.broke)
            others = [one for one in self._replicas.serving() if one not in passing.broke]
            chosen = self.prefixes.best(asks, others, self._homes.recent) if asks.chain and others else idle
            if asks.opens and asks.session is not None:
                home = self._homes.settle(owner, "session", asks.session, chosen, provisional=True)
            elif asks.header is not None:
                home = self._homes.settle(owner, "header", asks.header, chosen)
            visit = home.enter() if home is not None else Visit(None, chosen)
        visit.replica.in_flight += 1
        if asks.chain:
            self.prefixes.sent(asks, visit.replica)
        return visit

    async def _check_free(self, owner: str, names: tuple[str, ...], replica: Replica) -> None:
        """Of names for new sessions: another replica than this, which looks itself, may have a session of that name."""
        for name in names:
            home = self._homes.get(owner, "session", name)
            if home is None or home.replica is replica:
                continue
            has = True  # one that is to be taken up again
            if home.replica.alive and not home.provisional:
                asked = {"owner": owner, "kind": "session", "name": name}
                has = (await home.replica.ask("POST", "/fleet/has", asked))["has"]
            if has:
                message = f"there is already a session {name!r}"
                raise ApiError(409, message, code="session_exists", param="session_id")
            self._homes.forget(home)

    async def _home(self, passing: Passing) -> Home | None:
        asks, owner, homes = passing.asks, passing.owner, self._homes
        if asks.session is not None:
            home = homes.get(owner, "session", asks.session)
            if home is None and not asks.opens:
                home = await self._mover.find(owner, "session", asks.session)
                self.bound["session found" if home is not None else "session unknown"] += 1
            elif home is not None:
                self.bound["session known"] += 1
            else:
                self.bound["session new"] += 1
            return home
        if asks.response is not None:
            home = homes.get(owner, "response", asks.response)
            self.bound["response known" if home is not None else "response unknown"] += 1
            return home or await self._mover.find(owner, "response", asks.response)
        if asks.header is not None:
            home = homes.get(owner, "header", asks.header)
            self.bound["header known" if home is not None else "header new"] += 1
            return home
        return None

    def _learn(self, passing: Passing, visit: Visit, answer: Answer) -> None:
        """Where the conversation is from now on."""
        asks, owner, replica, homes = passing.asks, passing.owner, visit.replica, self._homes
        fine = answer.status < 300
        if visit.home is not None and visit.home.provisional:
            visit.home.provisional = False
            if not fine:
                homes.forget(visit.home)
                return
        if not fine:
            return
        for made in visit.made:
            made.provisional = False
        if asks.kind == "session" and passing.scope["method"] == "DELETE" and visit.home is not None:
            homes.forget(visit.home)
        if asks.kind == "response" and passing.scope["method"] == "DELETE" and visit.home is not None:
            homes.forget_name(visit.home, asks.response or "")
        session, response = answer.header(routed.SESSION.encode()), answer.header(routed.RESPONSE.encode())
        if session is not None and homes.get(owner, "session", session) is None:
            homes.settle(owner, "session", session, replica)
        if response is not None and homes.get(owner, "response", response) is None:
            if visit.home is not None and visit.home.kind == "response":
                homes.also(visit.home, response)
            else:
                homes.settle(owner, "response", response, replica)
        if asks.session is not None:
            passing.scope.setdefault("notes", {})["session"] = session or asks.session
        passing.scope.setdefault("notes", {})["replica"] = replica.name


def _public(scope: Scope, send: Send) -> Passing:
    """What needs no key: descriptions of the API. Nothing that somebody without one sends is kept or passed on."""
    method, path = scope["method"], scope["path"]
    if path not in PUBLIC:
        raise not_found(method, path, lambda near: route_of(near) != "unknown")
    if method != "GET":
        raise ApiError(405, f"{method} {path}: Method Not Allowed")
    scope["begun"], scope["patience"] = time.monotonic(), PUBLIC_SECONDS
    return Passing(scope, send, b"", Asks("any"), "public", _new_reply(), Heard())


def _new_reply() -> str:
    return f"{secrets.token_hex(16)}-{int(time.time())}"


def _kept(answer: Answer) -> list[tuple[bytes, bytes]]:
    return [(k, v) for k, v in answer.headers if k not in _DROPPED and not k.startswith(routed.PREFIX)]


def _code(body: bytes) -> str | None:
    try:
        code = json.loads(body)["error"]["code"]
    except (ValueError, KeyError, TypeError):
        return None
    return code if isinstance(code, str) else None


def _as_error(status: int, body: bytes) -> ApiError:
    try:
        told: Mapping[str, Any] = json.loads(body)["error"]
        kind, code, param = (told.get(name) for name in ("type", "code", "param"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return unavailable("the reply could not be continued", "no_replica")
    return ApiError(status, str(told.get("message", "")), type=kind or "server_error", code=code, param=param)
