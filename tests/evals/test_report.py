"""The report, looked at in a real browser: it works offline, shows what happened, and nothing in it can misbehave."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from PIL import Image
from playwright.async_api import Page, Playwright, async_playwright

from holotron.agent.loop import Limits
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.envs.chromium import find_chromium
from holotron.evals.report import ReportLimits, write_report
from holotron.rollouts.runner import RolloutSettings, rollout
from holotron.rollouts.store import RunReader
from holotron.types import Click, Completion, Drag, PressKeys, Reply, Scroll, Task, Write
from tests.agent.toy import ButtonEnvironment, ButtonPool
from tests.evals.runs import make_run

pytestmark = pytest.mark.browser

HOSTILE = "</script><script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'>%%DATA%%"


class Talker:
    """A policy with something to say: every kind of mark, words with markup in them, and a few failures."""

    name = "talker"

    def describe(self):
        return {"policy": "talker", "model": "talker-1", "dialect": {"name": "holotron"}, "history": "append"}

    async def start(self, task, environment):
        self = Talker()
        self.environment = environment
        self.step = 0
        return self

    async def act(self, observation, *, feedback="", must_answer=False):
        self.step += 1
        completion = Completion(HOSTILE, HOSTILE, prompt_tokens=90, cached_tokens=60, generated_tokens=9, images_sent=1)
        environment: ButtonEnvironment = self.environment
        wrong = next(button for button in environment.buttons if button is not environment.target)
        seed = environment.task.seed
        actions = [
            Write("héllo " + HOSTILE, 100, 50, "a field"),
            Scroll("down"),
            Drag(20, 30, 200, 150),
            PressKeys(("Control", "a")),
            Click(*(wrong if seed % 4 == 0 else environment.target).centre, HOSTILE),
        ]
        if self.step == 2:
            return Reply(completion, error="y is missing")
        return Reply(completion, "remember " + HOSTILE, "I think " + HOSTILE, actions[(self.step - 1) % 5])

    async def close(self):
        pass


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("report") / "run"
    tasks = [Task("buttons", f"task-{seed % 3}", seed=seed) for seed in range(12)]
    tasks.append(Task("buttons", "task-0", HOSTILE, seed=99))
    asyncio.run(
        rollout(
            tasks, Talker(), ButtonPool(), out, settings=RolloutSettings(sessions=3), limits=Limits(steps=8, repeats=99)
        )
    )
    return out


class Eyes:
    """One browser for all tests here; `look` runs a test's coroutine on the loop that browser lives on."""

    def __init__(self) -> None:
        self._loop = asyncio.Runner()
        self._driver = self._loop.run(self._start())

    async def _start(self) -> Playwright:
        driver = await async_playwright().start()
        self._browser = await driver.chromium.launch(executable_path=find_chromium())
        return driver

    def look(self, coroutine):
        return self._loop.run(coroutine)

    def close(self) -> None:
        self._loop.run(self._browser.close())
        self._loop.run(self._driver.stop())
        self._loop.close()

    @asynccontextmanager
    async def opened(
        self, path: Path, fragment: str = "", scheme: str = "light", width: int = 1300
    ) -> AsyncIterator[Page]:
        """The report in a fresh tab. Any error, console message or request to anywhere fails the test."""
        page = await self._browser.new_page(viewport={"width": width, "height": 1300}, color_scheme=scheme)
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: problems.append(line.text))
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        await page.goto(path.as_uri() + fragment)
        try:
            yield page
            assert problems == []
            assert [url for url in requests if not url.startswith(("data:", path.as_uri()))] == []
        finally:
            await page.close()


@pytest.fixture(scope="module")
def eyes() -> Iterator[Eyes]:
    pair = Eyes()
    yield pair
    pair.close()


def test_it_shows_scores_and_plays_trajectories(run, tmp_path, eyes):
    report = write_report(run, tmp_path / "report.html")
    assert (report.episodes, report.playable) == (13, 13)
    assert report.bytes == report.path.stat().st_size

    async def look():
        async with eyes.opened(report.path) as page:
            assert "talker-1" in await page.inner_text("h1")
            assert "holotron" in await page.inner_text("#subtitle")
            figures = await page.inner_text("#figures")
            assert "mean success of 3 tasks" in figures
            assert await page.locator("#tasks tbody tr").count() == 3
            assert await page.locator("#tasks tbody .bar u").count() == 3
            assert await page.locator("#episodes li").count() == 13
            assert await page.is_visible("#player")
            assert await page.evaluate("document.getElementById('shot').naturalWidth") == 320
            assert await page.is_hidden("#notice")
            # filter by task, by outcome, by words
            await page.click("#tasks tbody tr >> nth=1")
            assert "4 of 13" in await page.inner_text("#episode-count")
            await page.click("#tasks tbody tr >> nth=1")
            await page.select_option("#outcome", "failure")
            failures = await page.locator("#episodes li").count()
            assert failures == sum(row["outcome"] == "failure" for row in RunReader(run).episodes()) > 0
            await page.select_option("#outcome", "")
            await page.fill("#search", "task-2/5")
            assert await page.locator("#episodes li").count() == 1
            await page.click("#episodes li")
            assert "buttons/task-2/5" in await page.inner_text("#facts")
            # steps by keyboard, buttons and slider
            assert await page.inner_text("#position") == "step 1 / 5"
            assert "“héllo" in await page.inner_text("#details .action")
            assert "I think" in await page.inner_text("#details")
            assert "90 prompt tokens (60 cached)" in await page.inner_text("#details")
            await page.locator("h1").click()
            await page.keyboard.press("ArrowRight")
            assert await page.inner_text("#position") == "step 2 / 5"
            assert "y is missing" in await page.inner_text("#details .error")
            await page.click("#last")
            assert await page.inner_text("#position") == "the end"
            await page.click("#previous")
            assert await page.inner_text("#position") == "step 5 / 5"
            await page.keyboard.press("ArrowLeft")
            assert await page.locator("#marks text").text_content() == "Control + a"
            assert "press Control+a" in await page.inner_text("#details .action")
            # another episode by arrow keys, once the filter is gone
            await page.fill("#search", "")
            await page.locator("h1").click()
            before = await page.inner_text("#facts")
            await page.keyboard.press("ArrowDown")
            assert await page.inner_text("#facts") != before
            # playing moves on by itself
            await page.click("#first")
            await page.click("#play")
            await page.locator("#position", has_text="step 2").wait_for()
            await page.click("#play")
            assert await page.inner_text("#play") == "Play"

    eyes.look(look())


def test_the_click_is_drawn_where_it_was(run, tmp_path, eyes):
    """The ring's centre lies on the button in the screenshot, at any size of the window."""
    report = write_report(run, tmp_path / "report.html")
    clicked = next(
        trajectory
        for trajectory in RunReader(run).trajectories()
        if isinstance(trajectory.steps[-1].reply.action, Click)
    )
    action = clicked.steps[-1].reply.action
    fragment = f"#{clicked.id.replace('/', '%2F')}/{len(clicked.steps) - 1}"

    async def look(width):
        async with eyes.opened(report.path, fragment, width=width) as page:
            image = await page.locator("#shot").bounding_box()
            dot = await page.locator("#marks .dot").bounding_box()
            x = (dot["x"] + dot["width"] / 2 - image["x"]) / image["width"] * 320
            y = (dot["y"] + dot["height"] / 2 - image["y"]) / image["height"] * 240
            assert (x, y) == pytest.approx((action.x, action.y), abs=1.0)
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    for width in (1300, 700, 380):
        eyes.look(look(width))


def test_text_from_pages_and_models_stays_text(run, tmp_path, eyes):
    report = write_report(run, tmp_path / "report.html", title="Run " + HOSTILE)

    async def look():
        async with eyes.opened(report.path, "#buttons%2Ftask-0%2F99/0") as page:
            assert HOSTILE in await page.text_content("#goal")
            assert HOSTILE in await page.text_content("h1")
            assert HOSTILE in await page.text_content("#details")
            assert await page.evaluate("window.stolen") is None
            assert await page.locator("img").count() == 2  # the screenshot, and how episodes ended

    eyes.look(look())


def test_several_runs_share_a_page(run, tmp_path, eyes):
    other = make_run(tmp_path / "other", {"task-0": "+-!", HOSTILE: "-"}, suite="grounded", model=HOSTILE)
    report = write_report([run, other], tmp_path / "both.html")

    async def look():
        async with eyes.opened(report.path) as page:
            assert await page.locator("#runs tbody tr").count() == 2
            assert await page.locator("#plots img").count() == 2
            for image in await page.locator("#plots img").all():
                assert await image.evaluate("image => image.complete && image.naturalWidth > 0")
            assert await page.locator("#tasks tbody tr").count() == 5
            assert "17 of 17" in await page.inner_text("#episode-count")
            await page.click("#runs tbody tr >> nth=1")
            assert await page.locator("#tasks tbody tr").count() == 2
            assert "4 of 17" in await page.inner_text("#episode-count")
            await page.select_option("#outcome", "environment_error")
            await page.click("#episodes li")
            assert "no verdict" in await page.inner_text("#facts")
            assert "other · grounded/task-0/2" in await page.inner_text("#facts")
            assert await page.get_attribute("#marks polygon.target", "points") == "5,5 20,5 20,15 5,15"
            assert "task-0" in await page.evaluate("decodeURIComponent(location.hash)")
            await page.reload()  # the address leads back to the same step of the same run
            assert "other · grounded/task-0/2" in await page.inner_text("#facts")
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert await page.evaluate("window.stolen") is None

    eyes.look(look())


def test_light_and_dark(run, tmp_path, eyes):
    report = write_report(run, tmp_path / "report.html")

    async def brightness(scheme, press=""):
        async with eyes.opened(report.path, scheme=scheme) as page:
            if press:
                await page.keyboard.press(press)
            shot = Image.open(io.BytesIO(await page.screenshot())).convert("L")
            return shot.getpixel((3, 3))

    light, dark = eyes.look(brightness("light")), eyes.look(brightness("dark"))
    assert light > 200
    assert dark < 60
    assert eyes.look(brightness("dark", "t")) > 200


def test_limits_are_kept_and_said(run, tmp_path, eyes):
    small = write_report(run, tmp_path / "a.html", limits=ReportLimits(episodes=4))
    assert small.playable == 4
    tiny = write_report(run, tmp_path / "b.html", limits=ReportLimits(image_bytes=3000, image_side=100))
    assert tiny.bytes < write_report(run, tmp_path / "c.html").bytes

    async def look():
        async with eyes.opened(small.path) as page:
            assert "4 of 13 episodes can be played" in await page.inner_text("#notice")
            assert await page.locator("#episodes li").count() == 13
            assert await page.locator("#episodes li.flat").count() == 9
            played = await page.locator("#episodes li:not(.flat) .tag").all_inner_texts()
            assert played.count("failure") >= 3  # what went wrong comes first
        async with eyes.opened(tiny.path) as page:
            assert "did not fit" in await page.inner_text("#notice")
            await page.keyboard.press("ArrowUp")
            assert await page.locator("#no-shot").count() == 1

    eyes.look(look())


def test_an_empty_run_and_a_lost_picture(run, tmp_path, eyes):
    import shutil

    asyncio.run(rollout([], ScriptedPolicy(lambda *look: None), ButtonPool(), tmp_path / "empty"))
    empty = write_report(tmp_path / "empty")
    assert empty.path == tmp_path / "empty" / "report.html"
    shutil.copytree(run, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "images")
    lost = write_report(tmp_path / "copy")

    async def look():
        async with eyes.opened(empty.path) as page:
            assert await page.is_hidden("#player")
        async with eyes.opened(lost.path) as page:
            assert "are missing" in await page.inner_text("#notice")
            assert await page.is_visible("#no-shot")

    eyes.look(look())
