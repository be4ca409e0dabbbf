"""One worker: plays the episodes it is assigned, one at a time, each in an environment leased for it.

A worker listens to its inbox also while it plays, so that an episode can be cut. It reports every episode it was given,
with whatever came of it; the one exception is `Stop`, after which nobody is waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from holotron.agent.events import Acted, Event, Listener, Refused, Steered
from holotron.agent.loop import Episode, Limits
from holotron.agent.policies.base import Policy
from holotron.agent.steered import Steer, episode_of
from holotron.envs.base import Environment, EnvironmentPool
from holotron.rollouts.messages import (
    Assignment,
    Cut,
    Finished,
    FromWorker,
    Misconfigured,
    Standing,
    Stepped,
    Stop,
    ToWorker,
)
from holotron.rollouts.seat import Seat


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
        steer: Steer | None = None,
    ) -> None:
        self.name = name
        self._inbox = inbox
        self._outbox = outbox
        self._policy = policy
        self._limits = limits
        self._listeners = listeners
        self._steer = steer
        self._seat = Seat(pool, keep=False)
        self._playing: asyncio.Task[None] | None = None
        self._cuttable: str | None = None  # the episode that can be broken off
        self._cut: Cut | None = None

    async def run(self) -> None:
        try:
            while not isinstance(message := await self._inbox.get(), Stop):
                if isinstance(message, Assignment):
                    self._cuttable, self._cut = message.episode, None
                    self._playing = asyncio.create_task(self._play(message))
                elif self._playing is not None and message.episode == self._cuttable and not self._seat.ending:
                    self._cut, self._cuttable = message, None
                    self._playing.cancel()
        finally:
            if self._playing is not None:
                self._playing.cancel()
                await asyncio.wait({self._playing})

    async def _play(self, assignment: Assignment) -> None:
        try:
            trajectory = await self._seat.play(assignment, lambda environment: self._episode(environment, assignment))
            report: FromWorker = Finished(self.name, trajectory)
        except asyncio.CancelledError:
            if self._cut is None:
                raise
            report = Finished(self.name, self._seat.cut(assignment, self._cut.outcome, self._cut.reason))
        except Exception as error:  # a wrong set-up, or a bug in whoever listens: every episode would meet it
            report = Misconfigured(self.name, error)
        self._outbox.put_nowait(report)

    def _episode(self, environment: Environment, assignment: Assignment) -> Episode:
        return episode_of(
            environment,
            self._policy,
            assignment.task,
            id=assignment.episode,
            attempt=assignment.attempt,
            limits=self._limits,
            listeners=(self._told, *self._listeners),
            steering=None if self._steer is None else self._steer(assignment.episode),
        )

    def _told(self, episode: str, event: Event) -> None:
        if isinstance(event, Acted | Refused):
            self._outbox.put_nowait(Stepped(self.name, episode))
        elif isinstance(event, Steered) and (still := _STILL.get(event.what)) is not None:
            self._outbox.put_nowait(Standing(self.name, episode, still))


_STILL = {"held": True, "took over": True, "released": False, "handed back": False}
