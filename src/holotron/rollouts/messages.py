"""What the coordinator and its workers say to each other.

Workers are tasks of the coordinator's own event loop, or of other processes on any machine (`crew`, `spread`); what
they say is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from holotron.storage.tables import Record
from holotron.types import Outcome, Task, Trajectory

# ------------------------------------------------------------------------------------------------------ to a worker


@dataclass(frozen=True, slots=True)
class Assignment:
    """Play this episode."""

    episode: str
    task: Task
    attempt: int
    lost: int = 0  # workers that went away while they played it


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
class Joined:
    """A new worker, ready to play."""

    worker: str


@dataclass(frozen=True, slots=True)
class Left:
    """A worker is gone: its process or its machine died, or fell silent. What it played is lost."""

    worker: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stepped:
    """A sign of life: one more step was made."""

    worker: str
    episode: str


@dataclass(frozen=True, slots=True)
class Standing:
    """A person holds the episode, or has let it go on: its time stands still meanwhile."""

    worker: str
    episode: str
    still: bool


@dataclass(frozen=True, slots=True)
class Finished:
    """An episode has ended, one way or another."""

    worker: str
    trajectory: Trajectory
    rows: Record | None = None  # as they go on record, where its pictures are in the run's folder already


@dataclass(frozen=True, slots=True)
class Misconfigured:
    """No episode can work with this set-up, or something is broken that every one would meet; the run has to end."""

    worker: str
    error: Exception


ToWorker = Assignment | Cut | Stop
FromWorker = Joined | Left | Stepped | Standing | Finished | Misconfigured
