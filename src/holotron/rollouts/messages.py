"""What the coordinator and its workers say to each other.

Workers are tasks of the coordinator's own event loop and their boxes are `asyncio.Queue`s: one process plays them all.
"""

from __future__ import annotations

from dataclasses import dataclass

from holotron.types import Outcome, Task, Trajectory

# ------------------------------------------------------------------------------------------------------ to a worker


@dataclass(frozen=True, slots=True)
class Assignment:
    """Play this episode."""

    episode: str
    task: Task
    attempt: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Break this episode off and report it with this outcome. Void if it has ended meanwhile."""

    episode: str
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Break off whatever is going on and go home."""


# ---------------------------------------------------------------------------------------------------- from a worker


@dataclass(frozen=True, slots=True)
class Stepped:
    """A sign of life: one more step was made."""

    worker: str
    episode: str


@dataclass(frozen=True, slots=True)
class Finished:
    """An episode has ended, one way or another."""

    worker: str
    trajectory: Trajectory


@dataclass(frozen=True, slots=True)
class Misconfigured:
    """No episode can work with this set-up; the run has to end."""

    worker: str
    error: Exception


ToWorker = Assignment | Cut | Stop
FromWorker = Stepped | Finished | Misconfigured
