"""Where conversations live: each has one home, a replica, until it is moved or that replica dies.

Three kinds of names lead to a home: our sessions, ids of stored responses (all of one tree have one home), and what
clients call a session in the header x-session-id, which binds stateless requests to a replica and nothing else.

The table is a memory, not the truth: what it does not know is asked for at the replicas, so a router that was started
again, or a second one, finds everything.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from holotron.fleet.replicas import Replica
from holotron.fleet.upstream import Answer

Kind = Literal["session", "response", "header"]
Name = tuple[str, Kind, str]  # owner, kind, name

RECENT_SECONDS = 60.0  # a conversation that was used within these counts as load
MOST_NAMES = 500_000


@dataclass(eq=False)
class Visit:
    """A request on its way through a home."""

    home: Home | None
    replica: Replica
    asking: asyncio.Task[Answer] | None = None
    answer: Answer | None = None
    interrupted: bool = False  # by a move; the request will be repeated
    may_be_cut: bool = True  # asking for it again does no harm
    made: list[Home] = field(default_factory=list)  # sessions that it makes, under names that are theirs from now on

    def interrupt(self) -> None:
        self.interrupted = True
        if self.answer is not None:
            self.answer.close()
        elif self.asking is not None:
            self.asking.cancel()


@dataclass(eq=False)
class Home:
    owner: str
    kind: Kind
    replica: Replica
    names: set[str] = field(default_factory=set)
    used: float = field(default_factory=time.monotonic)
    moved: float = -1e9  # when it last was
    visits: list[Visit] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while it moves: requests wait before they go in
    left: asyncio.Event = field(default_factory=asyncio.Event)  # set when nobody is in it any more
    provisional: bool = False  # it is just being opened

    @property
    def remembers_nothing(self) -> bool:
        """That would be lost elsewhere."""
        return self.provisional or self.kind == "header"

    def enter(self) -> Visit:
        visit = Visit(self, self.replica)
        self.used = time.monotonic()
        self.visits.append(visit)
        self.left.clear()
        return visit

    def leave(self, visit: Visit) -> None:
        self.used = time.monotonic()
        self.visits.remove(visit)
        if not self.visits:
            self.left.set()

    async def empty(self, seconds: float) -> bool:
        """Wait until nobody is in it."""
        if not self.visits:
            return True
        try:
            await asyncio.wait_for(self.left.wait(), seconds)
        except TimeoutError:
            return False
        return True


class Homes:
    def __init__(self) -> None:
        self._by_name: dict[Name, Home] = {}
        self._recent: Counter[Replica] = Counter()  # of conversations; counted anew once a second, see `tend`
        self._sessions: Counter[str] = Counter()  # by owner

    def get(self, owner: str, kind: Kind, name: str) -> Home | None:
        return self._by_name.get((owner, kind, name))

    def settle(self, owner: str, kind: Kind, name: str, replica: Replica, *, provisional: bool = False) -> Home:
        home = Home(owner, kind, replica, provisional=provisional)
        self._recent[replica] += 1
        self.also(home, name)
        return home

    def also(self, home: Home, name: str) -> None:
        """A response that continues another lives where that does."""
        key = (home.owner, home.kind, name)
        if key not in self._by_name and home.kind == "session":
            self._sessions[home.owner] += 1
        home.names.add(name)
        self._by_name[key] = home

    def forget_name(self, home: Home, name: str) -> None:
        home.names.discard(name)
        if self._by_name.get((home.owner, home.kind, name)) is home:
            del self._by_name[home.owner, home.kind, name]
            if home.kind == "session":
                self._sessions[home.owner] -= 1
        if not home.names:
            self._recent[home.replica] = max(0, self._recent[home.replica] - 1)

    def forget(self, home: Home) -> None:
        for name in list(home.names):
            self.forget_name(home, name)

    def relocate(self, home: Home, replica: Replica) -> None:
        self._recent[home.replica] = max(0, self._recent[home.replica] - 1)
        self._recent[replica] += 1
        home.replica, home.moved = replica, time.monotonic()

    def everywhere(self) -> set[Home]:
        return set(self._by_name.values())

    def of(self, replica: Replica, kinds: Iterable[Kind] = ("session", "response", "header")) -> list[Home]:
        wanted = set(kinds)
        return [home for home in self.everywhere() if home.replica is replica and home.kind in wanted]

    def sessions(self, owner: str) -> list[Home]:
        return [home for (who, kind, _), home in self._by_name.items() if who == owner and kind == "session"]

    def count(self, owner: str) -> int:
        return self._sessions[owner]

    def recent(self, replica: Replica) -> int:
        """Conversations of this replica that were used of late."""
        return self._recent[replica]

    def seen(self, replica: Replica, sessions: Iterable[tuple[str, str]]) -> None:
        """What a replica says it has: what it lost (expired, closed) is forgotten, what is new to us is learnt, and
        what we took for lost with another one is here, or still here: it was only out of reach."""
        there = set(sessions)
        long_ago = time.monotonic() - 10.0
        for home in self.of(replica, ("session",)):
            if home.visits or home.lock.locked() or home.used > long_ago:
                continue
            if not any((home.owner, name) in there for name in home.names):
                self.forget(home)
        for owner, name in there:
            known = self._by_name.get((owner, "session", name))
            if known is None:
                self.settle(owner, "session", name, replica)
            elif not known.replica.alive and not known.lock.locked():
                self.relocate(known, replica)

    def tend(self, header_seconds: float | None, response_seconds: float | None) -> None:
        """Once a second: count what was used of late, and forget what nobody has used for so long."""
        now, recent = time.monotonic(), Counter[Replica]()
        longest = {"header": header_seconds, "response": response_seconds}
        homes = self.everywhere()
        for home in homes:
            seconds = longest.get(home.kind)
            if seconds is not None and now - home.used > seconds and not home.visits:
                self.forget(home)
            elif now - home.used < RECENT_SECONDS:
                recent[home.replica] += 1
        self._recent = recent
        if len(self._by_name) > MOST_NAMES:
            for home in sorted(homes, key=lambda home: home.used)[: len(homes) // 10]:
                if home.kind != "session" and not home.visits:
                    self.forget(home)  # its replica knows
