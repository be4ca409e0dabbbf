"""The rules of playing many episodes, whoever plays them: a run that ends (`runner`) or one that never does
(`training.rl.rollouts`).

* What the environment spoiled is tried again, a little later each time; what the agent got wrong is its result.
* When nothing but errors comes in (the server is down, the browser cannot start), playing stops.
* When only the last episodes are still running, those that take much longer than the others did are cut.
* An environment in which something broke, or an episode was cut, is thrown away; see `seat`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holotron.errors import EnvironmentFault, HolotronError, PolicyError
from holotron.rollouts.messages import Assignment
from holotron.types import Outcome, Trajectory

ERRORS = (Outcome.ENVIRONMENT_ERROR, Outcome.POLICY_ERROR)  # they say nothing about the agent


@dataclass(frozen=True, slots=True)
class Attempts:
    """How often an episode is tried that the environment spoils."""

    most: int = 3
    backoff: float = 0.5  # seconds before the second; twice as long before the third, and so on

    def again_after(self, attempt: int) -> float | None:
        """Attempt number `attempt`, from 0, was spoiled: seconds until the next one; None when they are used up."""
        return self.backoff * (attempt + 1) if attempt + 1 < self.most else None


class ErrorStreak:
    """Errors in a row. `limit` of them, and nothing that works between them, end a run."""

    def __init__(self, limit: int, advice: str = "") -> None:
        self._limit = limit
        self._advice = f" {advice}" if advice else ""  # what a person can do when it has ended
        self.length = 0
        self.last = ""

    @staticmethod
    def usual_limit(sessions: int) -> int:
        return max(12, 3 * sessions)

    def add(self, trajectory: Trajectory) -> None:
        self.length += 1
        self.last = trajectory.error
        if self.length >= self._limit:
            kind: type[HolotronError] = PolicyError
            if trajectory.outcome is Outcome.ENVIRONMENT_ERROR:
                kind = EnvironmentFault
            last = self.last if self.last.endswith((".", "?", "!")) else f"{self.last}."
            raise kind(f"stopped after {self.length} errors in a row; the last: {last}{self._advice}")

    def clear(self) -> None:
        """Something went right."""
        self.length = 0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the last episodes may take: so many times what nearly all of the others took."""

    factor: float
    share: float = 1.0  # of the others, the quickest
    known: int = 1  # episodes that must have ended before anything is cut
    shortest: float = 0.0  # seconds that everybody gets: quick episodes are not cut for a hiccup

    def limit(self, seconds: Sequence[float]) -> float | None:
        """`seconds`: of the episodes that came to an end of their own. None: cut nobody yet."""
        if len(seconds) < self.known:
            return None
        usual = sorted(seconds)[min(int(len(seconds) * self.share), len(seconds) - 1)]
        return max(self.factor * usual, self.shortest)


def unplayed(assignment: Assignment, outcome: Outcome, error: str) -> Trajectory:
    """What is said of an episode that never began."""
    return Trajectory(assignment.episode, assignment.task, (), outcome, error=error, attempt=assignment.attempt)
