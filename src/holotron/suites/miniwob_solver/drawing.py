"""Points and lines that are drawn by clicking and dragging on a plane, judged by how exact they are."""

from __future__ import annotations

import math

from holotron.suites.miniwob_solver.dragging import drag
from holotron.suites.miniwob_solver.moves import at, press_submit
from holotron.suites.miniwob_solver.page import Page, PageElement
from holotron.suites.miniwob_solver.registry import solves
from holotron.types import Action, Click

Point = tuple[float, float]


def _centre(circle: PageElement) -> Point:
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
    """Half way between the directions of the two lines."""
    vertex = _centre(page.get("circle", css="init-blue"))
    a, b = (_direction(vertex, _centre(c)) for c in page.all("circle", css="init-black"))
    opening = _turn(a, b)
    return _place(page, _far_along(vertex, a + opening / 2, abs(opening) / 20))


@solves("right-angle")
def right_angle(goal: str, page: Page) -> Action:
    vertex = _centre(page.get("circle", id="init-blue"))
    line = _direction(vertex, _centre(page.get("circle", id="init-black")))
    # Two directions are square to the line: take the one with more room.
    choices = [_far_along(vertex, line + turn, math.radians(1)) for turn in (-math.pi / 2, math.pi / 2)]
    return _place(page, max(choices, key=lambda p: math.dist(p, vertex)))


def _direction(start: Point, end: Point) -> float:
    return math.atan2(end[1] - start[1], end[0] - start[0])


def _turn(a: float, b: float) -> float:
    """From direction a to direction b, the shorter way."""
    return (b - a + math.pi) % (2 * math.pi) - math.pi


def _far_along(start: Point, direction: float, tolerance: float) -> Point:
    """The farthest whole pixel in that direction inside the drawing, up to 100 away, that is exact enough."""
    x, y = math.cos(direction), math.sin(direction)
    points = [at((start[0] + x * r, start[1] + y * r)) for r in range(100, 10, -1)]
    inside = [p for p in points if 4 < p[0] < 146 and 4 < p[1] < 126] or points[-1:]
    errors = [abs(_turn(_direction(start, p), direction)) for p in inside]
    exact = [p for p, error in zip(inside, errors, strict=True) if error <= tolerance]
    return exact[0] if exact else inside[errors.index(min(errors))]


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
