"""Shapes, letters and digits drawn on a plane: find, count, name them."""

from __future__ import annotations

import cmath
import math

from holotron.suites.miniwob_solver.moves import click
from holotron.suites.miniwob_solver.page import Page, PageElement
from holotron.suites.miniwob_solver.registry import solves
from holotron.suites.miniwob_solver.words import parse
from holotron.types import Action

SHAPE_NAMES = {"rect": "rectangle", "circle": "circle", "polygon": "triangle"}


def shapes(page: Page) -> list[PageElement]:
    drawn = page.all(where=lambda e: e.tag in ("rect", "circle", "polygon", "text"))
    return [s for s in drawn if s.attributes.get("fill", "none") != "none"]


def kind(shape: PageElement) -> str:
    if shape.tag == "text":
        return "digit" if shape.text.isdigit() else "letter"
    return "shape"


def matches(shape: PageElement, description: str) -> bool:
    """'large red triangle', 'small item', 'blue letter', 'digit', 'Q': every word must be true of the shape."""
    name = SHAPE_NAMES.get(shape.tag, shape.text)
    facts = {"item", _size(shape), shape.attributes["fill"], name, kind(shape)}
    return all(word in facts for word in description.split())


def _size(shape: PageElement) -> str:
    width = shape.attributes.get("font-size", f"{shape.rect.width}").removesuffix("px")
    return "large" if float(width) > 15 else "small"


@solves("click-shape")
def click_shape(goal: str, page: Page) -> Action:
    (description,) = parse(goal, r"Click on an? (.*)")
    fitting = [s for s in shapes(page) if matches(s, description)]
    # Letters are thin and shapes may overlap: take one whose middle is free.
    return click(page, max(fitting, key=lambda s: s.point is not None), element=description)


@solves("count-shape")
def count_shapes(goal: str, page: Page) -> Action:
    (description,) = parse(goal, r"How many (.*)s are there")
    count = sum(matches(s, description) for s in shapes(page))
    return click(page, page.get("button", text=str(count)))


@solves("identify-shape")
def name_shape(goal: str, page: Page) -> Action:
    shape = shapes(page)[0]
    name = {"digit": "number", "letter": "letter"}.get(kind(shape)) or SHAPE_NAMES[shape.tag]
    return click(page, page.get("button", text=name.capitalize()))


# How far from the middle of the canvas the drawn line is, in each of 360 directions.
OUTLINE = """() => {
  const canvas = document.getElementById('c');
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return [...Array(360).keys()].map((degree) => {
    let ink = 0, distance = 0;
    for (let radius = 10; radius < 45; radius += 0.25) {
      const x = Math.round(75 + radius * Math.cos(degree * Math.PI / 180));
      const y = Math.round(50 + radius * Math.sin(degree * Math.PI / 180));
      const alpha = pixels[4 * (canvas.width * y + x) + 3];
      ink += alpha;
      distance += alpha * radius;
    }
    return ink ? distance / ink : 0;
  });
}"""


@solves("count-sides", question=OUTLINE)
def count_sides(goal: str, page: Page) -> Action:
    return click(page, page.get("button", text=str(corners(page.answer))))


def corners(outline: list[float]) -> int:
    """Of a regular polygon: as you walk round, its distance from the middle swings once per corner."""

    def swing(n: int) -> float:
        turns = (2 * math.pi * n * i / len(outline) for i in range(len(outline)))
        return abs(sum(d * cmath.exp(-1j * t) for d, t in zip(outline, turns, strict=True)))

    return max(range(3, 8), key=swing)


@solves("ascending-numbers")
def click_in_order(goal: str, page: Page) -> Action:
    """After the first click the numbers turn into black squares; the page still knows which was which."""
    numbers = page.all("text", where=lambda e: e.text.isdigit())
    if numbers:
        return click(page, min(numbers, key=lambda e: int(e.text)))
    squares = page.all("rect", where=lambda e: "data-index" in e.attributes)
    return click(page, min(squares, key=lambda e: int(e.attributes["data-index"])))
