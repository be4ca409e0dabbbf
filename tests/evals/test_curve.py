"""Success over an axis: points in order with their intervals, and a picture that shows them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from holotron.evals.curve import Point, axis, curve, draw
from holotron.evals.statistics import scoreboard

MANIFEST = {"config": {"environment": {"curve": {"of": "a < b", "at": {"far": 16, "near": 1}, "chance": 0.0625}}}}


def rows(task: str, right: int, wrong: int) -> list[dict[str, object]]:
    outcomes = ["success"] * right + ["failure"] * wrong
    return [
        {"task": task, "seed": seed, "outcome": outcome, "steps": 3, "seconds": 1.0}
        for seed, outcome in enumerate(outcomes)
    ]


def test_points_are_in_order_and_only_of_tasks_on_the_axis() -> None:
    scores = scoreboard([*rows("far", 1, 3), *rows("near", 4, 0), *rows("elsewhere", 1, 1)])
    points = curve(MANIFEST, scores)
    assert [(point.x, point.success, point.episodes) for point in points] == [(1, 1.0, 4), (16, 0.25, 4)]
    assert all(point.low <= point.success <= point.high for point in points)
    assert curve({}, scores) == [] and axis({"config": {"environment": {"curve": None}}}) == {}


def test_the_picture_is_whole_and_to_scale() -> None:
    points = [Point(1, 1.0, 0.8, 1.0, 20), Point(4, 0.5, 0.3, 0.7, 20), Point(16, 0.0, 0.0, 0.2, 20)]
    picture = draw(points, "a < b", 0.0625)
    ElementTree.fromstring(picture)  # well formed, with the label escaped
    places = [(float(x), float(y)) for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', picture)]
    (x1, y1), (x2, y2), (x3, y3) = places
    assert abs((x2 - x1) - (x3 - x2)) < 0.2 and y1 < y2 < y3 and abs((y2 - y1) - (y3 - y2)) < 0.2
    assert "guessing" in picture and "guessing" not in draw(points, "x")
    ElementTree.fromstring(draw(points[:1], "x"))
