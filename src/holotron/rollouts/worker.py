"""One worker: plays the episodes it is assigned, one at a time, each in an environment leased for it.

A worker listens to its inbox also while it plays, so that an episode can be cut. It reports every episode it was given,
with whatever came of it; the one exception is `Stop`, after which nobody is waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from holotron.agent.events import Acted, Event, Listener, Refused
from holotron.agent.loop import Episode, Limits
from holotron.agent.policies.base import Policy
from holotron.envs.base import Environment, EnvironmentPool
from holotron.errors import ConfigError, EnvironmentFault, MissingDependency
from holotron.rollouts.messages import Assignment, Cut, Finished, FromWorker, Misconfigured, Stepped, Stop, ToWorker
from holotron.types import Outcome, Trajectory

log = logging.getLogger(__name__)


class Worker:
    def __init__(
        self,
        name: str,
        inbox: asyncio.Queue[ToWorker],
        outbox: asyncio.Queue[FromWorker],
        pool: EnvironmentPool[Any],
        policy: Policy,
        limits: Limits,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.name = name
        self._inbox = inbox
        self._outbox = outbox
        self._pool = pool
        self._policy = policy
        self._limits = limits
        self._listeners = listeners
        self._playing: asyncio.Task[None] | None = None
        self._cuttable: str | None = None  # the episode that can be broken off just now
        self._cut: Cut | None = None
        self._episode: Episode | None = None

    async def run(self) -> None:
        try:
            while not isinstance(message := await self._inbox.get(), Stop):
                if isinstance(message, Assignment):
                    self._cuttable, self._cut, self._episode = message.episode, None, None
                    self._playing = asyncio.create_task(self._play(message))
                elif self._playing is not None and message.episode == self._cuttable:
                    self._cut, self._cuttable = message, None
                    self._playing.cancel()
        finally:
            if self._playing is not None:
                self._playing.cancel()
                await asyncio.wait({self._playing})

    async def _play(self, assignment: Assignment) -> None:
        environment: Environment | None = None
        broken = True
        try:
            environment = await self._pool.acquire()
            trajectory = await self._run(environment, assignment)
            broken = trajectory.outcome is Outcome.ENVIRONMENT_ERROR
            report: FromWorker = Finished(self.name, trajectory)
        except EnvironmentFault as fault:
            report = Finished(self.name, _unplayed(assignment, Outcome.ENVIRONMENT_ERROR, str(fault)))
        except (ConfigError, MissingDependency) as error:
            report = Misconfigured(self.name, error)
        except asyncio.CancelledError:
            if self._cut is None:
                raise
            report = Finished(self.name, self._broken_off(assignment, self._cut))
        finally:
            self._cuttable = None  # from here on the report is on its way
            if environment is not None:
                await self._release(environment, broken)
        self._outbox.put_nowait(report)

    async def _run(self, environment: Environment, assignment: Assignment) -> Trajectory:
        self._episode = Episode(
            environment,
            self._policy,
            assignment.task,
            id=assignment.episode,
            attempt=assignment.attempt,
            limits=self._limits,
            listeners=(self._told, *self._listeners),
        )
        return await self._episode.run()

    def _told(self, episode: str, event: Event) -> None:
        if isinstance(event, Acted | Refused):
            self._outbox.put_nowait(Stepped(self.name, episode))

    def _broken_off(self, assignment: Assignment, cut: Cut) -> Trajectory:
        if self._episode is None:  # still waiting for an environment
            return _unplayed(assignment, cut.outcome, cut.reason)
        return self._episode.end(cut.outcome, cut.reason)

    async def _release(self, environment: Environment, broken: bool) -> None:
        try:
            await self._pool.release(environment, broken=broken)
        except Exception:
            log.exception("giving an environment back failed")


def _unplayed(assignment: Assignment, outcome: Outcome, error: str) -> Trajectory:
    return Trajectory(assignment.episode, assignment.task, (), outcome, error=error, attempt=assignment.attempt)
