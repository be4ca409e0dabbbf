"""Success over something that grows: a suite whose tasks lie along an axis says so, and its results become a curve.

    Suite(..., facts={"curve": {"of": "distance in steps", "at": {"rounds-01": 1, "rounds-02": 2}, "chance": 1 / 16}})

    points = curve(manifest, scores)         # [Point(x=1, success=0.9, low=0.81, high=0.95, episodes=80), ...]
    draw(points, "distance in steps", chance=1 / 16)         # one small SVG picture, for reports

`of` names the axis, `at` says where each task lies on it, `chance` (if given) is what guessing gets. The axis is drawn
on a scale of powers of two.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holotron.evals.statistics import Scoreboard

WIDTH, HEIGHT = 640, 300  # of the picture
LEFT, RIGHT, TOP, BOTTOM = 52, 16, 14, 46  # around the plot


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    success: float
    low: float  # 95 % interval
    high: float
    episodes: int


def axis(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the suite of this run said of its tasks; empty for suites without an axis."""
    found = manifest.get("config", {}).get("environment", {}).get("curve")
    return found if isinstance(found, Mapping) and found.get("at") else {}


def curve(manifest: Mapping[str, Any], scores: Scoreboard) -> list[Point]:
    """Tasks that lie on the axis and have been scored, in order."""
    at = axis(manifest).get("at", {})
    points = [
        Point(float(at[row.task]), row.success, row.low, row.high, row.scored)
        for row in scores.tasks
        if row.task in at and row.success is not None
    ]
    return sorted(points, key=lambda point: point.x)


def draw(points: Sequence[Point], label: str, chance: float | None = None) -> str:
    """An SVG picture: a line through the rates, a bar for each interval, a dashed line where guessing is."""
    first, last = (math.log2(max(points[end].x, 1e-9)) for end in (0, -1))

    def across(x: float) -> float:
        share = (math.log2(max(x, 1e-9)) - first) / (last - first) if last > first else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT - 20) + 10

    def up(rate: float) -> float:
        return TOP + (1 - rate) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="13" fill="#808894">'
    ]
    for percent in (0, 25, 50, 75, 100):
        y = up(percent / 100)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#80889444"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>')
    if chance is not None:
        parts.append(
            f'<path d="M{LEFT} {up(chance):.1f}H{WIDTH - RIGHT}" stroke="#c92a2a" stroke-dasharray="5 4"/>'
            f'<text x="{WIDTH - RIGHT}" y="{up(chance) - 5:.1f}" text-anchor="end" fill="#c92a2a">guessing</text>'
        )
    for point in points:
        x = across(point.x)
        parts.append(f'<path d="M{x:.1f} {up(point.low):.1f}V{up(point.high):.1f}" stroke="#3b5bdb" stroke-width="2"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{point.x:g}</text>')
    line = " ".join(f"{across(point.x):.1f},{up(point.success):.1f}" for point in points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#3b5bdb" stroke-width="2"/>')
    for point in points:
        parts.append(f'<circle cx="{across(point.x):.1f}" cy="{up(point.success):.1f}" r="4.5" fill="#3b5bdb"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{html.escape(label)}</text></svg>')
    return "".join(parts)
