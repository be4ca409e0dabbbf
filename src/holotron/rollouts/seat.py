"""Where episodes are played: an environment from a pool, used again as long as nothing broke in it.

seat = Seat(pool, keep=True)
trajectory = await seat.play(assignment, lambda environment: Episode(environment, policy, task))
await seat.leave()
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from holotron.agent.loop import Episode
from holotron.envs.base import Environment, EnvironmentPool
from holotron.errors import ConfigError, EnvironmentFault, MissingDependency
from holotron.rollouts.messages import Assignment
from holotron.rollouts.rules import unplayed
from holotron.types import Outcome, Trajectory

log = logging.getLogger(__name__)


class Seat:
    def __init__(self, pool: EnvironmentPool[Any], *, keep: bool) -> None:
        """`keep`: hold on to the environment between episodes, so that the page of the next one may be open already;
        otherwise it goes back to the pool after each."""
        self._pool = pool
        self._keep = keep
        self._environment: Environment | None = None
        self._episode: Episode | None = None  # under way, or the last one
        self.ending = False  # it is over and the environment on its way back: too late to cut

    async def play(self, assignment: Assignment, make: Callable[[Environment], Episode]) -> Trajectory:
        """One episode. That the environment is at fault is an outcome; only a wrong set-up raises."""
        self._episode, self.ending = None, False
        broken = True  # also if this is cancelled: nobody knows what state it is left in
        try:
            if self._environment is None:
                self._environment = await self._acquired()
            self._episode = make(self._environment)
            trajectory = await self._episode.run()
            broken = trajectory.outcome is Outcome.ENVIRONMENT_ERROR
            return trajectory
        except EnvironmentFault as fault:
            return unplayed(assignment, Outcome.ENVIRONMENT_ERROR, str(fault))
        finally:
            self.ending = True
            if broken or not self._keep:
                await self.leave(broken=broken)

    async def _acquired(self) -> Environment:
        """What a pool raises is the environment's fault, as what it raises in an episode is."""
        try:
            environment: Environment = await self._pool.acquire()
            return environment
        except (EnvironmentFault, ConfigError, MissingDependency):
            raise
        except Exception as error:
            log.exception("the pool of environments raised an unexpected error")
            raise EnvironmentFault(f"{type(error).__name__}: {error}") from error

    def cut(self, assignment: Assignment, outcome: Outcome, reason: str) -> Trajectory:
        """What there is of an episode whose `play` was cancelled."""
        if self._episode is None:  # it was still waiting for an environment
            return unplayed(assignment, outcome, reason)
        return self._episode.end(outcome, reason)

    async def leave(self, *, broken: bool = False) -> None:
        environment, self._environment = self._environment, None
        if environment is None:
            return
        try:
            await self._pool.release(environment, broken=broken)
        except Exception:
            log.exception("giving an environment back failed")
