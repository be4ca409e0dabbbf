"""Success rates with honest error bars.

    board = scoreboard(RunReader(run).episodes())
    board.mean_success, board.low, board.high        # mean over tasks, 95 % interval clustered by task

**What counts.** An episode is a success, a failure, or nobody knows: the environment broke, the policy could not be
reached, nobody can judge the answer, a person had a hand in it. What nobody knows is never a failure. It is counted
apart, and `at_least` says what the rate would be if all of it had failed, so nothing can hide there.

**Which interval.** Episodes of one task go right and wrong together, so a hundred episodes of ten tasks say less about
tasks like these than a hundred of a hundred do. The interval of the mean takes that into account: it is Wilson's, with
as many episodes as independent ones would be worth and Student's t for the number of tasks. One task's own interval,
and that of all episodes pooled (`overall`: these very tasks, other seeds), is Wilson's plain one, or clustered by seed
where seeds were tried several times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from holotron.rollouts.records import NO_VERDICT
from holotron.types import Outcome

Z95 = 1.959963984540054


def verdict(row: Mapping[str, Any]) -> bool | None:
    """Whether the agent succeeded; None: nobody knows. Where a person helped, corrected or stopped it, nobody does."""
    return None if row["outcome"] in NO_VERDICT or row.get("assisted") else row["outcome"] == Outcome.SUCCESS


# ----------------------------------------------------------------------------------------------------------- intervals


def wilson(successes: float, trials: float, z: float = Z95) -> tuple[float, float]:
    """The Wilson score interval: sensible for few trials and at 0 % and 100 %, where the textbook one is not."""
    if trials == 0:
        return 0.0, 1.0
    rate = successes / trials
    centre = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials)) / (1 + z * z / trials)
    return max(0.0, min(centre - half, rate)), min(1.0, max(centre + half, rate))  # rounding must not exclude the rate


def clustered(rates: Sequence[float], trials: int) -> tuple[float, float]:
    """The 95 % interval of the mean of tasks' rates, which rest on `trials` independent episodes together.

    Wilson's, for n = p (1 - p) / variance of the mean: the number of independent episodes that would be as uncertain,
    never more than there were. Where all tasks are at 0 or at 1 that variance says nothing, and each task is worth one
    episode."""
    tasks = len(rates)
    if tasks < 2:
        return wilson(sum(rates) * trials, trials)
    mean = sum(rates) / tasks
    variance = sum((rate - mean) ** 2 for rate in rates) / (tasks - 1) / tasks
    if mean * (1 - mean) < 1e-12:
        return wilson(mean * tasks, tasks)
    worth = min(mean * (1 - mean) / variance, trials) if variance > 1e-15 else float(trials)
    return wilson(mean * worth, worth, t_quantile(tasks - 1))


def t_quantile(degrees: int) -> float:
    """Student's t: 95 % of the distribution lie between its negative and itself."""
    if degrees > 2000:
        return Z95
    low, high = 0.0, 20.0  # of 1 degree of freedom: 12.7
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_inside(middle, degrees) < 0.95 else (low, middle)
    return high


def _t_inside(t: float, degrees: int) -> float:
    """How much of Student's t lies between -t and t; for whole degrees of freedom a finite sum (Abramowitz and Stegun,
    26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = total = (cosine if degrees > 1 else 0.0) if odd else 1.0
    for k in range(2 + odd, degrees - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


# -------------------------------------------------------------------------------------------------------------- scores


@dataclass(frozen=True, slots=True)
class TaskScore:
    """One task's episodes. Those that nobody can rate are counted, by why, and not rated."""

    task: str
    episodes: int
    scored: int
    successes: int
    success: float | None  # rate over scored episodes; None when there are none
    low: float  # 95 % interval
    high: float
    environment_errors: int
    policy_errors: int  # the policy could not be asked: its server was down, it raised
    unscored: int
    mean_steps: float
    mean_seconds: float
    assisted: int = 0  # a person had a hand in them

    @property
    def at_least(self) -> float | None:
        """The rate if everything that is not known had failed."""
        return self.successes / self.episodes if self.episodes else None


def score(task: str, rows: Iterable[Mapping[str, Any]]) -> TaskScore:
    """Score the episode rows of one task (or of any group)."""
    rows = list(rows)
    outcomes = [row["outcome"] for row in rows]
    verdicts = [verdict(row) for row in rows]
    scored = sum(said is not None for said in verdicts)
    successes = verdicts.count(True)
    low, high = _interval(rows, successes, scored)
    count = max(len(rows), 1)
    return TaskScore(
        task=task,
        episodes=len(rows),
        scored=scored,
        successes=successes,
        success=successes / scored if scored else None,
        low=low,
        high=high,
        environment_errors=outcomes.count(Outcome.ENVIRONMENT_ERROR),
        policy_errors=outcomes.count(Outcome.POLICY_ERROR),
        unscored=outcomes.count(Outcome.UNSCORED),
        mean_steps=sum(row["steps"] for row in rows) / count,
        mean_seconds=sum(row["seconds"] for row in rows) / count,
        assisted=sum(bool(row.get("assisted")) for row in rows),
    )


def _interval(rows: Sequence[Mapping[str, Any]], successes: int, scored: int) -> tuple[float, float]:
    """Wilson's; where seeds were tried several times, clustered by them: tries of one seed are not independent."""
    seeds: dict[Any, list[bool]] = {}
    for row in rows:
        if (success := verdict(row)) is not None:
            seeds.setdefault((row["task"], row["seed"]), []).append(success)
    if len(seeds) in (1, scored):  # of a single seed, the question is how often that one succeeds
        return wilson(successes, scored)
    return clustered([sum(tries) / len(tries) for tries in seeds.values()], len(seeds))


@dataclass(frozen=True, slots=True)
class Scoreboard:
    """`mean_success` is the mean over tasks, so that no task counts for more; `overall` pools all episodes."""

    mean_success: float | None
    overall: TaskScore
    tasks: tuple[TaskScore, ...]
    low: float = 0.0  # 95 % interval of the mean, clustered by task
    high: float = 1.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"at_least": self.overall.at_least}


def scoreboard(rows: Iterable[Mapping[str, Any]]) -> Scoreboard:
    rows = list(rows)
    by_task: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_task.setdefault(row["task"], []).append(row)
    tasks = tuple(score(task, group) for task, group in sorted(by_task.items()))
    rates = [item.success for item in tasks if item.success is not None]
    overall = score("all", rows)
    low, high = overall.low, overall.high
    if len(rates) > 1:
        low, high = clustered(rates, len({(row["task"], row["seed"]) for row in rows if verdict(row) is not None}))
    return Scoreboard(sum(rates) / len(rates) if rates else None, overall, tasks, low, high)


# ------------------------------------------------------------------------------------------------------------- repeats


@dataclass(frozen=True, slots=True)
class Repeats:
    """The same task and seed, tried several times."""

    k: int
    any_of: float  # pass@k: at least one of k tries succeeds
    all_of: float  # pass^k: every one of k tries does
    low: float  # 95 % interval of `any_of`, clustered by task
    high: float
    instances: int  # tasks x seeds with at least k scored tries: the others are left out

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def repeats(rows: Iterable[Mapping[str, Any]]) -> tuple[Repeats, ...]:
    """pass@1, pass@2, ... as far as tries go. Unbiased: the mean over all ways to choose k of the n tries that an
    instance has, `1 - C(n - c, k) / C(n, k)` for c successes."""
    tries: dict[tuple[str, int], list[bool]] = {}
    for row in rows:
        if (success := verdict(row)) is not None:
            tries.setdefault((row["task"], row["seed"]), []).append(success)
    return tuple(_repeats(k, tries) for k in range(1, max(map(len, tries.values()), default=0) + 1))


def _repeats(k: int, tries: Mapping[tuple[str, int], Sequence[bool]]) -> Repeats:
    by_task: dict[str, list[float]] = {}
    every: list[float] = []
    for (task, _), outcomes in tries.items():
        n, c = len(outcomes), sum(outcomes)
        if n >= k:
            by_task.setdefault(task, []).append(1 - math.comb(n - c, k) / math.comb(n, k))
            every.append(math.comb(c, k) / math.comb(n, k))
    rates = [sum(values) / len(values) for values in by_task.values()]
    low, high = clustered(rates, len(every))
    return Repeats(k, sum(rates) / len(rates), sum(every) / len(every), low, high, len(every))
