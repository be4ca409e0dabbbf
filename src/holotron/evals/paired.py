"""Is one policy better than another? Two sets of episodes, compared with as much as they have in common.

    result = compare(episodes_before, episodes_after)
    result.overall.difference, result.low, result.high, result.overall.chance, result.chance_by_task

Two policies that play the same tasks with the same seeds mostly fail and succeed together, so the difference between
them is known much better than either rate: only what changed counts. Separate intervals that overlap say little.

Two questions, two answers. *On these very tasks, with other seeds?* Every seed is drawn by itself: the sign test of
won against lost (`Comparison.chance`; several tries of one seed are one piece of evidence). *On tasks like these?*
Episodes of a task belong together: the signs of whole tasks are flipped (`chance_by_task`), and the interval is
clustered by task. With one episode a task the two are the same test.

Runs without a common episode but with common tasks (other seeds) are compared task by task.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from holotron.errors import InputError
from holotron.evals.statistics import t_quantile, verdict, wilson


@dataclass(frozen=True, slots=True)
class Change:
    """Of the same episodes, before and after."""

    episodes: int
    before: float
    after: float
    won: int  # failures that became successes
    lost: int  # successes that became failures

    @property
    def difference(self) -> float:
        return self.after - self.before

    @property
    def chance(self) -> float:
        """How likely at least so uneven a split is if nothing but luck decides (the two-sided sign test)."""
        changed = self.won + self.lost
        tail = sum(math.comb(changed, n) for n in range(min(self.won, self.lost) + 1))
        return min(1.0, 2 * tail / 2**changed)


@dataclass(frozen=True, slots=True)
class Comparison:
    overall: Change
    low: float  # 95 % interval of the difference, clustered by task
    high: float
    tasks: dict[str, Change]
    unpaired: int  # episodes that only one of the runs has
    chance_by_task: float = 1.0  # how likely the difference is if, for each task, luck decides which side is which
    chance: float | None = None  # the same for each seed of each task; None: no episode was played by both

    @property
    def paired(self) -> bool:
        """The same episodes. If not: the same tasks with other seeds, and what was won and lost is not known."""
        return self.chance is not None


def compare(before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]) -> Comparison:
    """Two runs' episode rows. Episodes that nobody could rate in one of the runs are left out."""
    first, second = _played(before), _played(after)
    both = sorted(first.keys() & second.keys())  # an episode's id is its suite, task, seed and repeat
    if not both:
        return _by_task(first, second)
    pairs: dict[str, list[tuple[bool, bool]]] = {}
    seeds: dict[str, int] = {}  # what each of them gained over its tries
    for id in both:
        before_it, after_it = first[id].success, second[id].success
        pairs.setdefault(first[id].task, []).append((before_it, after_it))
        seeds[_TRY.sub("", id)] = seeds.get(_TRY.sub("", id), 0) + after_it - before_it
    tasks = {name: _change(group) for name, group in sorted(pairs.items())}
    whole = _change([pair for group in pairs.values() for pair in group])
    gains, counts = [task.won - task.lost for task in tasks.values()], [task.episodes for task in tasks.values()]
    chance = flip_chance(list(seeds.values()))
    by_task = flip_chance(gains) if len(tasks) > 1 else chance
    if len(tasks) == 1:  # nothing to cluster by: seeds stand for themselves
        tries = Counter(_TRY.sub("", id) for id in both)
        gains, counts = list(seeds.values()), [tries[seed] for seed in seeds]
    low, high = difference_interval(gains, counts)
    return Comparison(whole, low, high, tasks, len(first.keys() ^ second.keys()), by_task, chance)


_TRY = re.compile(r"#\d+$")  # behind the id of an episode: which try of its seed it is, if it is not the first


class _Played(NamedTuple):
    task: str
    success: bool


def _played(rows: Iterable[Mapping[str, Any]]) -> dict[str, _Played]:
    return {row["id"]: _Played(row["task"], success) for row in rows if (success := verdict(row)) is not None}


def _change(pairs: Sequence[tuple[bool, bool]]) -> Change:
    before, after = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return Change(
        len(pairs),
        sum(before) / len(pairs),
        sum(after) / len(pairs),
        sum(new and not old for old, new in pairs),
        sum(old and not new for old, new in pairs),
    )


def _by_task(first: Mapping[str, _Played], second: Mapping[str, _Played]) -> Comparison:
    """The same tasks with other seeds: each task's rate against its rate, every task counting once."""
    sides: list[dict[str, list[bool]]] = [{}, {}]
    for side, run in zip(sides, (first, second), strict=True):
        for played in run.values():
            side.setdefault(played.task, []).append(played.success)
    common = sorted(sides[0].keys() & sides[1].keys())
    if len(common) < 2:
        raise InputError(
            "the two runs have no episode in common, and fewer than two tasks: evaluate both with the same "
            "--tasks and --seeds"
        )
    rates = [[sum(side[task]) / len(side[task]) for side in sides] for task in common]
    tasks = {
        task: Change(len(sides[0][task]) + len(sides[1][task]), old, new, 0, 0)
        for task, (old, new) in zip(common, rates, strict=True)
    }
    old, new = (sum(side) / len(common) for side in zip(*rates, strict=True))
    episodes = sum(change.episodes for change in tasks.values())
    differences = [after - before for before, after in rates]
    low, high = difference_interval(differences, [1] * len(common))
    # The exact test wants whole numbers: differences in units of which every rate is a multiple, if there are few.
    unit = math.lcm(*(len(side[task]) for side in sides for task in common))
    unit = unit if unit * len(common) <= 100_000 else 1000
    chance = flip_chance([round(difference * unit) for difference in differences])
    left_out = len(first) + len(second) - episodes
    return Comparison(Change(episodes, old, new, 0, 0), low, high, tasks, left_out, chance)


# --------------------------------------------------------------------------------------------------------- statistics


def flip_chance(gains: Sequence[int]) -> float:
    """How likely a sum at least as far from zero is if each gain has its sign by the toss of a coin: the exact
    permutation test of paired differences. The distribution of the sum is built up gain by gain."""
    sizes = [abs(gain) for gain in gains if gain]
    whole = sum(sizes)
    chances = np.zeros(2 * whole + 1)  # of every sum from -whole to whole
    chances[whole] = 1.0
    for size in sizes:
        moved = np.zeros_like(chances)
        moved[size:] += chances[:-size]
        moved[:-size] += chances[size:]
        chances = moved / 2
    observed = abs(sum(gains))
    tail = chances[: whole - observed + 1].sum() + chances[whole + observed :].sum()
    return float(min(1.0, tail)) if observed else 1.0


def difference_interval(gains: Sequence[float], counts: Sequence[int]) -> tuple[float, float]:
    """The 95 % interval of sum(gains) / sum(counts) over clusters (tasks) of so many episodes: the cluster-robust
    standard error with Student's t. Where all clusters agree it says nothing, and the interval is as wide as what so
    many clusters without an exception leave open."""
    clusters, episodes = len(gains), sum(counts)
    difference = sum(gains) / episodes
    if clusters < 2:
        return -1.0, 1.0
    squares = sum((gain - difference * count) ** 2 for gain, count in zip(gains, counts, strict=True))
    error = math.sqrt(squares * clusters / (clusters - 1)) / episodes
    half = t_quantile(clusters - 1) * error if error > 1e-12 else wilson(0, clusters)[1]
    return max(-1.0, difference - half), min(1.0, difference + half)


def holm(chances: Sequence[float]) -> list[float]:
    """The same chances, corrected for having asked so many questions (Holm 1979): a difference that counts after the
    correction would have been found among pure luck in at most 5 % of such sets of comparisons."""
    adjusted = [0.0] * len(chances)
    worst = 0.0
    for rank, index in enumerate(sorted(range(len(chances)), key=lambda index: chances[index])):
        worst = max(worst, min(1.0, (len(chances) - rank) * chances[index]))
        adjusted[index] = worst
    return adjusted
