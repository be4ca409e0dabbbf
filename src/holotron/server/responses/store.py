"""Stored responses: what they hold, for how long, and what they cost.

    store.keep(stored)                     # the oldest of this key go when it keeps too much
    stored = store.get(owner, id)          # 404 if there is none, or it is another key's
    store.delete(owner, id)

A stored response holds its own items and points to the one it continued, so a conversation of a hundred turns is kept
once, however many branches it has. What a later response was made from stays in memory until that one goes too.

Beside the items it keeps a session of the engine that ends where it ends. Continuing forks that session, so any
response can be continued any number of times, and each time only the new tokens are computed. Sessions cost memory;
those that were used longest ago are given up first, beginning with those that have been continued already. What was
given up is computed again, from the items, when somebody continues it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from holotron.engine import SessionInfo
from holotron.errors import HolotronError
from holotron.server.errors import ApiError
from holotron.server.limits import size_of
from holotron.server.quotas import Quotas
from holotron.server.responses.items import Json, digests, fingerprint
from holotron.server.served import ServedSession, ServedSessions
from holotron.server.settings import QuotaSettings, ResponseSettings


@dataclass(eq=False)
class Stored:
    id: str
    owner: str
    body: Json  # the response as it was answered
    sent: tuple[Json, ...]  # the items of its request
    sent_prints: tuple[bytes, ...]  # their fingerprints
    previous: Stored | None
    head: Any = None  # what stands before the conversation: instructions and tools
    state: Any = None  # of the computer's user, where the response was written by one
    session: ServedSession | None = None
    more_bytes: int = 0  # held beside the items
    resent: bool = False  # its request brought the conversation before it, too
    by_model: bool = True  # its output is the model's; not so for what a computer's user does without asking it
    born: float = 0.0
    used: float = 0.0
    continued: bool = False
    uses: int = field(default=0, init=False)  # by the store, and by later responses
    size: int = field(default=0, init=False)  # in bytes
    digest: bytes = field(default=b"", init=False)  # of the conversation up to its end

    def __post_init__(self) -> None:
        prints = (*self.sent_prints, *map(fingerprint, self.body["output"]))
        *_, self.digest = digests(prints, self.previous.digest if self.previous is not None else b"")
        self.size = self.more_bytes + size_of([self.body, list(self.sent)], 2**62, without="logprobs")

    @property
    def items(self) -> Iterator[Json]:
        yield from self.sent
        yield from self.body["output"]

    def chain(self) -> list[Stored]:
        """The responses that lead here, the first one first."""
        chain: list[Stored] = []
        at: Stored | None = self
        while at is not None:
            chain.append(at)
            at = at.previous
        return chain[::-1]

    def history(self) -> list[Json]:
        return [item for stored in self.chain() for item in stored.items]

    def to_json(self, now: float) -> Json:
        """All but what is only remembered; see `responses.moving`."""
        return {
            "id": self.id,
            "owner": self.owner,
            "body": self.body,
            "sent": list(self.sent),
            "previous": self.previous.id if self.previous is not None else None,
            "head": self.head,
            "resent": self.resent,
            "by_model": self.by_model,
            "continued": self.continued,
            "age": now - self.born,
            "told": time.time(),
        }

    @property
    def live_session(self) -> ServedSession | None:
        session = self.session
        return session if session is not None and not session.engine_session.closed else None


class Files(Protocol):
    """Where responses are kept for the case that this process dies; see `responses.moving`."""

    def save(self, told: Json) -> None: ...
    def gone(self, stored: Stored) -> None: ...
    def remove(self, stored: Stored) -> None: ...
    def chain(self, owner: str, id: str) -> list[Json]: ...


class ResponseStore:
    def __init__(
        self, sessions: ServedSessions, max_sessions: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`sessions`: where the sessions behind responses live. `max_sessions`: that the engine may have at all."""
        self.sessions = sessions
        self._engine_sessions = max_sessions
        self._clock = clock
        self.limit(ResponseSettings(), Quotas(QuotaSettings()))
        self._kept: dict[str, OrderedDict[str, Stored]] = {}  # by owner and id, the oldest first
        self._items: dict[tuple[str, str], Json] = {}  # of kept responses, by owner and id
        self._ends: dict[tuple[str, bytes], dict[str, Stored]] = {}  # by owner and what the conversation says; by id
        self._bytes: dict[str, int] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.files: Files | None = None

    def limit(self, settings: ResponseSettings, quotas: Quotas) -> None:
        wanted = settings.sessions
        self._max_sessions = wanted if wanted is not None else max(1, self._engine_sessions // 4)
        self._settings = settings
        self._quotas = quotas

    # ------------------------------------------------------------------------------------------------ keep and find

    def keep(self, stored: Stored, age: float = 0.0) -> None:
        self._forget_expired()
        mine = self._kept.setdefault(stored.owner, OrderedDict())
        stored.born = stored.used = self._clock() - age
        mine[stored.id] = stored
        self._use(stored)
        self._ends.setdefault((stored.owner, stored.digest), {})[stored.id] = stored
        for item in stored.items:
            self._items[stored.owner, item["id"]] = item
        most = self._quotas.share(self._settings.max_stored)
        room = self._quotas.share(self._settings.max_bytes)
        while mine and (len(mine) > most or self._bytes.get(stored.owner, 0) > room):
            self._drop(next(iter(mine.values())))

    def find(self, owner: str, id: str) -> Stored | None:
        self._forget_expired()
        mine = self._kept.get(owner)
        return mine.get(id) if mine is not None else None

    def everybodys(self) -> list[Stored]:
        self._forget_expired()
        return [stored for mine in self._kept.values() for stored in mine.values()]

    def tree(self, owner: str, root: str) -> list[Stored]:
        """All that were made from this one, and it, those before others first; what is only still needed too."""
        found: dict[str, Stored] = {}
        for stored in self.everybodys():
            if stored.owner == owner and (chain := stored.chain())[0].id == root:
                found |= {one.id: one for one in chain}
        return list(found.values())

    @property
    def count(self) -> int:
        return sum(map(len, self._kept.values()))

    @property
    def now(self) -> float:
        return self._clock()

    def get(self, owner: str, id: str) -> Stored:
        found = self.find(owner, id)
        if found is None:
            raise ApiError(404, f"Response with id '{id}' not found.", code="response_not_found", param="response_id")
        return found

    def previous(self, owner: str, id: str) -> Stored:
        """To be continued. Whether it expired, was deleted, is another key's or never was is all the same."""
        try:
            found = self.get(owner, id)
        except ApiError:
            message = f"Previous response with id '{id}' not found."
            raise ApiError(404, message, code="previous_response_not_found", param="previous_response_id") from None
        found.used, found.continued = self._clock(), True
        return found

    def recognised(self, owner: str, fingerprints: Sequence[bytes]) -> tuple[Stored, int] | None:
        """The response whose conversation these items begin with, and how many of them that are: for clients that send
        everything again. At least one item is new."""
        self._forget_expired()
        found = None
        for n, digest in enumerate(digests(fingerprints[:-1]), start=1):
            if (alike := self._ends.get((owner, digest))) is not None:
                found = next(reversed(alike.values())), n  # the latest
        if found is not None:
            found[0].used, found[0].continued = self._clock(), True
        return found

    def item(self, owner: str, id: str) -> Json | None:
        self._forget_expired()
        return self._items.get((owner, id))

    def delete(self, owner: str, id: str) -> None:
        self._drop(self.get(owner, id))

    def held(self, owner: str) -> tuple[int, int]:
        """Responses and bytes."""
        self._forget_expired()
        return len(self._kept.get(owner, ())), self._bytes.get(owner, 0)

    def _forget_expired(self) -> None:
        if (ttl := self._settings.ttl_seconds) is None:
            return
        for mine in list(self._kept.values()):
            while mine and (first := next(iter(mine.values()))).born + ttl <= self._clock():
                self._drop(first)

    async def saved(self, stored: Stored | None) -> None:
        """It is kept, and the client is about to hear of it."""
        if self.files is not None and stored is not None and self.find(stored.owner, stored.id) is stored:
            await asyncio.to_thread(self.files.save, stored.to_json(self._clock()))

    def remove_files(self) -> None:
        """The server stops in order: responses end with it."""
        for stored in self.everybodys() if self.files is not None else ():
            for one in stored.chain():
                assert self.files is not None
                self.files.remove(one)

    def let_go(self, stored: Stored, *, kept: bool) -> None:
        """It goes on elsewhere. `kept`: with the same files."""
        files = self.files
        self.files = None if kept else files
        try:
            if self.find(stored.owner, stored.id) is stored:
                self._drop(stored)
        finally:
            self.files = files

    def _drop(self, stored: Stored) -> None:
        if self.files is not None:
            self.files.gone(stored)
        mine = self._kept[stored.owner]
        del mine[stored.id]
        if not mine:
            del self._kept[stored.owner]
        for item in stored.items:
            if self._items.get((stored.owner, item["id"])) is item:
                del self._items[stored.owner, item["id"]]
        alike = self._ends[stored.owner, stored.digest]
        del alike[stored.id]
        if not alike:
            del self._ends[stored.owner, stored.digest]
        self._give_up(stored)
        self._release(stored)

    # ----------------------------------------------------------------------------------------------------- counting

    def _use(self, stored: Stored) -> None:
        at: Stored | None = stored
        while at is not None:
            at.uses += 1
            if at.uses > 1:
                return
            self._bytes[at.owner] = self._bytes.get(at.owner, 0) + at.size
            at = at.previous

    def _release(self, stored: Stored) -> None:
        at: Stored | None = stored
        while at is not None:
            at.uses -= 1
            if at.uses:
                return
            if self.files is not None:
                self.files.remove(at)
            self._bytes[at.owner] -= at.size
            if not self._bytes[at.owner]:
                del self._bytes[at.owner]
            at = at.previous

    # ----------------------------------------------------------------------------------------------------- sessions

    async def make_room(self, owner: str) -> None:
        """Before another session is made: the key's own oldest ones go."""
        most = self._quotas.share(self._max_sessions)
        mine = self._with_session(owner)
        for stored in mine[: max(0, len(mine) + 1 - most)]:
            await self._close(owner, self._take(stored))
        if (limit := self._quotas.memory_bytes) is None:
            return
        mine = self._with_session(owner)
        infos = await asyncio.gather(
            *(stored.session.engine_session.info() for stored in mine if stored.session), return_exceptions=True
        )
        sizes = [info.bytes if isinstance(info, SessionInfo) else 0 for info in infos]
        held = sum(sizes)
        for stored, size in zip(mine, sizes, strict=True):
            if held <= limit:
                break
            await self._close(owner, self._take(stored))
            held -= size

    def _with_session(self, owner: str) -> list[Stored]:
        """The first to be given up first."""
        kept = self._kept.get(owner)
        mine = [stored for stored in kept.values() if stored.live_session is not None] if kept is not None else []
        return sorted(mine, key=lambda stored: (not stored.continued, stored.used))

    def _give_up(self, stored: Stored) -> None:
        """Not waited for: whoever is here cannot."""
        session = self._take(stored)
        if session is not None and not session.engine_session.closed:
            task = asyncio.ensure_future(self._close(stored.owner, session))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _take(self, stored: Stored) -> ServedSession | None:
        session, stored.session = stored.session, None
        return session

    async def _close(self, owner: str, session: ServedSession | None) -> None:
        if session is not None:
            with contextlib.suppress(HolotronError):
                await self.sessions.close(owner, session)
