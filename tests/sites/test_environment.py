"""Episodes in a real browser: isolation, repetition, how they end."""

from __future__ import annotations

import asyncio

import pytest

from holotron.envs.base import Environment
from holotron.errors import ConfigError, EnvironmentFault
from holotron.sites.environment import SitesEnvironment, SitesPool
from holotron.sites.solver import SitesSolver
from holotron.sites.tasks import sites_tasks
from holotron.types import Answer, Goto, Observation, Restart, Task
from tests.sites.conftest import Run

pytestmark = pytest.mark.browser


async def solve(environment: SitesEnvironment, observation: Observation, steps: int) -> list[Observation]:
    seen = [observation]
    for step in range(steps):
        action = await SitesSolver()(environment, seen[-1], step)
        assert action is not None
        seen.append((await environment.step(action)).observation)
    return seen


def test_two_episodes_of_one_seed_at_once_share_nothing_but_their_looks(pool: SitesPool, run: Run) -> None:
    async def go() -> None:
        one, two = await pool.acquire(), await pool.acquire()
        (task,) = sites_tasks("shop-wish", [2])
        try:
            first, second = await asyncio.gather(one.reset(task), two.reset(task))
            assert isinstance(one, Environment)
            assert first.image == second.image and first.url == second.url and one.task.goal == two.task.goal
            assert first.url.startswith("http://") and first.url.split("/")[2].endswith(".example")
            seen = await solve(one, first, 4)
            assert one.episode.verdict().success and not two.episode.verdict().success
            assert (await two.observe()).image == second.image
            # the same actions again: the same pages, to the byte
            assert [o.image for o in await solve(two, second, 4)] == [o.image for o in seen]
            again = await one.reset(task)
            assert again.image == first.image and not one.episode.verdict().success
        finally:
            await pool.release(one)
            await pool.release(two)

    run(go())


def test_how_an_episode_ends(pool: SitesPool, run: Run) -> None:
    async def go() -> None:
        environment = await pool.acquire()
        try:
            with pytest.raises(EnvironmentFault, match="reset"):
                _ = environment.task
            (task,) = sites_tasks("shop-material", [1])
            await environment.reset(task)
            result = await environment.step(Answer("I do not know"))
            assert result.done and result.reward == 0 and result.success is False
            assert "I do not know" in result.info["reason"] and result.info["partial"] == 0
            assert (await environment.step(Goto("/"))).observation.note == "The episode is over."
            await environment.reset(task)
            result = await environment.step(Answer(environment.episode.assignment.facts["product"]["material"]))
            assert result.done and result.reward == 1 and result.success is True
            await environment.reset(task)
            result = await environment.step(Goto("http://127.0.0.1:1/"))  # nothing but the app can be reached
            assert not result.done and "not in the list" in result.observation.note
            environment.episode.state.run("delete from wishes")
            assert not (await environment.step(Restart())).done
        finally:
            await pool.release(environment)

    run(go())


@pytest.mark.parametrize(
    "task",
    [
        Task("miniwob", "click-test"),
        Task("sites", "shop-nothing"),
        Task("sites", "shop-wish", options={"colour": "red"}),
    ],
)
def test_tasks_that_are_not(pool: SitesPool, run: Run, task: Task) -> None:
    async def go() -> None:
        environment = await pool.acquire()
        try:
            with pytest.raises(ConfigError):
                await environment.reset(task)
        finally:
            await pool.release(environment)

    run(go())
