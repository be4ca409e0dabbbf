"""Did it get better? Two runs on the same episodes, compared one by one.

    comparison = compare(episodes_before, episodes_after)

Two policies that play the same tasks with the same seeds mostly fail and succeed together, so the difference between
them is known much better than either rate: only what changed counts. Separate intervals that overlap say little.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from holotron.errors import InputError
from holotron.storage.manifest import differences
from holotron.types import Outcome

_NOT_PLAYED = (Outcome.ENVIRONMENT_ERROR, Outcome.UNSCORED)
_DRAWS = 10_000  # of the bootstrap


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
    low: float  # 95 % interval of the difference
    high: float
    tasks: dict[str, Change]
    unpaired: int  # episodes that only one of the runs has


# What makes a policy that policy. Everything else about two runs should be the same for their scores to be compared.
_WHO = ("policy", "model", "base_url", "script")


def differences_beside_the_policy(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What else differs between two runs, by their manifests: what was shown, the limits, how replies were sampled, the
    browser. Each line says what was and what is."""
    return [
        line
        for part in ("environment", "limits", "policy")
        for line in differences(_beside(before, part), _beside(after, part), part)
    ]


def _beside(manifest: Mapping[str, Any], part: str) -> dict[str, Any]:
    said = manifest.get("config", {}).get(part, {})
    return {name: value for name, value in said.items() if part != "policy" or name not in _WHO}


def compare(before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]) -> Comparison:
    """Two runs' episode rows. Episodes that the environment spoiled are left out."""
    first, second = _played(before), _played(after)
    both = sorted(first.keys() & second.keys())  # an episode's id is its suite, task, seed and repeat
    if not both:
        raise InputError("the two runs have no episode in common: evaluate both with the same --tasks and --seeds")
    pairs = np.asarray([(first[id].success, second[id].success) for id in both], int)
    names = np.asarray([first[id].task for id in both])
    whole = _change(pairs)
    low, high = _interval(whole)
    tasks = {str(name): _change(pairs[names == name]) for name in np.unique(names)}
    return Comparison(whole, low, high, tasks, len(first.keys() ^ second.keys()))


class _Played(NamedTuple):
    task: str
    success: bool


def _played(rows: Iterable[Mapping[str, Any]]) -> dict[str, _Played]:
    return {
        row["id"]: _Played(row["task"], row["outcome"] == Outcome.SUCCESS)
        for row in rows
        if row["outcome"] not in _NOT_PLAYED
    }


def _change(pairs: np.ndarray) -> Change:
    before, after = pairs[:, 0], pairs[:, 1]
    return Change(
        len(pairs),
        float(before.mean()),
        float(after.mean()),
        int((after > before).sum()),
        int((before > after).sum()),
    )


def _interval(change: Change) -> tuple[float, float]:
    """What 95 % of the runs show that are drawn anew from these pairs: a pair is won, lost or neither."""
    kinds = np.asarray([change.won, change.lost, change.episodes - change.won - change.lost])
    drawn = np.random.default_rng(0).multinomial(change.episodes, kinds / change.episodes, size=_DRAWS)
    low, high = np.percentile((drawn[:, 0] - drawn[:, 1]) / change.episodes, [2.5, 97.5])
    return float(low), float(high)
