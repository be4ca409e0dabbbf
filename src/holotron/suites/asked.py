"""Questions about stored pages, played as tasks: one look, one instruction, one click.

    suite = find_suite("data/synth", seeds=range(5000))        # any folder made by `holotron data`

For reinforcement learning of localisation, without a browser. A task's name is how its element is described (text,
icon, place, order ...), which decides how hard it is; seed n is the n-th question of that kind in the folder, and past
the last one it begins again. A click inside the element's box is a success, anything else a failure.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from holotron.agent.loop import Limits
from holotron.data.labels import Box, contains
from holotron.data.shards import iter_rows
from holotron.errors import ConfigError, InputError
from holotron.suites.base import Suite, SuiteRequest, environments_of, suites
from holotron.types import Action, Click, Observation, StepResult, Task

ACTIONS = ("click", "answer")  # what makes sense: point at it, or say that it is not there


@suites.register("asked")
def asked(request: SuiteRequest) -> Suite:
    """One instruction, one click on stored pages: holotron eval FOLDER; needs no browser.

    Needs: a folder of pages, as `holotron data synth` makes them.
    Takes: one reply of your policy a question.
    """
    if not request.argument:
        raise ConfigError("name a folder of pages, as `holotron data synth` makes them")
    request.view.refuse(("width", "height", "scale", "crop", "format"), "stored pages are shown as they are")
    folder = Path(request.argument)
    names = request.choose(sorted(questions(folder)))
    return Suite(
        name="asked",
        tasks=request.tasks_of(str(folder), names),
        open=environments_of(AskedEnvironment),
        actions=ACTIONS,
        limits=Limits(steps=1, seconds=60.0),
        facts={"pages": folder.name},
    )


class ClickQuestion(NamedTuple):
    picture: Observation
    instruction: str
    box: Box


@lru_cache(maxsize=4)
def questions(folder: Path) -> dict[str, list[ClickQuestion]]:
    """Every click that the pages of a folder ask for, by how its element is described. Pictures stay compressed."""
    found: dict[str, list[ClickQuestion]] = {}
    for row in iter_rows(folder, ["image", "width", "height", "scale", "samples"]):
        size = (row["width"], row["height"])
        viewport = (round(size[0] / row["scale"]), round(size[1] / row["scale"]))
        picture = Observation(row["image"], "image/webp", size, viewport)
        for sample in row["samples"]:
            if sample["kind"] in ("click", "find"):
                left, top, right, bottom = sample["box"]
                asked = ClickQuestion(picture, sample["instruction"], (left, top, right, bottom))
                found.setdefault(sample["by"], []).append(asked)
    if not found:
        raise InputError(f"{folder} asks for no clicks")
    return found


class AskedEnvironment:
    def __init__(self) -> None:
        self._task: Task | None = None
        self._question: ClickQuestion | None = None

    @property
    def task(self) -> Task:
        assert self._task is not None, "reset it first"
        return self._task

    async def reset(self, task: Task) -> Observation:
        kind = questions(Path(task.suite))[task.name]
        self._question = kind[task.seed % len(kind)]
        self._task = replace(task, goal=self._question.instruction)
        return self._question.picture

    async def observe(self) -> Observation:
        assert self._question is not None, "reset it first"
        return self._question.picture

    async def step(self, action: Action) -> StepResult:
        assert self._question is not None, "reset it first"
        hit = isinstance(action, Click) and contains(self._question.box, action.x, action.y)
        return StepResult(self._question.picture, float(hit), True, hit)

    async def close(self) -> None:
        pass
