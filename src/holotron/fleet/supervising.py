"""Replicas that live: started, watched, started again with growing pauses; given up when they fail again and again.

One task per replica. Its stages are in `replicas.Replica`; the router looks at these alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

from holotron.errors import HolotronError
from holotron.fleet.launching import Launcher, Running, StartFailed
from holotron.fleet.replicas import STATUS_SECONDS, Replica, Replicas

log = logging.getLogger("holotron.fleet")

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 60.0
MOST_FAILURES = 5  # starts in a row that did not get as far as serving
HEALTHY_SECONDS = 60.0  # a life longer than this begins with the shortest pause again


class Supervisor:
    def __init__(
        self,
        launcher: Launcher,
        replicas: Replicas,
        key: str,
        *,
        on_status: Callable[[Replica], Awaitable[None]],
        on_death: Callable[[Replica], None],
    ) -> None:
        """`on_status`: after each look at one, and before it may serve."""
        self._launcher, self._replicas, self._key = launcher, replicas, key
        self._on_status, self._on_death = on_status, on_death
        self.restarts = 0
        self.given_up: dict[str, str] = {}  # and why
        self._running: dict[str, Running] = {}
        self._stopping: set[str] = set()  # to be started again in order

    async def keep(self, n: int) -> None:
        """The n-th replica, for as long as there is hope for it."""
        name, short_lives, failures, before = str(n), 0, 0, ""
        while True:
            started, served = time.monotonic(), False
            try:
                running = await self._launcher.start(n)
            except StartFailed as error:
                said, hopeless = str(error), error.hopeless
            else:
                self._running[name] = running
                said, served = await self._watch(name, running)
                hopeless = running.hopeless
            if name in self._stopping:
                self._stopping.discard(name)
                continue
            failures = 0 if served else failures + 1
            short_lives = 0 if time.monotonic() - started > HEALTHY_SECONDS else short_lives + 1
            if self._launcher.ours and (hopeless or failures >= MOST_FAILURES):
                self.given_up[name] = said
                log.error("replica %s is given up: it did not start %d times in a row; %s", name, failures, said)
                self._replicas.ring()
                return
            longest = LONGEST_PAUSE if self._launcher.ours else STATUS_SECONDS
            pause = min(longest, FIRST_PAUSE * 2 ** min(short_lives, 10))
            if self._launcher.ours:
                log.warning("replica %s: %s; it is started again in %g s", name, said, pause)
            elif said != before:
                log.warning("replica %s: %s; it is looked for every second", name, said)
            before = said
            self.restarts += 1
            await asyncio.sleep(pause)

    async def _watch(self, name: str, running: Running) -> tuple[str, bool]:
        """From its start to its end: what it said last, and whether it ever served."""
        replica = Replica(name, running.host, running.port, self._key, kill=running.kill)
        self._replicas.put(replica)
        looking = asyncio.ensure_future(self._look(replica))
        ended = asyncio.ensure_future(running.ended())
        died = asyncio.ensure_future(replica.died.wait())
        try:
            await asyncio.wait({ended, died}, return_when=asyncio.FIRST_COMPLETED)
            replica.dead()
            self._on_death(replica)
            said = await ended
            return replica.problem or said, replica.served
        finally:  # when the whole fleet ends, too: then it is stopped in order
            for task in (looking, died, ended):
                task.cancel()
            replica.stage = "dead"
            self._replicas.ring()

    async def _look(self, replica: Replica) -> None:
        while True:
            before = replica.stage
            try:
                await replica.look()
                await self._on_status(replica)
            except Exception:
                log.exception("looking at replica %s failed", replica.name)
            if replica.stage != before:
                self._replicas.ring()
            await asyncio.sleep(STATUS_SECONDS if replica.stage != "starting" else 0.1)

    async def restart(self, name: str) -> None:
        """In order; whoever calls has moved its sessions away."""
        running = self._running.get(name)
        if running is not None:
            self._stopping.add(name)
            await running.stop()

    async def stop(self) -> None:
        with contextlib.suppress(Exception):
            await asyncio.gather(*(running.stop() for running in self._running.values()))
        await self._launcher.close()

    def problem(self, count: int) -> HolotronError | None:
        """None of them is left: why, and what to do."""
        if len(self.given_up) < count:
            return None
        said = "; ".join(f"replica {name}: {why}" for name, why in sorted(self.given_up.items()))
        return HolotronError(
            f"no replica could be kept alive. {said}. Start one alone to see what is wrong (the same command without "
            "--replicas); if memory is short, take fewer replicas, --sessions or --context"
        )
