"""What is played next: tasks that are neither solved nor hopeless.

A group teaches something only if some of its episodes succeed and some fail. So every task has a running estimate of
its success, and those within the band are drawn many times as often as the rest; the rest is still drawn now and then,
because a policy that learns moves tasks across the edges. A task nobody has tried counts as within.

Draw number n depends on the run's seed, on n, and on the estimates at that moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holotron.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Drawn:
    """One group to play."""

    number: int
    name: str
    seed: int


@dataclass(slots=True)
class Estimate:
    """Success of a task over about the last `memory` episodes: older ones fade."""

    tries: float = 0.0
    wins: float = 0.0

    @property
    def rate(self) -> float | None:
        return self.wins / self.tries if self.tries else None

    def note(self, wins: int, tries: int, memory: int) -> None:
        fade = max(0.0, 1.0 - tries / memory)
        self.tries = fade * self.tries + tries
        self.wins = fade * self.wins + wins


class TaskSampler:
    def __init__(
        self,
        names: Sequence[str],
        seeds: range,
        *,
        band: tuple[float, float] = (0.1, 0.9),
        outside: float = 0.05,
        memory: int = 64,
        seed: int = 0,
    ) -> None:
        if not names:
            raise ConfigError("there are no tasks to play")
        self._seeds = seeds
        self._band = band
        self._outside = outside
        self._memory = memory
        self._seed = seed
        self._number = 0
        self._again: list[Drawn] = []
        self.estimates = {name: Estimate() for name in names}

    def draw(self) -> Drawn:
        if self._again:
            return self._again.pop(0)
        rng = np.random.default_rng([self._seed, 10, self._number])
        weights = np.asarray([self._weight(estimate) for estimate in self.estimates.values()])
        if not weights.sum():  # everything is outside, and outside counts for nothing
            weights[:] = 1.0
        name = list(self.estimates)[int(rng.choice(len(weights), p=weights / weights.sum()))]
        drawn = Drawn(self._number, name, self._seeds[int(rng.integers(len(self._seeds)))])
        self._number += 1
        return drawn

    def again(self, drawn: Sequence[Drawn]) -> None:
        """Groups that came to nothing: they are the next to be drawn."""
        self._again = sorted([*drawn, *self._again], key=lambda one: one.number)

    def note(self, name: str, wins: int, tries: int) -> None:
        """What came of a group."""
        if tries:
            self.estimates[name].note(wins, tries, self._memory)

    def inside(self, name: str) -> bool:
        rate = self.estimates[name].rate
        return rate is None or self._band[0] <= rate <= self._band[1]

    def _weight(self, estimate: Estimate) -> float:
        rate = estimate.rate
        return 1.0 if rate is None or self._band[0] <= rate <= self._band[1] else self._outside

    # ------------------------------------------------------------------------------------------------------ resuming

    def state(self, unfinished: Sequence[Drawn] = ()) -> dict[str, Any]:
        """As JSON. `unfinished`: groups whose outcome will be lost with the process; they are played again first."""
        pending = [*unfinished, *self._again]
        return {
            "number": self._number,
            "again": [[drawn.number, drawn.name, drawn.seed] for drawn in sorted(pending, key=lambda d: d.number)],
            "estimates": {name: [e.tries, e.wins] for name, e in self.estimates.items()},
        }

    def load(self, state: dict[str, Any]) -> None:
        self._number = int(state["number"])
        self._again = [Drawn(int(n), str(name), int(seed)) for n, name, seed in state["again"]]
        for name, (tries, wins) in state["estimates"].items():
            self.estimates[name] = Estimate(float(tries), float(wins))
