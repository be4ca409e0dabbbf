"""How a run is doing, in numbers that a terminal can show at any moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holotron.rollouts.records import NO_VERDICT
from holotron.types import Outcome


@dataclass(frozen=True, slots=True)
class Progress:
    total: int
    resumed: int  # of the episodes on record, how many an earlier process left us
    running: int
    outcomes: Mapping[Outcome, int]  # of everything on record
    retries: int
    steps: int  # made by this process
    seconds: float  # since this process began
    failing: str = ""  # the last error, while nothing but errors comes in

    @property
    def done(self) -> int:
        return sum(self.outcomes.values())

    @property
    def successes(self) -> int:
        return self.outcomes.get(Outcome.SUCCESS, 0)

    @property
    def environment_errors(self) -> int:
        return self.outcomes.get(Outcome.ENVIRONMENT_ERROR, 0)

    @property
    def scored(self) -> int:
        """Episodes that count: not those in which something broke, not those that nobody can score."""
        return sum(count for outcome, count in self.outcomes.items() if outcome not in NO_VERDICT)

    @property
    def steps_per_second(self) -> float:
        return self.steps / self.seconds if self.seconds > 0 else 0.0

    @property
    def episodes_per_second(self) -> float:
        return (self.done - self.resumed) / self.seconds if self.seconds > 0 else 0.0

    @property
    def remaining_seconds(self) -> float | None:
        """How long the rest will take at the rate so far; None before the first episode ends."""
        rate = self.episodes_per_second
        return (self.total - self.done) / rate if rate > 0 else None
