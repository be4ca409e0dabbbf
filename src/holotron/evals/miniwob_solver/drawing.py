"""Points and lines that are drawn by clicking and dragging on a plane, judged by how exact they are."""

from __future__ import annotations

import math

from holotron.evals.miniwob_solver.dragging import drag
from holotron.evals.miniwob_solver.moves import at, press_submit
from holotron.evals.miniwob_solver.page import Element, Page
from holotron.evals.miniwob_solver.registry import solves
from holotron.types import Action, Click

Point = tuple[float, float]


def _centre(circle: Element) -> Point:
    """In the drawing's own coordinates."""
    return float(circle.attributes["cx"]), float(circle.attributes["cy"])


def _place(page: Page, point: Point) -> Action:
    """Set the blue point there, then submit. The pages take a click's distance from the task area's corner for it."""
    corner = page.get(id="area").rect
    x, y = at(point)
    placed = page.find("circle", id="blue-circle")
    if placed is not None and math.dist(_centre(placed), (x, y)) < 1:
        return press_submit(page)
    return Click(corner.x + x, corner.y + y)


@solves("circle-center")
def mark_centre(goal: str, page: Page) -> Action:
    return _place(page, _centre(page.get("circle", css="black-circle")))


@solves("find-midpoint")
def mark_midpoint(goal: str, page: Page) -> Action:
    a, b = (_centre(c) for c in page.all("circle", css="black-circle"))
    return _place(page, ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2))


@solves("bisect-angle")
def bisect_angle(goal: str, page: Page) -> Action:
    """Half way between the directions of the two lines, as far out as the drawing allows."""
    vertex = _centre(page.get("circle", css="init-blue"))
    a, b = (_unit(vertex, _centre(c)) for c in page.all("circle", css="init-black"))
    return _place(page, _far_along(vertex, (a[0] + b[0], a[1] + b[1])))


@solves("right-angle")
def right_angle(goal: str, page: Page) -> Action:
    vertex = _centre(page.get("circle", id="init-blue"))
    x, y = _unit(vertex, _centre(page.get("circle", id="init-black")))
    # Two directions are square to the line: take the one with more room.
    choices = [_far_along(vertex, direction) for direction in ((y, -x), (-y, x))]
    return _place(page, max(choices, key=lambda p: math.dist(p, vertex)))


def _unit(start: Point, end: Point) -> Point:
    length = math.dist(start, end)
    return (end[0] - start[0]) / length, (end[1] - start[1]) / length


def _far_along(start: Point, direction: Point) -> Point:
    """The farther the point, the less a whole pixel changes the angle; at most 100 pixels, inside the drawing."""
    length = math.hypot(*direction)
    x, y = direction[0] / length, direction[1] / length
    points = ((start[0] + x * r, start[1] + y * r) for r in range(100, 0, -1))
    return next(p for p in points if 4 < p[0] < 146 and 4 < p[1] < 126)


@solves("draw-line")
def draw_line(goal: str, page: Page) -> Action:
    """From edge to edge through the dot. A new stroke replaces the last one."""
    dot, plane = page.get("circle").rect.centre, page.get("svg").rect
    if "horizontal" in goal:
        start, end = (plane.x + 15, dot[1]), (plane.right - 15, dot[1])
    else:
        start, end = (dot[0], plane.y + 10), (dot[0], plane.bottom - 10)
    line = page.find("path")
    if line is not None and math.dist(line.rect.centre, ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)) < 4:
        return press_submit(page)
    return drag(start, end)
