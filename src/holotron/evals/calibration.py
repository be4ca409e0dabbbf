"""How far a judge can be trusted: its verdicts against people's labels.

    found = calibrate(human, judged)                     # both {item: 0 or 1}
    found.agreement, found.false_positive, found.false_negative          # each with a 95 % interval

A judge that passes failures makes every agent look better, one that fails successes makes them look worse, and
agreement alone hides which it is. So a figure from a judge is worth as much as these three numbers beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holotron.errors import InputError
from holotron.evals.files import read_json
from holotron.evals.statistics import wilson

Labels = dict[tuple[str, str], int]  # (agent, task) -> 0 or 1


@dataclass(frozen=True, slots=True)
class Share:
    """Of so many, with its interval."""

    count: int
    of: int

    @property
    def rate(self) -> float:
        return self.count / self.of if self.of else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.count, self.of)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.rate:.1f} % ({100 * low:.1f} – {100 * high:.1f}; {self.count} of {self.of})"

    def to_json(self) -> dict[str, Any]:
        low, high = self.interval
        return {"rate": self.rate, "low": low, "high": high, "count": self.count, "of": self.of}


@dataclass(frozen=True, slots=True)
class Calibration:
    agreement: Share
    false_positive: Share  # failures that the judge passes, of all failures
    false_negative: Share  # successes that the judge fails, of all successes
    human_rate: float  # success by people's labels,
    judged_rate: float  # and by the judge's, on the same items

    def to_json(self) -> dict[str, Any]:
        shares = {name: getattr(self, name).to_json() for name in ("agreement", "false_positive", "false_negative")}
        return {**shares, "human_rate": self.human_rate, "judged_rate": self.judged_rate}


def calibrate(human: Labels, judged: Labels) -> Calibration:
    """On the items that both have."""
    pairs = [(human[item], judged[item]) for item in human.keys() & judged.keys()]
    if not pairs:
        raise InputError("people and judge have labelled no item in common: are agents and tasks named alike?")
    failures = [said for true, said in pairs if not true]
    successes = [said for true, said in pairs if true]
    return Calibration(
        Share(sum(true == said for true, said in pairs), len(pairs)),
        Share(sum(failures), len(failures)),
        Share(sum(not said for said in successes), len(successes)),
        sum(true for true, _ in pairs) / len(pairs),
        sum(said for _, said in pairs) / len(pairs),
    )


# -------------------------------------------------------------------------------------------------------------- files


def read_human_labels(file: Path) -> Labels:
    """Online-Mind2Web's `human_label.json`: a list of rows with `task_id` and one `AGENT_human_label` per agent. Or,
    for one agent, `{task: 0 or 1}`. Labels other than 0 and 1, or false and true (nobody could tell), are left out."""
    labels: Labels = {}
    rows = read_json(file)
    if isinstance(rows, Mapping) and rows:
        labels = {("", str(task)): label for task, value in rows.items() if (label := _label(value)) is not None}
        return _some(labels, file)
    if not isinstance(rows, list):
        raise InputError(f"{file} holds a {type(rows).__name__}, not a list of rows")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping) or not isinstance(row.get("task_id"), str):
            raise InputError(f"{file}, row {number}: expected an object with a task_id")
        for key, value in row.items():
            if key.endswith("_human_label") and (label := _label(value)) is not None:
                labels[plain_name(key.removesuffix("_human_label")), row["task_id"]] = label
    return _some(labels, file)


def _label(value: object) -> int | None:
    if isinstance(value, str):
        return {"0": 0, "1": 1, "false": 0, "true": 1}.get(value.strip().lower())
    return int(value) if isinstance(value, int | float) and value in (0, 1) else None


def _some(labels: Labels, file: Path) -> Labels:
    if not labels:
        raise InputError(f"{file} holds no label of 0 or 1, nor of false or true")
    return labels


def read_verdicts(file: Path) -> dict[str, Labels]:
    """Verdicts by judge: `{judge: {agent: {task_id: 0 or 1}}}`."""
    found = read_json(file)
    if not isinstance(found, Mapping):
        raise InputError(f"{file} holds a {type(found).__name__}, not an object of judges")
    judges: dict[str, Labels] = {}
    for judge, agents in found.items():
        labels = judges.setdefault(str(judge), {})
        for agent, tasks in _mapping(agents, f"{file}: {judge}").items():
            for task, verdict in _mapping(tasks, f"{file}: {judge}, {agent}").items():
                if verdict not in (0, 1):
                    raise InputError(f"{file}: {judge}, {agent}, {task}: a verdict is 0 or 1, found {verdict!r}")
                labels[plain_name(agent), task] = int(verdict)
    return judges


def plain_name(agent: str) -> str:
    """Files spell one agent differently: `Agent-E` and `agente`."""
    return re.sub(r"[^a-z0-9.]", "", agent.lower())


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: expected an object, found {value!r}"[:200])
    return value
