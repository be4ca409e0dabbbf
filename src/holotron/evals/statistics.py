"""Success rates with honest error bars."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from holotron.types import Outcome

Z95 = 1.959963984540054


def wilson(successes: int, trials: int, z: float = Z95) -> tuple[float, float]:
    """The Wilson score interval: sensible for few trials and at 0 % and 100 %, where the textbook one is not."""
    if trials == 0:
        return 0.0, 1.0
    rate = successes / trials
    centre = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials)) / (1 + z * z / trials)
    return max(0.0, min(centre - half, rate)), min(1.0, max(centre + half, rate))  # rounding must not exclude the rate


@dataclass(frozen=True, slots=True)
class TaskScore:
    """One task's episodes. Those that the environment spoiled or that nobody can score are counted, but not rated."""

    task: str
    episodes: int
    scored: int
    successes: int
    success: float | None  # rate over scored episodes; None when there are none
    low: float  # 95 % interval
    high: float
    environment_errors: int
    policy_errors: int
    unscored: int
    mean_steps: float
    mean_seconds: float


def score(task: str, rows: Iterable[Mapping[str, Any]]) -> TaskScore:
    """Score the episode rows of one task (or of any group)."""
    rows = list(rows)
    outcomes = [row["outcome"] for row in rows]
    spoiled = outcomes.count(Outcome.ENVIRONMENT_ERROR)
    unscored = outcomes.count(Outcome.UNSCORED)
    scored = len(rows) - spoiled - unscored
    successes = outcomes.count(Outcome.SUCCESS)
    low, high = wilson(successes, scored)
    count = max(len(rows), 1)
    return TaskScore(
        task=task,
        episodes=len(rows),
        scored=scored,
        successes=successes,
        success=successes / scored if scored else None,
        low=low,
        high=high,
        environment_errors=spoiled,
        policy_errors=outcomes.count(Outcome.POLICY_ERROR),
        unscored=unscored,
        mean_steps=sum(row["steps"] for row in rows) / count,
        mean_seconds=sum(row["seconds"] for row in rows) / count,
    )


@dataclass(frozen=True, slots=True)
class Scoreboard:
    """`mean_success` is the mean over tasks, so that no task counts for more; `overall` pools all episodes."""

    mean_success: float | None
    overall: TaskScore
    tasks: tuple[TaskScore, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def scoreboard(rows: Iterable[Mapping[str, Any]]) -> Scoreboard:
    rows = list(rows)
    by_task: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_task.setdefault(row["task"], []).append(row)
    tasks = tuple(score(task, group) for task, group in sorted(by_task.items()))
    rates = [item.success for item in tasks if item.success is not None]
    mean = sum(rates) / len(rates) if rates else None
    return Scoreboard(mean, score("all", rows), tasks)
