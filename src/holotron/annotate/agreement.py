"""How far answers agree, and what they agree on.

    settle(values, rule)            # -> (the label, the share of answers that agree with it)

The label is what most answers have in common: of points and boxes, the middle of the largest group around one of them;
of texts and verdicts, the most frequent. Answers that could not be read agree with nothing. Between equal groups the
one that was answered first wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Value = tuple[float, ...] | str | bool  # a point, a box, a text, a verdict


@dataclass(frozen=True, slots=True)
class Rule:
    """When two answers are the same."""

    radius: float = 14.0  # CSS pixels between two points
    overlap: float = 0.5  # intersection over union of two boxes


def same(a: Value, b: Value, rule: Rule) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(a) == 2 and len(b) == 2:
            return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 <= rule.radius**2
        return len(a) == len(b) == 4 and iou(a, b) >= rule.overlap
    if isinstance(a, str) and isinstance(b, str):
        return normal(a) == normal(b)
    return a == b


def settle(values: Sequence[Value | None], rule: Rule) -> tuple[Value | None, float]:
    """The label and the share of all answers, also the unreadable ones, that agree with it."""
    read = [value for value in values if value is not None]
    if not read:
        return None, 0.0
    groups = [[other for other in read if same(value, other, rule)] for value in read]
    best = max(groups, key=len)
    return _middle(best), len(best) / len(values)


def support(label: Value | None, values: Sequence[Value | None], rule: Rule) -> float:
    """The share of another model's answers that agree with a label."""
    if label is None or not values:
        return 0.0
    return sum(value is not None and same(label, value, rule) for value in values) / len(values)


def _middle(group: Sequence[Any]) -> Value:
    first: Value = group[0]
    if isinstance(first, tuple):
        return tuple(median(axis) for axis in zip(*group, strict=True))
    return first


def iou(a: Sequence[float], b: Sequence[float]) -> float:
    common = _area((max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])))
    whole = _area(a) + _area(b) - common
    return common / whole if whole > 0 else float(tuple(a) == tuple(b))


def _area(box: Sequence[float]) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def normal(text: str) -> str:
    """Case, spacing and the last full stop make no difference."""
    return " ".join(text.casefold().split()).rstrip(".")
