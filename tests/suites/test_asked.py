"""Stored pages as tasks: the question is the goal, the box decides."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holotron.data.drawn import Painter, store_drawn
from holotron.data.labels import middle
from holotron.data.pages.make import Size
from holotron.data.shards import iter_pages
from holotron.errors import ConfigError
from holotron.suites.asked import AskedEnvironment, questions
from holotron.suites.base import find_suite
from holotron.types import Answer, Click, Task


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    store_drawn(folder, Painter(sizes=(Size.parse("160x160@2"),)), seed=3, pages=12)
    return folder


def play(task: Task, action: Click | Answer) -> tuple[bool, str]:
    async def main() -> tuple[bool, str]:
        environment = AskedEnvironment()
        observation = await environment.reset(task)
        assert observation.viewport == (160, 160) and observation.image_size == (320, 320)
        result = await environment.step(action)
        assert result.done
        return result.success, environment.task.goal

    return asyncio.run(main())


def test_every_click_that_is_asked_for_is_a_task(folder: Path):
    asked = [q for page in iter_pages(folder) for q in page.samples if q.kind in ("click", "find")]
    suite = find_suite(str(folder), seeds=range(2))
    assert {task.name for task in suite.tasks} == {question.by for question in asked}
    for kind, found in questions(folder).items():
        mine = [question for question in asked if question.by == kind]
        assert [question.instruction for question in found] == [question.instruction for question in mine]
        for seed, question in enumerate(mine):
            assert question.box is not None
            hit, goal = play(Task(str(folder), kind, seed=seed), Click(*middle(question.box)))
            assert hit and goal == question.instruction
        again, _ = play(Task(str(folder), kind, seed=len(mine)), Click(*middle(mine[0].box)))
        assert again  # past the last one it begins again


def test_anything_else_is_a_failure(folder: Path):
    kind, found = next(iter(questions(folder).items()))
    left, top, _, _ = found[0].box
    task = Task(str(folder), kind)
    assert not play(task, Click(left - 2, top - 2))[0]
    assert not play(task, Answer("not there"))[0]


def test_a_kind_that_nobody_asks_by_is_refused(folder: Path):
    with pytest.raises(ConfigError, match="no task 'smell' here: there are "):
        find_suite(str(folder), tasks="smell")
    with pytest.raises(ConfigError, match="there is no suite 'nowhere'"):
        find_suite("nowhere")
