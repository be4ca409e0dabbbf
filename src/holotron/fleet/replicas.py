"""The replicas as the router sees them: where each is, how far in its life, how much it has to do."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

from holotron.addresses import in_url
from holotron.fleet.upstream import LAST_WORDS_SECONDS, Broken, Headers, Refused, Upstream

log = logging.getLogger("holotron.fleet")

# behind: its weights are not the newest; other: it serves something else than most of the fleet.
Stage = Literal["starting", "ready", "behind", "other", "draining", "dead"]

STATUS_SECONDS = 1.0
LOOK_SECONDS = 10.0
QUIET_SECONDS = 5.0  # without an answer, after which a replica is given nothing new, if there is another
DEAF_SECONDS = 30.0  # and after which one that still lives is taken for dead
SMOOTHING = 0.3


class Replica:
    """One life of one replica: who is started again is another one, of the same name."""

    def __init__(self, name: str, host: str, port: int, key: str, *, kill: Callable[[], None] | None = None) -> None:
        """`kill`: ends its process, if it is ours to end."""
        self.name = name
        self.url = f"http://{in_url(host)}:{port}"
        self.stage: Stage = "starting"
        self.upstream = Upstream(host, port)
        self.in_flight = 0
        self.load = 0.0  # the same, smoothed
        self.told: dict[str, Any] = {}  # its last status
        self.heard = time.monotonic()  # when that was
        self.kept_back = False  # it is to stay empty until somebody says otherwise
        self.served = False  # it got as far as that
        self.died = asyncio.Event()
        self.problem: str | None = None  # why it is dead, if its own last words do not say
        self._kill = kill
        self._key = (b"authorization", f"Bearer {key}".encode())

    @property
    def alive(self) -> bool:
        return self.stage in ("ready", "behind", "other", "draining")

    @property
    def quiet(self) -> bool:
        """It may be very busy, or hang."""
        return time.monotonic() - self.heard > QUIET_SECONDS

    @property
    def journal(self) -> str | None:
        return self.told.get("journal")

    @property
    def serves(self) -> tuple[str, str]:
        """Which model, and which weights it began with."""
        return str(self.told.get("model")), str(self.told.get("weights"))

    @property
    def version(self) -> int:
        return int(self.told.get("version", 0))

    async def ask(self, method: str, target: str, body: Any = None, seconds: float = 60.0) -> Any:
        """Something of the router's own, with the fleet's key."""
        return await self.upstream.json(method, target, body, headers=[self._key], seconds=seconds)

    def headers(self, owner: str, turn: str, reply: str) -> Headers:
        """Of a client's request."""
        return [
            self._key,
            (b"x-fleet-owner", owner.encode()),
            (b"x-fleet-turn", turn.encode("latin-1", "replace")),
            (b"x-fleet-reply", reply.encode()),
        ]

    async def look(self) -> None:
        """Find out how it is."""
        try:
            told = await self.ask("GET", "/fleet/status", seconds=LOOK_SECONDS)
            if not isinstance(told, dict) or "stage" not in told:
                raise Refused(200, "what it says of itself is nothing that a replica would say")
        except Refused as error:
            self.dead(f"at {self.url} is no replica with this fleet's key: {error}")
            return
        except Broken:
            if self.stage == "starting":
                return
            if not await self._listens():
                self.dead()
            elif time.monotonic() - self.heard > DEAF_SECONDS:
                self.dead(f"it did not answer for {DEAF_SECONDS:g} s")
            return
        self.told, self.heard = told, time.monotonic()
        self.load += SMOOTHING * (self.in_flight - self.load)
        if self.stage == "dead":
            return
        if told["stage"] == "failed":
            self.dead()
        elif told["stage"] == "draining" or self.kept_back:
            self.stage = "draining"
        elif told["stage"] == "ready" and self.stage in ("starting", "draining"):
            self.stage = "behind"  # until somebody has looked at its weights
            self.served = True

    async def _listens(self) -> bool:
        """A busy server may be slow to answer; a dead one refuses the connection."""
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(self.upstream.host, self.upstream.port), 5)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    async def suspect(self) -> None:
        """A connection to it broke: is it still there?"""
        if self.stage != "dead" and not await self._listens():
            self.dead()

    def dead(self, problem: str | None = None) -> None:
        if self.stage != "dead":
            if self.served:
                log.warning("replica %s is gone", self.name)
            self.stage, self.problem = "dead", problem
            self.upstream.close()
            if self._kill is not None:
                self._kill()  # should it only be deaf: two that think they have a session are worse
            self.died.set()
            asyncio.get_running_loop().call_later(LAST_WORDS_SECONDS, self.upstream.cut)


class Replicas:
    """All of them, and a bell that rings when something about them changes."""

    def __init__(self) -> None:
        self._by_name: dict[str, Replica] = {}
        self._changed = asyncio.Event()
        self.version = 0  # of the weights, that all should have

    def put(self, replica: Replica) -> None:
        self._by_name[replica.name] = replica
        self.ring()

    def all(self) -> list[Replica]:
        return list(self._by_name.values())

    def get(self, name: str) -> Replica | None:
        return self._by_name.get(name)

    def serving(self) -> list[Replica]:
        """Those that may be given something new."""
        ready = [replica for replica in self._by_name.values() if replica.stage == "ready"]
        return [replica for replica in ready if not replica.quiet] or ready

    def prevailing(self) -> tuple[str, str] | None:
        """What most of those serve that are not about to end; of two as frequent ones that which is served now."""
        staying = [one for one in self._by_name.values() if one.alive and one.stage != "draining"]
        served = Counter(one.serves for one in staying if one.stage == "ready")
        ranked = Counter(one.serves for one in staying)
        return max(ranked, key=lambda what: (ranked[what], served[what]), default=None)

    def ring(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self, seconds: float) -> None:
        """Wait for one."""
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return

    def total(self, field: str) -> int:
        return sum(int(replica.told.get(field, 0)) for replica in self._by_name.values() if replica.alive)


def least_loaded(replicas: Sequence[Replica], sessions: Callable[[Replica], int]) -> Replica:
    """`sessions`: how many conversations of late belong to one."""
    return min(replicas, key=lambda replica: (sessions(replica) + replica.in_flight, replica.in_flight, replica.load))
