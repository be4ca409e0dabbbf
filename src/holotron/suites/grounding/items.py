"""One question of a grounding benchmark, and when a click answers it.

Boxes come in three notations, and files that mean one have often been read as another. So every loader says which it
reads, and every row is held to it: `box` refuses one that does not fit its picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from holotron.errors import InputError

Notation = Literal[
    "xyxy", "xywh", "unit"
]  # corners in pixels; corner and size in pixels; corners as shares of the picture
Point = tuple[float, float]
SLACK = 0.01  # of the picture's side: published boxes overlap the edge by a pixel or two


@dataclass(frozen=True, slots=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, point: Point | None) -> bool:
        """Edges count, as in the official scripts."""
        return point is not None and self.left <= point[0] <= self.right and self.top <= point[1] <= self.bottom

    @property
    def outline(self) -> tuple[Point, ...]:
        return (
            (self.left, self.top), (self.right, self.top), (self.right, self.bottom), (self.left, self.bottom),
        )  # fmt: skip

    def distance(self, point: Point) -> float:
        """From its middle."""
        dx, dy = point[0] - (self.left + self.right) / 2, point[1] - (self.top + self.bottom) / 2
        return float((dx * dx + dy * dy) ** 0.5)


@dataclass(frozen=True, slots=True)
class Polygon:
    corners: tuple[Point, ...]

    @property
    def outline(self) -> tuple[Point, ...]:
        return self.corners

    def holds(self, point: Point | None) -> bool:
        """A ray to the right crosses its edges an odd number of times (the even-odd rule)."""
        if point is None:
            return False
        x, y = point
        inside = False
        for (ax, ay), (bx, by) in zip(self.corners, (self.corners[-1], *self.corners[:-1]), strict=True):
            if (ay > y) != (by > y) and x < (bx - ax) * (y - ay) / (by - ay) + ax:
                inside = not inside
        return inside


@dataclass(frozen=True, slots=True)
class Nothing:
    """What is asked for is not there: the right answer is to say so."""

    outline: ClassVar[tuple[Point, ...]] = ()

    def holds(self, point: Point | None) -> bool:
        return point is None


Target = Box | Polygon | Nothing


@dataclass(frozen=True, slots=True)
class GroundingItem:
    id: str
    instruction: str
    size: tuple[int, int]  # of the picture
    target: Target
    picture: Callable[[], bytes] = field(repr=False, compare=False)
    tags: Mapping[str, str] = field(default_factory=dict)  # what results are broken down by


def box(values: Sequence[float], notation: Notation, size: tuple[int, int], where: str) -> Box:
    """A published box, checked against the picture. `where` is the file and the row."""
    if len(values) != 4 or not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        raise InputError(f"{where}: a box is four numbers, found {values!r}")
    a, b, c, d = map(float, values)
    width, height = size
    match notation:
        case "xyxy":
            left, top, right, bottom = a, b, c, d
        case "xywh":
            left, top, right, bottom = a, b, a + c, b + d
        case "unit":
            if not all(-SLACK <= v <= 1 + SLACK for v in (a, b, c, d)):
                raise InputError(f"{where}: boxes here are shares of the picture from 0 to 1, found {list(values)!r}")
            left, top, right, bottom = a * width, b * height, c * width, d * height
    fits = -SLACK * width <= left <= right <= (1 + SLACK) * width
    fits = fits and -SLACK * height <= top <= bottom <= (1 + SLACK) * height
    if not fits:
        meant = {"xyxy": "left, top, right, bottom", "xywh": "left, top, width, height", "unit": "shares"}[notation]
        raise InputError(
            f"{where}: {list(values)!r} read as {meant} does not fit a picture of {width} x {height}; "
            "is this file in another notation?"
        )
    return Box(left, top, right, bottom)
