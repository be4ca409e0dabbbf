"""What the trainer and players in other processes say to each other; see `spread`."""

from __future__ import annotations

from dataclasses import dataclass

from holotron.engine import Result
from holotron.model.processor import Prompt
from holotron.rollouts.processes import Opener
from holotron.training.rl.counts import Counts
from holotron.training.rl.desk import Members
from holotron.training.rl.rollouts import Score
from holotron.training.rl.tasks import Drawn
from holotron.types import Task, Trajectory

# -------------------------------------------------------------------------------------------- to a player, and `Drawn`


@dataclass(frozen=True, slots=True)
class Weights:
    """Take these. It says `Updated`."""

    update: int
    tensors: Opener


@dataclass(frozen=True, slots=True)
class Ask:
    """Continue this prompt. It says `Said`."""

    number: int
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class Judge:
    """Play these greedily. It says `Judged`."""

    number: int
    tasks: tuple[Task, ...]


# ------------------------------------------------------------------------------------------------------ from a player


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine stands. It gets `Weights`, and begins."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Another group, please. It gets `Drawn`."""


@dataclass(frozen=True, slots=True)
class Updated:
    update: int


@dataclass(frozen=True, slots=True)
class Played:
    """A group, what was counted since the last one, and how long its engine has worked so far."""

    drawn: Drawn
    members: Members
    counts: Counts
    busy: float


@dataclass(frozen=True, slots=True)
class Recorded:
    """An episode for those who look on."""

    trajectory: Trajectory
    drawn: Drawn


@dataclass(frozen=True, slots=True)
class Said:
    number: int
    result: Result | None


@dataclass(frozen=True, slots=True)
class Judged:
    number: int
    scores: dict[str, list[Score]]


@dataclass(frozen=True, slots=True)
class Failed:
    """It cannot go on, and neither could another."""

    error: Exception
