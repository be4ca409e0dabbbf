"""A small real environment that needs no browser: painted screens, clicks, and an exact verdict.

    environment = PaintedEnvironment(Size.parse("160x160@2"))
    observation = await environment.reset(Task("painted", "boxes-3", seed=7))     # "Click the red box."

Tasks, by name (N from 1 to 8):

    boxes-N       N boxes of different colours at random places; click the named one
    order-N       the same, but all are to be clicked, in the order the goal says; a box that was clicked is gone
    page          a page of `drawn` with text, links, buttons, shapes; click what the goal describes

What a policy gets is the picture and the goal, nothing else. A click inside the right box counts, any other click ends
the episode as a failure. For training where there are no browsers, and for tests; MiniWoB++ is the benchmark.
"""

from __future__ import annotations

import asyncio
import io
import random
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from PIL import Image

from holotron.agent.loop import Limits
from holotron.data.canvas import Canvas
from holotron.data.colours import RGB
from holotron.data.drawn import Painter
from holotron.data.labels import Box, contains
from holotron.data.pages.make import Size
from holotron.data.samples import make_samples
from holotron.errors import ConfigError
from holotron.suites.base import Suite, SuiteRequest, check_name, environments_of, suites
from holotron.types import Action, Click, Observation, StepResult, Task
from holotron.view import View

SUITE = "painted"
VIEW = View(width=160, height=160, scale=2.0, format="png")
NAMES = ("boxes-1", "boxes-2", "boxes-3", "boxes-4", "boxes-6", "order-2", "order-3", "page")
COLOURS: dict[str, RGB] = {
    "red": (215, 38, 38), "green": (40, 165, 60), "blue": (45, 85, 220), "yellow": (235, 205, 40),
    "purple": (140, 60, 190), "orange": (240, 140, 30), "black": (20, 20, 20), "cyan": (40, 200, 220),
}  # fmt: skip
_PAGE_SEED = 50_000_000  # of painted pages, apart from those of training recipes


@dataclass(frozen=True, slots=True)
class _Screen:
    goal: str
    boxes: tuple[tuple[str, Box], ...]  # what is painted, by colour; of a page nothing
    targets: tuple[Box, ...]  # to be clicked, in this order


@suites.register(SUITE)
def painted(request: SuiteRequest) -> Suite:
    """Painted screens to click on; needs no browser.

    Needs: nothing.
    Takes: a step is painted in milliseconds: as long as your policy takes.
    """
    view = request.view.over(VIEW)
    if view.crop or view.format != "png":
        raise ConfigError("painted screens are whole and without loss: crop and format cannot be chosen there")
    names = list(NAMES) if request.tasks == "all" else request.choose(_all_names())
    size = Size.parse(f"{view.width}x{view.height}@{view.scale:g}")
    return Suite(
        name=SUITE,
        tasks=request.tasks_of(SUITE, names),
        open=environments_of(lambda: PaintedEnvironment(size)),
        actions=("click",),
        limits=Limits(steps=10, seconds=300.0),
        view=view,
    )


class PaintedEnvironment:
    def __init__(self, size: Size) -> None:
        self._size = size
        self._task: Task | None = None
        self._screen = _Screen("", (), ())
        self._clicked = 0
        self._page: np.ndarray | None = None

    @property
    def task(self) -> Task:
        assert self._task is not None, "reset it first"
        return self._task

    @property
    def target(self) -> Box:
        """What to click next; for teachers and judges."""
        return self._screen.targets[min(self._clicked, len(self._screen.targets) - 1)]

    async def reset(self, task: Task) -> Observation:
        check_name(task.name, _all_names())
        rng = random.Random(f"holotron painted {task.name} {task.seed}")
        self._clicked, self._page = 0, None
        if task.name == "page":
            self._page, self._screen = await asyncio.to_thread(_make_page, task.seed, self._size)
        else:
            kind, count = task.name.split("-")
            self._screen = _make_boxes(kind, int(count), rng, self._size)
        self._task = replace(task, goal=self._screen.goal)
        return await self.observe()

    async def observe(self) -> Observation:
        pixels = self._page if self._page is not None else self._paint()
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG", compress_level=1)
        height, width = pixels.shape[:2]
        viewport = (round(self._size.width), round(self._size.height))
        return Observation(file.getvalue(), "image/png", (width, height), viewport)

    async def step(self, action: Action) -> StepResult:
        if not isinstance(action, Click):
            unmoved = replace(await self.observe(), note="nothing happened: only clicks do something here")
            return StepResult(unmoved)
        targets = self._screen.targets
        right = contains(targets[self._clicked], action.x, action.y)
        self._clicked += right
        done = not right or self._clicked == len(targets)
        return StepResult(await self.observe(), float(done and right), done, right if done else None)

    async def close(self) -> None:
        pass

    def _paint(self) -> np.ndarray:
        canvas = Canvas(self._size.width, self._size.height, self._size.scale, (255, 255, 255))
        gone = self._screen.targets[: self._clicked] if len(self._screen.targets) > 1 else ()
        for colour, box in self._screen.boxes:
            if box not in gone:
                canvas.rectangle(box, COLOURS[colour])
        return canvas.pixels


def _all_names() -> list[str]:
    return [*(f"{kind}-{count}" for kind in ("boxes", "order") for count in range(1, 9)), "page"]


def _make_boxes(kind: str, count: int, rng: random.Random, size: Size) -> _Screen:
    """Boxes in cells of a grid, so that they never touch."""
    columns = 2 if count <= 4 else 3
    rows = max(2, -(-count // columns))
    width, height = size.width / columns, size.height / rows
    cells = rng.sample([(column, row) for row in range(rows) for column in range(columns)], count)
    boxes = []
    for colour, (column, row) in zip(rng.sample(list(COLOURS), count), cells, strict=True):
        wide, high = rng.uniform(0.45, 0.7) * width, rng.uniform(0.45, 0.7) * height
        left = column * width + rng.uniform(0.05 * width, 0.95 * width - wide)
        top = row * height + rng.uniform(0.05 * height, 0.95 * height - high)
        boxes.append((colour, (left, top, left + wide, top + high)))
    order = rng.sample(boxes, count if kind == "order" else 1)
    goal = "Click the " + ", then the ".join(f"{colour} box" for colour, _ in order) + "."
    return _Screen(goal, tuple(boxes), tuple(box for _, box in order))


@lru_cache(maxsize=4)
def _painter(size: Size) -> Painter:
    return Painter(sizes=(size,))


def _make_page(seed: int, size: Size) -> tuple[np.ndarray, _Screen]:
    """The first page, from this seed on, that has something to click."""
    for attempt in range(100):
        page = _painter(size).paint(_PAGE_SEED + attempt, seed)
        rng = random.Random(f"holotron painted page {seed} {attempt}")
        found = make_samples(page.elements, page.text, rng, clicks=1, absent=0, finds=0, reads=0)
        if found and found[0].box is not None:
            return page.image, _Screen(found[0].instruction, (), (found[0].box,))
    raise AssertionError("pages without anything to click are rare")
