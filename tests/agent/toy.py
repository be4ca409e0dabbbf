"""A small real environment: coloured buttons drawn with Pillow, no browser.

Goal: press the button of the named colour, `presses` times. The screenshot is the truth: it is drawn from the state,
counts presses as dots, and is what policies get. The device scale factor is real too, so coordinates can go wrong here
in all the ways they can go wrong in a browser.
"""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from PIL import Image, ImageDraw

from holotron.errors import EnvironmentFault
from holotron.types import Action, Answer, Click, Observation, Restart, StepResult, Task, Wait, Write

COLOURS = {"red": (210, 40, 40), "green": (40, 160, 60), "blue": (50, 80, 210), "yellow": (230, 200, 40)}


@dataclass(frozen=True)
class Button:
    colour: str
    x: int
    y: int
    width: int
    height: int

    @property
    def centre(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2

    def holds(self, x: float, y: float) -> bool:
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height


class ButtonEnvironment:
    """`Task("buttons", "press", seed)`; options: presses (default 1), question (end by answering, not by pressing)."""

    def __init__(
        self,
        viewport: tuple[int, int] = (320, 240),
        scale: float = 1.0,
        mime: str = "image/png",
        trouble: Callable[[str], None] | None = None,
    ) -> None:
        self.viewport = viewport
        self.scale = scale
        self.mime = mime
        self.closed = False
        self.buttons: list[Button] = []
        self.presses = 0
        self._trouble = trouble or (lambda call: None)
        self._task: Task | None = None
        self._target = ""

    @property
    def task(self) -> Task:
        assert self._task is not None
        return self._task

    @property
    def target(self) -> Button:
        return next(button for button in self.buttons if button.colour == self._target)

    async def reset(self, task: Task) -> Observation:
        self._check("reset")
        await asyncio.sleep(0)
        dice = random.Random(f"{task.name}/{task.seed}")
        width, height = self.viewport
        colours = dice.sample(list(COLOURS), 4)
        cells = [(0, 0), (1, 0), (0, 1), (1, 1)]
        self.buttons = [
            Button(
                colour,
                int(column * width / 2 + dice.randrange(5, max(width // 4, 6))),
                int(row * height / 2 + dice.randrange(5, max(height // 4, 6))),
                max(width // 6, 4),
                max(height // 6, 4),
            )
            for colour, (column, row) in zip(colours, cells, strict=True)
        ]
        self.presses = 0
        self._target = dice.choice(colours)
        times = int(task.options.get("presses", 1))
        goal = f"Press the {self._target} button" + (f" {times} times." if times > 1 else ".")
        self._task = replace(task, goal=task.goal or goal)
        return self._look()

    async def observe(self) -> Observation:
        self._check("observe")
        return self._look()

    async def step(self, action: Action) -> StepResult:
        self._check("step")
        await asyncio.sleep(0)
        if isinstance(action, Answer):
            asked = bool(self.task.options.get("question"))
            return StepResult(self._look(), 0.0, True, None if asked else False)
        if isinstance(action, Restart):
            return StepResult(await self.reset(self.task))
        if not isinstance(action, Click):
            note = "" if isinstance(action, Wait | Write) else f"there is no {action.tool_name} here"
            return StepResult(self._look(note))
        hit = next((button for button in self.buttons if button.holds(action.x, action.y)), None)
        if hit is None:
            return StepResult(self._look())
        if hit.colour != self._target:
            return StepResult(self._look(), -1.0, True, False)
        self.presses += 1
        if self.presses >= int(self.task.options.get("presses", 1)) and not self.task.options.get("question"):
            return StepResult(self._look(), 1.0, True, True)
        return StepResult(self._look())

    async def close(self) -> None:
        self.closed = True

    def _check(self, call: str) -> None:
        if self.closed:
            raise EnvironmentFault("this environment is closed")
        self._trouble(call)

    def _look(self, note: str = "") -> Observation:
        size = round(self.viewport[0] * self.scale), round(self.viewport[1] * self.scale)
        image = Image.new("RGB", size, (245, 245, 245))
        draw = ImageDraw.Draw(image)
        for button in self.buttons:
            box = [button.x, button.y, button.x + button.width - 1, button.y + button.height - 1]
            draw.rectangle([value * self.scale for value in box], fill=COLOURS[button.colour])
        for press in range(self.presses):
            draw.point((2 + 2 * press, 2), fill=(0, 0, 0))
        buffer = io.BytesIO()
        image.save(buffer, "PNG" if self.mime == "image/png" else "JPEG")
        return Observation(buffer.getvalue(), self.mime, size, self.viewport, "toy://buttons", "Buttons", note=note)


def press_target(environment: ButtonEnvironment, observation: Observation, step: int) -> Action:
    """The teacher's script."""
    return Click(*environment.target.centre, element=f"{environment.target.colour} button")


class ButtonPool:
    """Leases toy environments and keeps count, so that tests can see what was leaked or reused."""

    def __init__(self, trouble: Callable[[str], None] | None = None) -> None:
        self.trouble = trouble
        self.free: list[ButtonEnvironment] = []
        self.made = 0
        self.broken = 0
        self.leased = 0
        self.most_leased = 0

    async def acquire(self) -> ButtonEnvironment:
        self.leased += 1
        self.most_leased = max(self.most_leased, self.leased)
        if self.free:
            return self.free.pop()
        self.made += 1
        return ButtonEnvironment(trouble=self.trouble)

    async def release(self, environment: ButtonEnvironment, *, broken: bool = False) -> None:
        self.leased -= 1
        if broken:
            self.broken += 1
            await environment.close()
        else:
            self.free.append(environment)

    async def close(self) -> None:
        for environment in self.free:
            await environment.close()
        self.free.clear()


def colour_at(observation: Observation, x: float, y: float) -> tuple[int, ...]:
    """The colour of the screenshot at a point given in CSS pixels."""
    with Image.open(io.BytesIO(observation.image)) as image:
        scale = image.width / observation.viewport[0]
        return image.convert("RGB").getpixel(
            (min(int(x * scale), image.width - 1), min(int(y * scale), image.height - 1))
        )
