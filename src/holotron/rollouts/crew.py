"""Who plays: a crew of workers that come and go.

The coordinator hands episodes to whoever has joined, and takes back what those held who left. A crew may live in the
coordinator's own event loop (`LoopCrew`) or be spread over processes and machines (`spread.ProcessCrew`), where each
process has a `LoopCrew` of its own.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from holotron.agent.events import Listener
from holotron.agent.loop import Limits
from holotron.agent.policies.base import Policy
from holotron.agent.steered import Steer
from holotron.envs.base import EnvironmentPool
from holotron.rollouts.messages import FromWorker, Joined, Stop, ToWorker
from holotron.rollouts.store import RunMark
from holotron.rollouts.worker import Worker

BREAK_OFF_SECONDS = 30.0

Reports = asyncio.Queue[FromWorker]


class Crew(Protocol):
    async def open(self, reports: Reports, sessions: int, mark: RunMark | None = None) -> None:
        """Begin to bring up so many workers. Each says `Joined` when it can play, and all they say goes to `reports`.
        `mark`: the run they play for. Who sees its folder may put pictures there."""

    def tell(self, worker: str, message: ToWorker) -> None: ...

    def replace(self, worker: str) -> None:
        """It does not even break off when told to: forget it, and let another one join."""

    async def close(self) -> None:
        """Break off whatever is going on, and leave nothing running."""


@dataclass(slots=True)
class _Hand:
    inbox: asyncio.Queue[ToWorker]
    task: asyncio.Task[None]


class LoopCrew:
    """Workers as tasks of this event loop."""

    def __init__(
        self,
        pool: EnvironmentPool[Any],
        policy: Policy,
        limits: Limits,
        listeners: Sequence[Listener] = (),
        steer: Steer | None = None,
    ) -> None:
        self._pool = pool
        self._policy = policy
        self._limits = limits
        self._listeners = listeners
        self._steer = steer
        self._names = (f"worker-{number}" for number in itertools.count())
        self._hands: dict[str, _Hand] = {}
        self._reports: Reports | None = None

    async def open(self, reports: Reports, sessions: int, mark: RunMark | None = None) -> None:
        self._reports = reports
        for _ in range(sessions):
            self._hire(reports)

    def tell(self, worker: str, message: ToWorker) -> None:
        self._hands[worker].inbox.put_nowait(message)

    def replace(self, worker: str) -> None:
        assert self._reports is not None
        self._hands.pop(worker).task.cancel()
        self._hire(self._reports)

    def _hire(self, reports: Reports) -> None:
        name, inbox = next(self._names), asyncio.Queue[ToWorker]()
        worker = Worker(name, inbox, reports, self._pool, self._policy, self._limits, self._listeners, self._steer)
        self._hands[name] = _Hand(inbox, asyncio.create_task(worker.run()))
        reports.put_nowait(Joined(name))

    async def close(self) -> None:
        for hand in self._hands.values():
            hand.inbox.put_nowait(Stop())
        if tasks := [hand.task for hand in self._hands.values()]:
            _, stuck = await asyncio.wait(tasks, timeout=BREAK_OFF_SECONDS)
            for task in stuck:
                task.cancel()
