"""Episodes in a real browser: isolation, repetition, how they end."""

from __future__ import annotations

import asyncio
import io

import pytest
from PIL import Image

from holotron.envs.base import Environment
from holotron.errors import ConfigError, EnvironmentFault
from holotron.sites.environment import SitesEnvironment, SitesPool
from holotron.sites.solver import SitesSolver
from holotron.sites.tasks import sites_tasks
from holotron.types import Answer, Click, GoBack, Goto, NewTab, Observation, Restart, Scroll, Task
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


def test_screenshots_show_what_the_action_did(pool: SitesPool, run: Run) -> None:
    """Several at once, so that the browser is busy: a screenshot never shows the page as it was before."""
    colours = [(37 * n % 256, 91 * n % 256, 13 * n % 256) for n in range(1, 9)]

    async def play(seed: int) -> None:
        environment = await pool.acquire()
        try:
            await environment.reset(sites_tasks("shop-wish", [seed])[0])
            await environment.evaluate(f"(() => {{ const colours = {[list(colour) for colour in colours]};" + CURTAIN)
            for colour in colours:
                image = (await environment.step(Click(200, 200))).observation.image
                shown = Image.open(io.BytesIO(image)).convert("RGB").getpixel((20, 20))
                assert isinstance(shown, tuple)
                assert max(abs(a - b) for a, b in zip(shown, colour, strict=True)) < 8  # it is a JPEG
        finally:
            await pool.release(environment)

    async def go() -> None:
        await asyncio.gather(*(play(seed) for seed in (3, 4, 5)))

    run(go())


CURTAIN = """
  const curtain = document.createElement('div');
  curtain.style.cssText = 'position: fixed; inset: 0; z-index: 99999; background: black';
  curtain.onclick = () => curtain.style.background = `rgb(${colours.shift().join()})`;
  document.body.append(curtain); })()"""


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


def test_a_kept_context_is_as_good_as_new(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an episode has left behind, the next one in its context looks like the first in a new one."""
    (first,) = sites_tasks("shop-popup", [3], viewport="laptop")
    (second,) = sites_tasks("shop-count", [3], viewport="phone")

    async def go() -> None:
        pool = SitesPool(sessions=2, browsers=1)
        kept, fresh = await pool.acquire(), await pool.acquire()
        try:
            await kept.reset(first)
            session = kept._web._session  # type: ignore[union-attr]
            await kept.evaluate("document.cookie = 'news=1;path=/', localStorage.a = sessionStorage.b = 1")
            await kept.step(Click(640, 300))
            await kept.step(NewTab(kept.episode.url))
            await kept.step(Scroll("down"))
            await kept.step(Click(195, 300))  # where the pointer stays
            seen, new = await kept.reset(second), await fresh.reset(second)
            assert kept._web._session is session  # type: ignore[union-attr]
            assert fresh._web._session is not session  # type: ignore[union-attr]
            assert seen == new and seen.viewport == (390, 844)
            held = "[localStorage.length, sessionStorage.length, document.cookie.includes('news'), scrollY].join()"
            assert await kept.evaluate(held) == "0,0,false,0"
            assert "no page to go back to" in (await kept.step(GoBack())).observation.note
            assert (await solve(kept, seen, 3))[-1].image == (await solve(fresh, new, 3))[-1].image
            monkeypatch.setattr("holotron.envs.session.MOST_RENEWALS", 1)
            assert (await kept.reset(second)).image == new.image
            assert kept._web._session is not session  # type: ignore[union-attr]
            await pool.release(kept)
            with pytest.raises(EnvironmentFault, match="reset"):
                _ = kept.task
            again = await pool.acquire()
            assert again is kept and (await again.reset(second)).image == new.image
            await pool.release(again)
            await pool.release(fresh, broken=True)
        finally:
            await pool.close()

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
