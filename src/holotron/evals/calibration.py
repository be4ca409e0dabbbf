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
from holotron.suites.navigation.files import rows_of, text_content

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
    for one agent, `{task: 0 or 1}`. Where nobody could tell (2, ?, null or nothing) there is no label."""
    labels: Labels = {}
    content = text_content(file)
    if not content.lstrip().startswith("["):
        rows = read_json(file)
        if not isinstance(rows, Mapping) or not rows:
            raise InputError(f"{file} holds a {type(rows).__name__}, not a list of rows")
        for task, value in rows.items():
            if (label := _label(value, f"{file}, {task}")) is not None:
                labels["", str(task)] = label
        return _some(labels, file)
    for row, where in rows_of(file):
        if not isinstance(row.get("task_id"), str):
            raise InputError(f"{where}: expected an object with a task_id")
        for key, value in row.items():
            if key.endswith("_human_label") and (label := _label(value, f"{where}: {key}")) is not None:
                labels[plain_name(key.removesuffix("_human_label")), row["task_id"]] = label
    return _some(labels, file)


def _label(value: object, where: str) -> int | None:
    """What is no label at all is an error: left out in silence, it would change every rate."""
    said = value.strip().lower() if isinstance(value, str) else "" if value is None else value
    known = {"0": 0, "1": 1, "false": 0, "true": 1, 0: 0, 1: 1, "": None, "?": None, "2": None, 2: None}
    if not isinstance(said, str | int | float) or said not in known:
        raise InputError(f"{where}: a label is 0 or 1 (2 or ? where nobody could tell), found {value!r}"[:300])
    return known[said]


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
