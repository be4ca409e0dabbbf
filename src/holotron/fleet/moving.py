"""Conversations that move from one replica to another, with everything they remember; and those that are taken up again
after theirs has died, from the journal, to be computed once more.

Whoever moves a conversation holds its lock. Requests for it wait, then go where it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Set
from typing import Literal

from holotron.fleet.homes import Home, Homes, Kind
from holotron.fleet.replicas import Replica, Replicas, least_loaded
from holotron.fleet.upstream import Broken, Refused
from holotron.server.errors import ApiError, unavailable

log = logging.getLogger("holotron.fleet")

Why = Literal["asked", "drained", "rebalanced", "revived"]

AT_ONCE = 8  # moves at the same time
POLITE_SECONDS = 0.8  # for replies under way to end by themselves, before they are taken along
BUSY_SECONDS = 5.0  # for a replica to undo what was interrupted
HOT, MORE = 2.0, 2.0  # a replica is hot that has so many times its neighbour's load, and a little more
SUSTAINED = 3  # looks in a row at which it must be
HEIR_SECONDS = 120.0  # for a replica to come back, where nobody else sees what it kept
SILENT_SECONDS = 45.0  # for one that does not answer to be found dead, see `replicas.DEAF_SECONDS`
ELSEWHERE = ("session_moving", "session_not_found")  # says one where a session was until now
REST_SECONDS = 60.0  # before a conversation is moved again to balance loads
RECENT_SECONDS = 30.0  # moving what nobody uses balances nothing


class Mover:
    def __init__(self, replicas: Replicas, homes: Homes) -> None:
        self._replicas, self._homes = replicas, homes
        self.moves: Counter[Why] = Counter()
        self.failed = 0
        self._finding = asyncio.Lock()  # or two would take up one session
        self._hot: Counter[tuple[str, str]] = Counter()  # how often in a row this pair was out of balance

    # ---------------------------------------------------------------------------------------------------------- moving

    async def move(self, home: Home, to: Replica, why: Why) -> bool:
        """With everything it remembers. A reply under way is waited for for a while, then it goes on over there; but
        not just to balance loads, because that computes the session again. False: it stays where it is."""
        async with home.lock:
            source = home.replica
            if source is to or not source.alive:
                return False
            if home.kind == "header":
                self._homes.relocate(home, to)
                return True
            if not await home.empty(POLITE_SECONDS if why != "rebalanced" else BUSY_SECONDS):
                if why == "rebalanced" or not all(visit.may_be_cut for visit in home.visits):
                    return False
                for visit in list(home.visits):
                    visit.interrupt()
                await home.empty(BUSY_SECONDS)
            if not home.names:
                return False  # it was closed meanwhile
            try:
                if home.kind == "session":
                    await self._move_session(home, source, to)
                else:
                    await self._move_tree(home, source, to)
            except (Broken, Refused) as error:
                if isinstance(error, Refused) and error.code in ELSEWHERE:
                    self._homes.forget(home)  # another entrance was faster
                    return False
                self.failed += 1
                log.warning("a %s stays on replica %s: %s", home.kind, source.name, error)
                return False
            self._homes.relocate(home, to)
            self.moves[why] += 1
            return True

    async def _move_session(self, home: Home, source: Replica, to: Replica) -> None:
        (name,) = home.names
        named = {"owner": home.owner, "id": name}
        until = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                left = await source.ask("POST", "/fleet/sessions/leave", named)
                break
            except Refused as error:
                if home.provisional and error.code == "session_not_found":
                    return  # what was to open it was interrupted
                # It may still be undoing what was interrupted.
                if error.code != "session_busy" or time.monotonic() > until:
                    raise
                await asyncio.sleep(0.02)
        file = {"file": left["file"]}
        try:
            await to.ask("POST", "/fleet/sessions/arrive", {**file, "at": source.url, "journal": source.journal})
        except BaseException:
            with contextlib.suppress(Broken, Refused):
                await asyncio.shield(source.ask("POST", "/fleet/sessions/stays", {**named, **file}))
            raise
        with contextlib.suppress(Broken, Refused):  # it is over there now, whatever becomes of this one
            await source.ask("POST", "/fleet/sessions/left", {**named, **file, "journal": to.journal})

    async def _move_tree(self, home: Home, source: Replica, to: Replica) -> None:
        listed = await source.ask("GET", "/fleet/responses")
        mine = [row for row in listed["data"] if row["owner"] == home.owner and row["id"] in home.names]
        for root in dict.fromkeys(row["root"] for row in mine):
            tree = {"owner": home.owner, "root": root}
            left = await source.ask("POST", "/fleet/responses/leave", tree)
            arriving = {"file": left["file"], "sessions": left["sessions"]}
            await to.ask("POST", "/fleet/responses/arrive", {**arriving, "at": source.url, "journal": source.journal})
            with contextlib.suppress(Broken, Refused):
                await source.ask("POST", "/fleet/responses/left", {**tree, "journal": to.journal})

    # -------------------------------------------------------------------------------------------------------- reviving

    async def revive(self, home: Home) -> None:
        """Its replica is dead. With its lock held."""
        if home.replica.alive:
            return  # somebody was faster
        if home.remembers_nothing:
            self._homes.relocate(home, await self.place())
            return
        names = sorted(home.names)
        for name in names:
            if (there := (await self._whereabouts(home.owner, home.kind, name))[0]) is not None:
                self._homes.relocate(home, there)
                return
        to = await self._heir(home.replica)
        found = False
        for name in names:
            path = "sessions" if home.kind == "session" else "responses"
            try:
                await to.ask("POST", f"/fleet/{path}/revive", {"owner": home.owner, "id": name})
                found = True
            except Refused as error:
                log.warning("a %s of replica %s is lost: %s", home.kind, home.replica.name, error)
        self._homes.relocate(home, to)
        if found:
            self.moves["revived"] += 1

    async def find(self, owner: str, kind: Literal["session", "response"], name: str) -> Home | None:
        """One that the table does not know: some replica has it, or some journal."""
        async with self._finding:
            if (home := self._homes.get(owner, kind, name)) is not None:
                return home
            until = time.monotonic() + SILENT_SECONDS
            while True:
                replica, silent = await self._whereabouts(owner, kind, name)
                if replica is not None:
                    return self._homes.settle(owner, kind, name, replica)
                # One that is silent may have it: it must not be taken up a second time until that one is dead.
                if not silent:
                    break
                if time.monotonic() > until:
                    message = "a replica that may keep this conversation does not answer"
                    raise unavailable(message, "no_replica", retry_after=10.0)
                await self._replicas.change(1.0)
            # Of those that see one journal, one is enough to look into it: the one with least to do.
            replicas = sorted(self._replicas.serving(), key=self._homes.recent, reverse=True)
            journals = {one.journal: one for one in replicas if one.journal}
            path = "sessions" if kind == "session" else "responses"
            for replica in journals.values():
                try:
                    await replica.ask("POST", f"/fleet/{path}/revive", {"owner": owner, "id": name})
                except (Refused, Broken) as error:
                    if not (isinstance(error, Refused) and error.status == 404):
                        log.warning("a %s that is in a journal cannot be taken up: %s", kind, error)
                    continue
                self.moves["revived"] += 1
                return self._homes.settle(owner, kind, name, replica)
        return None

    async def _whereabouts(self, owner: str, kind: Kind, name: str) -> tuple[Replica | None, bool]:
        """Who has it, and whether somebody who lives did not say."""
        asked = {"owner": owner, "kind": kind, "name": name}
        replicas = sorted((one for one in self._replicas.all() if one.alive), key=self._homes.recent)
        answers = await asyncio.gather(
            *(replica.ask("POST", "/fleet/has", asked, 10.0) for replica in replicas), return_exceptions=True
        )
        told = list(zip(replicas, answers, strict=True))
        has = [replica for replica, answer in told if isinstance(answer, dict) and answer["has"]]
        silent = any(isinstance(answer, Broken) and replica.alive for replica, answer in told)
        return (has[0] if has else None), silent

    async def _heir(self, dead: Replica) -> Replica:
        """Who sees its journal: others on its machine, or it itself when it is started again. Without a journal its
        conversations are lost, and anybody may say so."""
        until = time.monotonic() + HEIR_SECONDS
        while dead.journal is not None:
            if heirs := [one for one in self._replicas.serving() if one.journal == dead.journal]:
                return least_loaded(heirs, self._homes.recent)
            if time.monotonic() > until:
                message = "the replica that keeps this conversation is gone, and nobody else sees its journal"
                raise unavailable(message, "no_replica", retry_after=30.0)
            await self._replicas.change(1.0)
        return await self.place()

    async def place(self, seconds: float = 60.0, broke: Set[Replica] = frozenset()) -> Replica:
        """The one with least to do, as soon as there is one; not one of those that `broke`, if there are others."""
        until = time.monotonic() + seconds
        while not (serving := self._replicas.serving()):
            left = until - time.monotonic()
            if left <= 0 or not self._replicas.all():
                raise unavailable("no replica is ready", "loading", retry_after=10.0)
            await self._replicas.change(min(left, 1.0))
        return least_loaded([one for one in serving if one not in broke] or serving, self._homes.recent)

    # -------------------------------------------------------------------------------------------- draining, rebalancing

    async def drain(self, replica: Replica) -> int:
        """Move everything away; how much it was. The replica gets nothing new meanwhile and afterwards."""
        replica.kept_back, replica.stage = True, "draining" if replica.alive else replica.stage
        if not self._replicas.serving():
            raise ApiError(409, "there is no other replica to move its sessions to", code="no_other_replica")
        moved = 0
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(home: Home) -> bool:
            async with gate:
                return await self.move(home, await self.place(), "drained")

        for _ in range(3):  # what was just being opened comes last
            homes = self._homes.of(replica)
            if not homes:
                break
            moved += sum(await asyncio.gather(*map(one, homes)))
        return moved

    async def balance(self) -> int:
        """Looked at once a second: move some of a hot replica's sessions to an idle neighbour."""
        serving = self._replicas.serving()
        if len(serving) < 2:
            return 0
        hot, cool = max(serving, key=lambda one: one.load), min(serving, key=lambda one: one.load)
        pair = (hot.name, cool.name)
        if hot.load < HOT * cool.load + MORE:
            self._hot.clear()
            return 0
        self._hot[pair] += 1
        if self._hot[pair] < SUSTAINED:
            return 0
        now = time.monotonic()
        homes = [home for home in self._homes.of(hot, ("session",)) if now - home.moved > REST_SECONDS]
        recent = [home for home in homes if now - home.used < RECENT_SECONDS]
        recent.sort(key=lambda home: len(home.visits))  # those at rest first
        count = max(1, int((hot.load - cool.load) / 2))
        moved = 0
        for home in recent[:count]:
            moved += await self.move(home, cool, "rebalanced")
        self._hot.clear()
        if moved:
            log.info("%d sessions moved from replica %s to %s", moved, hot.name, cool.name)
        return moved
