"""Icons as coverage masks, without a browser: the strokes of `pages/assets/icons.txt` drawn large and averaged down."""

from __future__ import annotations

import math
import re
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw

from holotron.data.pages.icons import strokes

Point = tuple[float, float]

_FINE = 4  # how much larger it is drawn
_GRID = 24.0
_STEPS = 10  # straight pieces of a curve
_TOKEN = re.compile(r"[a-zA-Z]|-?(?:\d+\.?\d*|\.\d+)")
_COUNT = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "S": 4, "A": 7, "Z": 0}


@lru_cache(maxsize=4096)
def icon_mask(name: str, pixels: int, stroke: float = 2.0) -> np.ndarray:
    """Coverage of an icon, uint8 [pixels, pixels]; `stroke` is its pen's width on the grid of 24."""
    fine = pixels * _FINE
    scale = fine / _GRID
    image = Image.new("L", (fine, fine))
    draw = ImageDraw.Draw(image)
    width = max(1, round(stroke * scale))
    for kind, numbers, filled in strokes(name):
        for line in _lines(kind, numbers):
            points = [(x * scale, y * scale) for x, y in line]
            if filled:
                draw.polygon(points, fill=255)
                continue
            draw.line(points, fill=255, width=width, joint="curve")
            for x, y in (points[0], points[-1]):  # round ends
                r = width / 2
                draw.ellipse((x - r, y - r, x + r, y + r), fill=255)
    return np.asarray(image.resize((pixels, pixels), Image.Resampling.BOX))


def _lines(kind: str, numbers: str) -> list[list[Point]]:
    if kind == "p":
        return flatten(numbers)
    values = [float(number) for number in numbers.split()]
    if kind == "c":
        x, y, r = values
        return [_arc_points((x, y), r, 0.0, 2 * math.pi, 24)]
    x, y, width, height, _ = values  # corners are round by a pixel or two: not to be seen at these sizes
    return [[(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]]


def flatten(path: str) -> list[list[Point]]:
    """An SVG path (M L H V C S A Z, large and small) as straight lines."""
    tokens = _TOKEN.findall(path)
    lines: list[list[Point]] = []
    at, control, command, place = (0.0, 0.0), (0.0, 0.0), "M", 0
    while place < len(tokens):
        if tokens[place].isalpha():
            command, place = tokens[place], place + 1
        kind = command.upper()
        count = _COUNT[kind]
        values = [float(token) for token in tokens[place : place + count]]
        place += count
        dx, dy = at if command.islower() else (0.0, 0.0)
        bend = None
        if kind == "Z":
            lines[-1].append(lines[-1][0])
            at = lines[-1][0]
        elif kind == "M":
            at = (values[0] + dx, values[1] + dy)
            lines.append([at])
            command = "l" if command == "m" else "L"
        elif kind in "LHV":
            at = (at[0] if kind == "V" else values[0] + dx, at[1] if kind == "H" else values[-1] + dy)
            lines[-1].append(at)
        elif kind == "A":
            end = (values[5] + dx, values[6] + dy)
            lines[-1] += _arc(at, end, max(values[0], 1e-6), large=values[3] != 0, sweep=values[4] != 0)
            at = end
        else:
            points = [(x + dx, y + dy) for x, y in zip(values[::2], values[1::2], strict=True)]
            if kind == "S":
                points = [(2 * at[0] - control[0], 2 * at[1] - control[1]), *points]
            lines[-1] += _curve(at, *points)
            bend, at = points[1], points[2]
        control = bend or at
    return lines


def _curve(a: Point, b: Point, c: Point, d: Point) -> list[Point]:
    """A cubic, its first point apart."""

    def at(t: float, n: int) -> float:
        s = 1 - t
        return s**3 * a[n] + 3 * s * s * t * b[n] + 3 * s * t * t * c[n] + t**3 * d[n]

    return [(at(i / _STEPS, 0), at(i / _STEPS, 1)) for i in range(1, _STEPS + 1)]


def _arc(start: Point, end: Point, radius: float, *, large: bool, sweep: bool) -> list[Point]:
    """A piece of a circle from `start` to `end`, the first point apart."""
    x, y = (start[0] - end[0]) / 2, (start[1] - end[1]) / 2
    half = math.hypot(x, y)
    if half == 0:
        return [end]
    radius = max(radius, half)
    away = math.sqrt(max(0.0, radius**2 - half**2)) / half * (1 if large == sweep else -1)
    centre = (start[0] + end[0]) / 2 - away * y, (start[1] + end[1]) / 2 + away * x
    first = math.atan2(start[1] - centre[1], start[0] - centre[0])
    last = math.atan2(end[1] - centre[1], end[0] - centre[0])
    turn = (last - first) % (2 * math.pi) if sweep else -((first - last) % (2 * math.pi))
    return [*_arc_points(centre, radius, first, first + turn, _STEPS)[1:-1], end]


def _arc_points(centre: Point, radius: float, first: float, last: float, steps: int) -> list[Point]:
    angles = (first + (last - first) * i / steps for i in range(steps + 1))
    return [(centre[0] + radius * math.cos(a), centre[1] + radius * math.sin(a)) for a in angles]
