"""MiniWoB++ in a real browser: every page loads, episodes repeat exactly, rewards are the page's own."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import random
import re
from contextlib import asynccontextmanager

import pytest
from PIL import Image

from holotron.envs.base import Environment
from holotron.envs.miniwob import CARRIES_OVER, MiniWobPool, pages, task_names
from holotron.errors import ConfigError, EnvironmentFault
from holotron.types import (
    Action,
    Answer,
    Click,
    Drag,
    Goto,
    PressKeys,
    Restart,
    Scroll,
    Task,
    Wait,
    Write,
)
from tests.envs.processes import renderers_under

pytestmark = pytest.mark.browser


def task(name: str, seed: int = 0, **options) -> Task:
    return Task("miniwob", name, seed=seed, options=options)


@pytest.fixture(scope="module")
def pool(run):
    async def make():
        return MiniWobPool(sessions=4, scale=1, format="png")

    pool = run(make())
    yield pool
    run(pool.close())


@pytest.fixture
def miniwob(run, pool):
    environment = run(pool.acquire())
    yield environment
    run(pool.release(environment))


@asynccontextmanager
async def leased(pool):
    environment = await pool.acquire()
    try:
        yield environment
    finally:
        await pool.release(environment)


def named(elements, text):
    return next(e for e in elements if e.hit and text in (e.text, e.value, e.id))


# ----------------------------------------------------------------------------------------------------------- all tasks


def test_there_are_125_registered_tasks_and_five_more_pages():
    assert len(task_names()) == 125
    assert len(task_names(unregistered=True)) == 130
    registered = re.findall(r'id="miniwob/([\w-]+)-v1"', (pages().parent / "registration.py").read_text())
    assert set(task_names()) <= set(registered)


def test_every_page_starts_with_a_goal_and_a_picture(run, pool):
    async def start(queue):
        goals = {}
        async with leased(pool) as environment:
            while queue:
                name = queue.pop()
                observation = await environment.reset(task(name, seed=1))
                goals[name] = environment.task.goal
                assert observation.image_size == (160, 210)
        return goals

    async def main():
        queue = task_names(unregistered=True)
        goals = {}
        for part in await asyncio.gather(*(start(queue) for _ in range(3))):
            goals |= part
        return goals

    goals = run(main())
    assert len(goals) == 130
    assert [name for name, goal in goals.items() if len(goal) < 8] == []


# --------------------------------------------------------------------------------------------------------- determinism


def random_action(rng: random.Random) -> Action:
    x, y = rng.uniform(5, 155), rng.uniform(55, 205)
    return rng.choice(
        [
            Click(x, y),
            Click(x, y),
            Write("abc", x, y),
            Scroll("down", 40, x=x, y=y),
            Drag(x, y, rng.uniform(5, 155), rng.uniform(55, 205)),
            Wait(0.5),
        ]
    )


def digest(observation) -> str:
    return hashlib.sha256(observation.image).hexdigest()


@pytest.mark.parametrize(
    "name",
    [
        "click-button",
        "email-inbox",
        "click-pie",
        "choose-date",
        "stock-market",
        "moving-items",
        "click-tab-2",
        "terminal",
    ],
)
def test_an_episode_is_the_same_whatever_came_before_it(run, pool, name):
    """The same seed and actions in a page fresh from the server, and in one that other episodes have left behind."""

    async def episode(environment, seed):
        rng = random.Random(seed)
        trace = [digest(await environment.reset(task(name, seed))), environment.task.goal]
        for _ in range(4):
            result = await environment.step(random_action(rng))
            trace += [digest(result.observation), result.reward]
            if result.done:
                break
        return trace

    async def main():
        async with leased(pool) as environment:
            await environment.close()
            fresh = await episode(environment, 3)
            await episode(environment, 4)
            again = await episode(environment, 3)
            return fresh, again, await episode(environment, 5)

    fresh, again, other = run(main())
    assert fresh == again
    assert fresh != other


def test_time_stands_still_while_the_policy_thinks_and_passes_when_it_waits(run, miniwob):
    async def main():
        before = await miniwob.reset(task("stock-market", 1))
        await asyncio.sleep(0.5)
        same = await miniwob.observe()
        waited = await miniwob.step(Wait(3))
        points = await miniwob.evaluate("document.querySelectorAll('circle').length")
        return digest(before), digest(same), digest(waited.observation), points

    before, same, waited, points = run(main())
    assert before == same
    assert waited != before
    assert 30 <= points <= 32  # a price every tenth of a second


# --------------------------------------------------------------------------------------------------- acting and rewards


def test_success_and_failure_have_the_pages_own_reward(run, miniwob):
    async def click(seed, right):
        await miniwob.reset(task("click-test-2", seed))
        wanted = named(await miniwob.dom(), "ONE" if right else "TWO")
        return await miniwob.step(Click(*wanted.center))

    async def main():
        return await click(1, True), await click(1, False), await miniwob.step(Click(80, 100))

    right, wrong, after = run(main())
    assert (right.reward, right.done) == (1.0, True)
    assert (wrong.reward, wrong.done) == (-1.0, True)
    assert (after.reward, after.done) == (-1.0, True)  # nothing happens after the end
    assert "over" in after.observation.note


def test_a_form_filled_in_with_pixels(run, miniwob):
    async def main():
        await miniwob.reset(task("login-user", 5))
        name, password = re.findall(r'"([^"]+)"', miniwob.task.goal)
        elements = await miniwob.dom()
        fields = {e.id: e.center for e in elements if e.tag == "input"}
        await miniwob.step(Write(name, *fields["username"]))
        await miniwob.step(Write(password, *fields["password"]))
        return await miniwob.step(Click(*named(elements, "Login").center))

    assert run(main()).reward == 1.0


def test_a_list_and_a_date_field(run, miniwob):
    async def choose():
        await miniwob.reset(task("choose-list", 2))
        wanted = re.match(r"Select (.+) from the list", miniwob.task.goal)[1]
        await miniwob.step(Click(*named(await miniwob.dom(), "options").center))
        await miniwob.step(
            Click(*next(e for e in await miniwob.dom() if e.tag == "option" and e.text == wanted).center)
        )
        return await miniwob.step(Click(*named(await miniwob.dom(), "Submit").center))

    async def date():
        await miniwob.reset(task("enter-date", 2))
        wanted = re.search(r"[\d/]{8,}", miniwob.task.goal)[0]
        await miniwob.step(Write(wanted, *next(e for e in await miniwob.dom() if e.tag == "input").center))
        return await miniwob.step(Click(*named(await miniwob.dom(), "Submit").center))

    assert run(choose()).reward == 1.0
    assert run(date()).reward == 1.0


def test_copy_and_paste_in_sessions_side_by_side(run, pool):
    async def copy(seed):
        async with leased(pool) as environment:
            await environment.reset(task("copy-paste", seed))
            elements = await environment.dom()
            area = next(e for e in elements if e.tag == "textarea")
            field = next(e for e in elements if e.tag == "input" and e.type == "text")
            await environment.step(Click(*area.center))
            for keys in (("Control", "a"), ("Control", "c")):
                await environment.step(PressKeys(keys))
            await environment.step(Click(*field.center))
            await environment.step(PressKeys(("Control", "v")))
            return (await environment.step(Click(*named(elements, "Submit").center))).reward

    async def main():
        return await asyncio.gather(*(copy(seed) for seed in range(3)))

    assert run(main()) == [1.0] * 3


def test_actions_that_make_no_sense_here_are_refused_and_answer_ends_the_episode(run, miniwob):
    async def main():
        first = await miniwob.reset(task("click-button", 1))
        goto = await miniwob.step(Goto("http://example.com"))
        outside = await miniwob.step(Click(161, 300))
        restarted = await miniwob.step(Restart())
        answered = await miniwob.step(Answer("done"))
        return first, goto, outside, restarted, answered

    first, goto, outside, restarted, answered = run(main())
    assert "not possible here" in goto.observation.note
    assert "outside the 160x210 view" in outside.observation.note
    assert digest(restarted.observation) == digest(first)
    assert (answered.reward, answered.done) == (0.0, True)


def test_leaving_the_page_is_the_agents_failure_and_the_next_reset_works(run, miniwob):
    async def main():
        results = []
        for script in ("location.reload()", "location.href = 'http://nowhere/'"):
            await miniwob.reset(task("click-button", 1))
            await miniwob.evaluate(f"void ({script})")
            for _ in range(100):
                result = await miniwob.step(Wait(0))
                if result.done:
                    break
            results.append((result.done, result.reward, result.info["reason"]))
        await miniwob.reset(task("click-button", 1))
        return results, (await miniwob.step(Wait(0))).done

    results, done = run(main())
    assert results == [(True, -1.0, "the page was left")] * 2
    assert not done


def test_an_unknown_task_is_an_error_and_so_is_acting_before_reset(run, pool, miniwob):
    assert isinstance(miniwob, Environment)
    for wrong in (task("no-such-task"), Task("web", "click-button"), task("../core/core")):
        with pytest.raises(ConfigError, match="no MiniWoB"):
            run(miniwob.reset(wrong))

    async def unprepared():
        async with leased(pool) as environment:
            await environment.close()
            await environment.step(Click(1, 1))

    with pytest.raises(EnvironmentFault, match="reset"):
        run(unprepared())


# -------------------------------------------------------------------------------------------------- without the bar


def test_cropped_observations_are_the_lower_part_and_clicks_follow(run):
    async def main():
        pool = MiniWobPool(sessions=2, scale=2, format="png", crop=True)
        whole_pool = MiniWobPool(sessions=1, scale=2, format="png")
        cropped, whole = await pool.acquire(), await whole_pool.acquire()
        seen = await cropped.reset(task("click-test-2", 4))
        full = await whole.reset(task("click-test-2", 4))
        button = named(await cropped.dom(), "ONE")
        result = await cropped.step(Click(*button.center))
        await cropped.reset(task("click-checkboxes", 1))
        await cropped.evaluate("void (document.body.style.height = '600px')")
        unscrolled = await cropped.observe()
        after = await cropped.step(Scroll("down", 60, x=3, y=150))
        offset = await cropped.evaluate("scrollY")
        outside = await cropped.step(Click(80, 170))
        await pool.close()
        await whole_pool.close()
        return seen, full, result, unscrolled, after, offset, outside

    seen, full, result, unscrolled, after, offset, outside = run(main())
    assert (seen.image_size, seen.viewport) == ((320, 320), (160, 160))
    assert _pixels(seen) == _pixels(full, top=100)
    assert result.reward == 1.0
    assert offset == 60
    assert _pixels(after.observation, bottom=100) == _pixels(unscrolled, top=120, bottom=220)
    assert "160x160" in outside.observation.note


def _pixels(observation, top=0, bottom=None):
    image = Image.open(io.BytesIO(observation.image)).convert("RGB")
    return image.crop((0, top, image.width, bottom or image.height)).tobytes()


# --------------------------------------------------------------------------------------------------------------- time


def test_a_time_limit_is_kept_in_real_time_when_asked_for(run):
    async def main():
        pool = MiniWobPool(sessions=1, scale=1, time_limit=1.0)
        environment = await pool.acquire()
        await environment.reset(task("click-button", 1))
        late = await environment.step(Wait(1.3))
        await pool.close()
        return late

    late = run(main())
    assert (late.done, late.reward, late.info["reason"]) == (True, -1.0, "timed out")


# -------------------------------------------------------------------------------------------------------------- faults


def test_a_killed_renderer_is_a_fault_and_the_next_reset_works(run, pool):
    async def main():
        async with leased(pool) as environment:
            await environment.close()
            before = {p.pid for p in renderers_under(os.getpid())}
            await environment.reset(task("click-button", 1))
            for process in renderers_under(os.getpid()):
                if process.pid not in before:
                    process.kill()
            with pytest.raises(EnvironmentFault):
                await environment.step(Click(80, 100))
            await environment.reset(task("click-button", 1))
            return environment.task.goal

    assert "button" in run(main())


def test_seeds_that_repeat_each_others_digits_are_different_episodes(run, pool):
    """The pages' generator repeats its key: without care, 2 and 222222 would be one and the same episode."""

    async def goals():
        environment = await pool.acquire()
        found = []
        for seed in (2, 22, 222222):
            await environment.reset(Task("miniwob", "enter-text", seed=seed))
            found.append(environment.task.goal)
        await pool.release(environment)
        return found

    assert len(set(run(goals()))) == 3


def test_pages_that_carry_state_over_are_known_tasks():
    assert set(task_names(unregistered=True)) >= CARRIES_OVER
