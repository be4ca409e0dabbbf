"""Any number of runs, compared: who is better, by how much, can it be luck, and what else differs.

    found = compare_runs(read_results([Path("runs/a"), Path("runs/b"), Path("runs/c")]))
    for pair in found.pairs:
        pair.names, pair.result.overall.difference, pair.adjusted, pair.verdict

Every two runs are compared with what they have in common (see `paired`): the same episodes one by one where both have
played them, else task by task. Ten comparisons find something by luck more easily than one, so chances are corrected
for their number (Holm). A difference counts if it would after the correction on tasks like these.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from holotron.errors import InputError
from holotron.evals.paired import Comparison, compare, holm
from holotron.evals.results import RunResult

LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs, in the order they were named: the difference is the second less the first."""

    names: tuple[str, str]
    result: Comparison
    adjusted: float | None  # the test by episodes, corrected for the number of pairs; None: not the same episodes
    adjusted_by_task: float  # the test by tasks, corrected

    @property
    def verdict(self) -> str:
        """In words that promise no more than the tests do."""
        first, second = self.names
        better = second if self.result.overall.difference > 0 else first
        if self.adjusted_by_task < LEVEL:
            return f"{better} is better on tasks like these"
        if self.adjusted is not None and self.adjusted < LEVEL:
            return f"{better} is better on these tasks; whether on others like them is open"
        return "no difference is shown"

    def to_json(self) -> dict[str, Any]:
        return {
            "runs": list(self.names),
            **asdict(self.result),
            "difference": self.result.overall.difference,
            "adjusted": self.adjusted,
            "adjusted_by_task": self.adjusted_by_task,
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True)
class RunsCompared:
    runs: tuple[RunResult, ...]
    pairs: tuple[Pair, ...]
    differing: tuple[str, ...]  # what else differs in what was played and how; scores depend on it
    surroundings: tuple[str, ...]  # versions and machines; times depend on them, scores should not

    def to_json(self) -> dict[str, Any]:
        return {
            "runs": [{k: v for k, v in run.to_json().items() if k not in ("verdicts", "tasks")} for run in self.runs],
            "pairs": [pair.to_json() for pair in self.pairs],
            "differing": list(self.differing),
            "surroundings": list(self.surroundings),
        }


def compare_runs(runs: Sequence[RunResult]) -> RunsCompared:
    if len(runs) < 2:
        raise InputError("name at least two runs to compare")
    suites = list(dict.fromkeys(run.suite for run in runs))
    if len(suites) > 1:
        by = "; ".join(f"{suite}: {', '.join(run.name for run in runs if run.suite == suite)}" for suite in suites)
        raise InputError(f"these are runs of different suites, whose scores cannot be compared ({by})")
    for run in runs:
        if not run.scores.overall.scored:
            raise InputError(
                f"{run.name} has no episode with a verdict ({len(run.rows)} on record): nothing to compare"
            )
    couples = list(itertools.combinations(runs, 2))
    results = [_compared(first, second) for first, second in couples]
    by_task = holm([result.chance_by_task for result in results])
    chances = [result.chance for result in results if result.chance is not None]
    by_episode = iter(holm(chances))
    pairs = tuple(
        Pair((first.name, second.name), result, next(by_episode) if result.paired else None, adjusted)
        for (first, second), result, adjusted in zip(couples, results, by_task, strict=True)
    )
    played, around = differences_beside_the_policy([(run.name, run.manifest) for run in runs])
    return RunsCompared(tuple(runs), pairs, (*_other_goals(runs), *played), around)


def _other_goals(runs: Sequence[RunResult]) -> list[str]:
    """Episodes of one name that were not the same task: the file they came from has changed."""
    goals: dict[str, set[str]] = {}
    for run in runs:
        for row in run.rows:
            if row["goal"]:  # what broke before it began has none
                goals.setdefault(row["id"], set()).add(row["goal"])
    other = [id for id, said in goals.items() if len(said) > 1]
    return (
        [f"goals: {len(other)} episodes of the same name ask for different things, such as {other[0]}"] if other else []
    )


def _compared(first: RunResult, second: RunResult) -> Comparison:
    try:
        return compare(first.rows, second.rows)
    except InputError as error:
        raise InputError(f"{first.name} and {second.name}: {error}") from None


# --------------------------------------------------------------------------------------------------- what else differs

# What makes a policy that policy. Everything else about two runs should be the same for their scores to be compared.
_WHO = ("policy.policy", "policy.model", "policy.weights", "policy.base_url", "policy.script")


def differences_beside_the_policy(
    runs: Sequence[tuple[str, Mapping[str, Any]]],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What else differs between runs, by their manifests: in what was shown, the limits, how replies were sampled, who
    judged; and, apart from that, in versions and machines. Each line says who had what."""
    played = [
        {**_leaves(manifest.get("config", {})), **_leaves(manifest, ("judge", "repeats"))} for _, manifest in runs
    ]
    around = [
        _leaves(manifest, ("holotron", "commit", "python", "platform", "packages", "hardware")) for _, manifest in runs
    ]
    names = [name for name, _ in runs]
    return _unequal(names, played, leave_out=_WHO), _unequal(names, around)


def _leaves(value: Mapping[str, Any], only: Sequence[str] | None = None) -> dict[str, Any]:
    """Nested settings as `view.scale` -> 2."""
    found: dict[str, Any] = {}
    for key, item in value.items():
        if only is not None and key not in only:
            continue
        if isinstance(item, Mapping) and item:
            found |= {f"{key}.{below}": leaf for below, leaf in _leaves(item).items()}
        else:
            found[key] = item
    return found


def _unequal(
    names: Sequence[str], settings: Sequence[Mapping[str, Any]], leave_out: Sequence[str] = ()
) -> tuple[str, ...]:
    lines = []
    for key in dict.fromkeys(key for one in settings for key in one):
        values: dict[str, list[str]] = {}
        for name, one in zip(names, settings, strict=True):
            said = json.dumps(one[key], ensure_ascii=False, sort_keys=True) if key in one else "not said"
            values.setdefault(said, []).append(name)
        if len(values) > 1 and key not in leave_out:
            lines.append(f"{key}: " + "; ".join(f"{_cut(said)} ({', '.join(who)})" for said, who in values.items()))
    return tuple(lines)


def _cut(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "..."
