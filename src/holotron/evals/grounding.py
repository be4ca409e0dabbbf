"""What a run on a grounding benchmark is worth: the official figures, and every breakdown of the publications.

    figures = grounding_figures(RunReader(Path("runs/eval")))
    figures.overall.accuracy, figures.by["group=Dev"].text

Accuracy is the share of items whose click lies inside the target. A reply that cannot be read counts as wrong, and is
counted apart; so does an item for which context or time ran out before there was a reply. Where publications differ in
what they divide by (OSWorld-G with or without the items to be refused), both are given.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holotron.errors import InputError
from holotron.evals.statistics import verdict as verdict_of
from holotron.evals.statistics import wilson
from holotron.rollouts.store import RunReader
from holotron.suites.grounding.benchmarks import BENCHMARKS


@dataclass(frozen=True, slots=True)
class Verdict:
    """One item: was the click right?"""

    id: str
    right: bool
    readable: bool = True  # False: the reply was no click
    tags: Mapping[str, str] = field(default_factory=dict)
    distance: float | None = None  # of the click from the middle of the box, pixels
    replied: bool = True  # False: there was no reply at all


@dataclass(frozen=True, slots=True)
class Accuracy:
    items: int
    right: int
    wrong_format: int
    no_reply: int
    text: float | None  # accuracy on items tagged as text, and as icons; None: there are none
    icon: float | None

    @property
    def accuracy(self) -> float | None:
        """None: nothing could be asked."""
        return self.right / self.items if self.items else None

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.right, self.items)

    def to_json(self) -> dict[str, Any]:
        low, high = self.interval
        return {
            "items": self.items, "right": self.right, "wrong_format": self.wrong_format, "no_reply": self.no_reply,
            "accuracy": self.accuracy, "low": low, "high": high, "text": self.text, "icon": self.icon,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class GroundingFigures:
    benchmark: str
    overall: Accuracy
    by: dict[str, Accuracy]  # "group=Dev, ui_type=icon" and the like
    spoiled: int  # items that could not be asked: in no figure
    published: int  # items of the whole benchmark: fewer were asked if this is a subset
    mean_distance: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.benchmark,
            "overall": self.overall.to_json(),
            "by": {name: one.to_json() for name, one in self.by.items()},
            "spoiled": self.spoiled,
            "published_items": self.published,
            "mean_distance": self.mean_distance,
        }


def count(verdicts: Iterable[Verdict]) -> Accuracy:
    all_ = list(verdicts)

    def of(kind: str) -> float | None:
        mine = [v.right for v in all_ if v.tags.get("ui_type") == kind]
        return sum(mine) / len(mine) if mine else None

    return Accuracy(
        len(all_), sum(v.right for v in all_), sum(not v.readable for v in all_), sum(not v.replied for v in all_),
        of("text"), of("icon"),
    )  # fmt: skip


def break_down(verdicts: Sequence[Verdict], keys: Sequence[str]) -> dict[str, Accuracy]:
    """By every combination of these tags that occurs."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if all(key in verdict.tags for key in keys):
            name = ", ".join(key if key.startswith("bucket:") else f"{key}={verdict.tags[key]}" for key in keys)
            groups.setdefault(name, []).append(verdict)
    return {name: count(group) for name, group in sorted(groups.items())}


def grounding_figures(run: RunReader) -> GroundingFigures:
    records = list(run.rows())
    name = records[0][0]["suite"] if records else ""
    if name not in BENCHMARKS:
        raise InputError(f"{run.path} is no run on a grounding benchmark")
    benchmark = BENCHMARKS[name]
    kept = [(row, steps) for row, steps in records if verdict_of(row) is not None]
    verdicts = [_verdict(row, steps) for row, steps in kept]
    by: dict[str, Accuracy] = {}
    for keys in benchmark.breakdowns:
        by |= break_down(verdicts, keys)
    targets = [v for v in verdicts if v.tags.get("box_type") != "refusal"]
    if 0 < len(targets) < len(verdicts):
        by["without refusals"] = count(targets)
    distances = [v.distance for v in verdicts if v.distance is not None]
    return GroundingFigures(
        name,
        count(verdicts),
        by,
        len(records) - len(kept),
        benchmark.items,
        sum(distances) / len(distances) if distances else None,
    )


def _verdict(row: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> Verdict:
    step = steps[0] if steps else None
    info = json.loads(step["info"]) if step is not None else {}
    tags = json.loads(row["options"]).get("tags", {})
    unread = step is not None and bool(step["reply_error"])
    return Verdict(row["task"], bool(row["success"]), not unread, tags, info.get("distance"), step is not None)


# ---------------------------------------------------------------------------------------- ScreenSpot-Pro's own tables


def screenspot_pro_tables(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The five tables of the benchmark's own script, with its names: results of both can be laid side by side."""
    style = "inst_style:instruction gt_type:positive"
    tables = {
        "fine_grained": lambda t: f"plat:{t['platform']} app:{t['application']} {style}",
        "seeclick_style": lambda t: f"plat:{t['platform']} {style}",
        "leaderboard_simple_style": lambda t: f"group:{t['group']}",
        "leaderboard_detailed_style": lambda t: f"app:{t['application']}",
    }
    made: dict[str, Any] = {}
    for table, key in tables.items():
        groups: dict[str, list[Verdict]] = {}
        for verdict in verdicts:
            groups.setdefault(key(verdict.tags), []).append(verdict)
        made[table] = {name: _official(group) for name, group in groups.items()}
    return made | {"overall": _official(verdicts)}


def _official(verdicts: Sequence[Verdict]) -> dict[str, float]:
    counted = count(verdicts)
    return {
        "num_correct_action": counted.right,
        "num_total": counted.items,
        "wrong_format_num": counted.wrong_format,
        "action_acc": counted.accuracy or 0.0,
        "text_acc": counted.text or 0.0,
        "icon_acc": counted.icon or 0.0,
    }
