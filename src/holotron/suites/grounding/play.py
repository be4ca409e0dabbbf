"""Grounding benchmarks as suites: `holotron eval screenspot-pro:FOLDER`.

One step: the policy sees the picture and the instruction, and clicks, or answers that it is not there. The prompt and
the frame are those of the model's own dialect. A reply that is no click and no answer is a wrong format, and counts as
wrong.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from PIL import Image, ImageOps

from holotron.agent.loop import Limits
from holotron.errors import ConfigError
from holotron.suites.base import Suite, SuiteRequest, environments_of, suites
from holotron.suites.grounding.benchmarks import BENCHMARKS, Benchmark, folder_of, load
from holotron.suites.grounding.formats import orientation
from holotron.suites.grounding.items import Box, GroundingItem
from holotron.types import Action, Click, DoubleClick, Observation, RightClick, StepResult, Task, Write

ACTIONS = ("click", "answer")


def grounding(benchmark: Benchmark, request: SuiteRequest) -> Suite:
    if not request.argument:
        raise ConfigError(
            f"name the folder with the files of {benchmark.name}: holotron eval {benchmark.name}:FOLDER "
            f"{', or :hub' if benchmark.on_hub else ''} (published as {benchmark.source})"
        )
    request.view.refuse(("width", "height", "scale", "crop", "format"), "benchmarks' pictures are shown as they are")
    items = load(benchmark.name, folder_of(benchmark, request.argument))
    names = request.choose(list(items))
    tasks = tuple(
        Task(benchmark.name, name, items[name].instruction, options={"tags": dict(items[name].tags)}) for name in names
    )
    return Suite(
        name=benchmark.name,
        tasks=tasks,
        open=environments_of(partial(GroundingEnvironment, items)),
        actions=ACTIONS,
        limits=Limits(steps=1, seconds=300.0),
        judge="the published target",
        facts={"items": len(tasks), "published_items": benchmark.items, "subset": content_hash(items, names)},
    )


def content_hash(items: Mapping[str, GroundingItem], names: list[str]) -> str:
    """Of what is asked, in any order: two runs with the same hash were asked the same."""
    lines = sorted(f"{name}\t{items[name].instruction}\t{items[name].target}" for name in names)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


for _name, _benchmark in BENCHMARKS.items():
    _factory, _hub = partial(grounding, _benchmark), " or :hub" if _benchmark.on_hub else ""
    _factory.__doc__ = (
        f"{_benchmark.about}; {_benchmark.items:,} items.\n\n"
        f"Needs: the folder with its files, {_name}:FOLDER{_hub} (published as {_benchmark.source}); no browser.\n"
        "Takes: one reply an item; holotron-mini about a second on two CPU cores."
    )
    suites.register(_name)(_factory)


class GroundingEnvironment:
    def __init__(self, items: Mapping[str, GroundingItem]) -> None:
        self._items = items
        self._task: Task | None = None
        self._shown: Observation | None = None

    @property
    def task(self) -> Task:
        assert self._task is not None, "reset it first"
        return self._task

    async def reset(self, task: Task) -> Observation:
        item = self._items[task.name]
        data = item.picture()
        with Image.open(io.BytesIO(data)) as opened:
            mime, size = Image.MIME.get(opened.format or "", "image/png"), opened.size
            if mime not in ("image/png", "image/jpeg", "image/webp") or orientation(opened) > 1:
                buffer, picture = io.BytesIO(), ImageOps.exif_transpose(opened).convert("RGB")
                picture.save(buffer, "PNG")
                data, mime, size = buffer.getvalue(), "image/png", picture.size
        self._task = replace(task, goal=item.instruction)
        self._shown = Observation(data, mime, size, item.size)
        return self._shown

    async def observe(self) -> Observation:
        assert self._shown is not None, "reset it first"
        return self._shown

    async def step(self, action: Action) -> StepResult:
        item, point = self._items[self.task.name], place_of(action)
        hit = item.target.holds(point)
        info: dict[str, object] = {"point": None if point is None else list(point)}
        if corners := item.target.outline:
            info["target"] = [list(corner) for corner in corners]  # reports draw it beside the click
        if isinstance(item.target, Box) and point is not None:
            info["distance"] = item.target.distance(point)
        return StepResult(await self.observe(), float(hit), True, hit, info)

    async def close(self) -> None:
        pass


def place_of(action: Action) -> tuple[float, float] | None:
    """Where an action points; None: nowhere, which is how a refusal is said."""
    if isinstance(action, Click | DoubleClick | RightClick):
        return action.x, action.y
    if isinstance(action, Write) and action.x is not None and action.y is not None:
        return action.x, action.y
    return None
