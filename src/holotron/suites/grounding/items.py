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
ROUNDING = 1e-6  # pixels: shares of a picture and coordinates of a model do not come out at whole pixels exactly


@dataclass(frozen=True, slots=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, point: Point | None) -> bool:
        """Edges count, as in the official scripts, whatever rounding made of them."""
        if point is None:
            return False
        x, y = point
        across = self.left - ROUNDING <= x <= self.right + ROUNDING
        return across and self.top - ROUNDING <= y <= self.bottom + ROUNDING

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


def numbers_of(values: object) -> list[float] | None:
    """A list of numbers as such; None: it is something else."""
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        return None
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return None
    try:
        return [float(value) for value in values]
    except OverflowError:
        return None


def box(values: object, notation: Notation, size: tuple[int, int], where: str) -> Box:
    """A published box, checked against the picture. `where` is the file and the row."""
    numbers = numbers_of(values)
    if numbers is None or len(numbers) != 4:
        raise InputError(f"{where}: a box is four numbers, found {values!r}"[:300])
    a, b, c, d = numbers
    width, height = size
    match notation:
        case "xyxy":
            left, top, right, bottom = a, b, c, d
        case "xywh":
            left, top, right, bottom = a, b, a + c, b + d
        case "unit":
            if not all(-SLACK <= v <= 1 + SLACK for v in (a, b, c, d)):
                raise InputError(f"{where}: boxes here are shares of the picture from 0 to 1, found {numbers!r}")
            left, top, right, bottom = a * width, b * height, c * width, d * height
    fits = -SLACK * width <= left <= right <= (1 + SLACK) * width
    fits = fits and -SLACK * height <= top <= bottom <= (1 + SLACK) * height
    if not fits:
        meant = {"xyxy": "left, top, right, bottom", "xywh": "left, top, width, height", "unit": "shares"}[notation]
        raise InputError(
            f"{where}: {numbers!r} read as {meant} does not fit a picture of {width} x {height}; "
            "is this file in another notation?"
        )
    if right - left < 1 and bottom - top < 1:
        raise InputError(f"{where}: {numbers!r} is less than a pixel; is this file in another notation?")
    return Box(left, top, right, bottom)


def polygon(values: object, size: tuple[int, int], where: str) -> Polygon:
    """A published polygon, a flat list of corners in pixels, checked against the picture."""
    numbers = numbers_of(values)
    if numbers is None or len(numbers) < 6 or len(numbers) % 2:
        raise InputError(f"{where}: a polygon is a flat list of at least three corners, found {values!r}"[:300])
    # The box around it is held to what every box is held to.
    across, down = numbers[::2], numbers[1::2]
    box([min(across), min(down), max(across), max(down)], "xyxy", size, where)
    return Polygon(tuple(zip(across, down, strict=True)))
