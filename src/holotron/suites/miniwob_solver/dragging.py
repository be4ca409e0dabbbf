"""Things that are moved with the button held down: shapes, boxes, list entries, corners, the cube."""

from __future__ import annotations

import re

from holotron.suites.miniwob_solver.moves import at, first, press_submit
from holotron.suites.miniwob_solver.page import Page, PageElement, Rect
from holotron.suites.miniwob_solver.registry import Memory, solves
from holotron.suites.miniwob_solver.shapes import SHAPE_NAMES
from holotron.suites.miniwob_solver.words import ordinal, parse
from holotron.types import Action, Drag, Wait

DIRECTIONS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}


def drag(start: tuple[float, float], end: tuple[float, float]) -> Drag:
    return Drag(*at(start), *at(end))


def grip(element: PageElement) -> tuple[float, float]:
    """Where to take hold of it."""
    return element.point or element.rect.centre


# ------------------------------------------------------------------------------------------------- free-hand shapes


@solves("drag-circle", "drag-single-shape")
def drag_in_direction(goal: str, page: Page) -> Action:
    (direction,) = parse(goal, r"Drag the \w+ (\w+)")
    dx, dy = DIRECTIONS[direction]
    shape = page.get(where=lambda e: e.tag in SHAPE_NAMES)
    # SVG draws the shape where it was born and then shifts it: "translate(12,-3)".
    moved_x, moved_y = _translation(shape)
    if moved_x * dx + moved_y * dy > 5:
        return press_submit(page)
    x, y = grip(shape)
    return drag((x, y), (x + 30 * dx, y + 30 * dy))


def _translation(shape: PageElement) -> tuple[float, float]:
    transform = shape.attributes.get("transform", "translate(0,0)")
    x, y = transform.removeprefix("translate(").removesuffix(")").split(",")
    return float(x), float(y)


@solves("drag-box")
def drag_into_box(goal: str, page: Page) -> Action:
    small, large = page.get(id="draggableSmall"), page.get(id="draggableLarge")
    inside = Rect(large.rect.x + 1, large.rect.y + 1, large.rect.width - 2, large.rect.height - 2)
    if inside.contains(small.rect):
        return press_submit(page)
    held, target = (large, small) if small.point is None else (small, large)
    x, y = grip(held)
    dx, dy = target.rect.centre[0] - held.rect.centre[0], target.rect.centre[1] - held.rect.centre[1]
    return drag((x, y), (x + dx, y + dy))


def _into(moving: list[PageElement], box: PageElement) -> Action | None:
    """Drag the first shape that is not in the box to a place of its own there, so that none hides another."""
    for i, shape in enumerate(moving):
        if not box.rect.contains(shape.rect):
            place = (i + 0.5) / len(moving)
            return drag(grip(shape), (box.rect.x + 8 + place * (box.rect.width - 16), box.rect.centre[1]))
    return None


@solves("drag-shapes")
def drag_shapes_into_box(goal: str, page: Page) -> Action:
    name = parse(goal, r"Drag all (\w+)s into")[0]
    box = page.get("rect", id="shape-container")
    right = [s for s in _movable(page) if SHAPE_NAMES[s.tag] == name]
    wrong = [s for s in _movable(page) if SHAPE_NAMES[s.tag] != name]
    return first(_into(right, box), _out_of(page, wrong, box), press_submit(page))


def _out_of(page: Page, staying: list[PageElement], box: PageElement) -> Action | None:
    """Drag the first shape that reaches into the box to the far side of the plane."""
    for shape in staying:
        if box.rect.touches(shape.rect):
            plane = page.get("svg").rect
            above = box.rect.centre[1] > plane.centre[1]
            return drag(grip(shape), (shape.rect.centre[0], plane.y + 15 if above else plane.bottom - 15))
    return None


@solves("drag-shapes-2")
def sort_shapes_into_boxes(goal: str, page: Page) -> Action:
    word = parse(goal, r"Drag all (\w+) (?:shapes )?into the left box")[0]
    left, right = page.all("rect", id="shape-container")

    def belongs_left(shape: PageElement) -> bool:
        return word in (shape.attributes["fill"], SHAPE_NAMES[shape.tag] + "s")

    shapes = _movable(page)
    return first(
        _into([s for s in shapes if belongs_left(s)], left),
        _into([s for s in shapes if not belongs_left(s)], right),
        press_submit(page),
    )


def _movable(page: Page) -> list[PageElement]:
    return page.all(where=lambda e: e.tag in SHAPE_NAMES and e.id != "shape-container")


# ------------------------------------------------------------------------------------------------------ sorted lists


def _move_entry(entries: list[PageElement], start: int, end: int) -> Drag:
    """Drop an entry on another one's place; a little further in the direction of travel makes the rest give way."""
    a, b = entries[start].rect, entries[end].rect
    rightward, downward = _sign(b.x - a.x), _sign(b.y - a.y)
    if (rightward, downward) == (1, -1):
        # Up and to the right, an entry lands behind the one it is dropped on: drop it on the one before.
        b = entries[end - 1].rect
        return drag(a.centre, (b.centre[0] + 0.25 * b.width, b.centre[1]))
    x = b.centre[0] + 0.25 * b.width * rightward
    if (rightward, downward) == (-1, 1):
        # Down and to the left: stay above the row until the right column, or its other entries give way as well.
        return drag(a.centre, (x, b.y + 6))
    lean = 5.0 * rightward if not downward else 0.0  # exactly level, the list overlooks the second entry in a row
    return drag(a.centre, (x, b.centre[1] + 0.25 * b.height * downward + lean))


def _sign(value: float) -> int:
    return (value > 2) - (value < -2)


@solves("drag-items")
def move_list_entry(goal: str, page: Page) -> Action:
    name, where = parse(goal, r"Drag (\S+) (.*?)\.?$")
    entries = page.all("li")
    start = [e.text for e in entries].index(name)
    if match := re.match(r"to the (\d\w\w) position", where):
        end = ordinal(match[1]) - 1
    else:
        ends = {"to the top": 0, "to the bottom": 4, "up by one position": start - 1, "down by one position": start + 1}
        end = ends[where]
    return _move_entry(entries, start, end)


GRID = ("top left", "top center", "top right", "center left", "center", "center right",
        "bottom left", "bottom center", "bottom right")  # fmt: skip


@solves("drag-items-grid")
def move_grid_entry(goal: str, page: Page) -> Action:
    name, where = parse(goal, r"Drag (\S+) (.*?)\.?$")
    entries = page.all("li")
    start = [e.text for e in entries].index(name)
    step = {"up by one": -3, "down by one": 3, "left by one": -1, "right by one": 1}.get(where)
    end = GRID.index(where.removeprefix("to the ")) if step is None else start + step
    return _move_entry(entries, start, end)


@solves("drag-sort-numbers")
def sort_numbers(goal: str, page: Page) -> Action:
    """From the top: pull up the number that belongs in the first wrong place."""
    entries = page.all("li")
    numbers = [int(e.text) for e in entries]
    for i, wanted in enumerate(sorted(numbers)):
        if numbers[i] != wanted:
            return _move_entry(entries, numbers.index(wanted, i), i)
    return press_submit(page)


# ---------------------------------------------------------------------------------------------------- corner and cube


@solves("resize-textarea", question="() => [$('#tt').width(), $('#tt').height()]")
def resize(goal: str, page: Page, memory: Memory) -> Action:
    dimension, way = parse(goal, r"the (width|height) is (smaller|larger)")
    size = page.answer[0 if dimension == "width" else 1]
    initial = memory.setdefault("initial", size)
    if (size > initial) if way == "larger" else (size < initial):
        return press_submit(page)
    x, y = grip(page.get(css="ui-resizable-se"))
    pull = 20 if way == "larger" else -20
    return drag((x, y), (x + pull, y) if dimension == "width" else (x, y + pull))


# How far the cube is turned about the upright axis and tilted, in degrees, and whether it is still moving.
CUBE = """() => {
  const view = cube.viewport;
  const moving = Math.max(Math.abs(view.torqueX), Math.abs(view.torqueY)) > 1;
  return {turn: view.positionX % 360, tilt: view.positionY % 360, moving};
}"""
# Tilted by 175 degrees the cube stands on its head, and these turns bring a number to the front.
TURNS = {"3": 86.0, "2": 177.0, "5": 269.0, "4": 358.0}
TILTS = {"6": 88.0, "1": 264.0}


@solves("drag-cube", question=CUBE)
def turn_cube(goal: str, page: Page) -> Action:
    """Swing it until the number in front is the right one; it turns on for a moment after each drag."""
    (wanted,) = parse(goal, r'so that "(\d)" is')
    if page.answer["moving"]:
        return Wait(1.0)
    if page.get(css="active").text == wanted:
        return press_submit(page)
    upright = _degrees_to(TILTS.get(wanted, 175.0), page.answer["tilt"])
    x, y = page.get(css="viewport").rect.centre
    if wanted in TILTS or abs(upright) > 40:
        return drag((x, y), (x, y - _swing(upright)))
    return drag((x, y), (x - _swing(_degrees_to(TURNS[wanted], page.answer["turn"])), y))


def _degrees_to(target: float, now: float) -> float:
    """The shorter way round."""
    return (target - now + 180) % 360 - 180


def _swing(degrees: float) -> float:
    """How long a drag turns the cube that far (measured: a short one is swallowed by friction)."""
    length = min(max((abs(degrees) + 14) / 1.77, 20.0), 50.0)
    return length if degrees > 0 else -length
