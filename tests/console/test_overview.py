"""Many sessions at once, and runs that have ended, in a real browser: the worst first, filters, the keyboard alone,
phone width, text of strangers, and the command line that opens it all."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import expect

from holotron.agent.loop import Limits
from holotron.console.live import LiveRun
from holotron.console.recorded import RecordedRun
from holotron.console.serving import serving
from holotron.errors import EnvironmentFault
from holotron.evals.costs import Price, Prices
from holotron.rollouts.runner import RolloutSettings, rollout
from holotron.rollouts.store import RunReader, RunWriter
from holotron.types import Click, Completion, Outcome, Reply, Task, Trajectory
from tests.agent.toy import ButtonPool
from tests.cli.calling import call, refused
from tests.console.watching import PHONE, Viewer, serious, too_wide, until, until_true

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror='window.stolen=1'></script><script>window.stolen=1</script>"
PRICES = Prices("EUR", {"crowd": Price(prompt=1000.0, generated=2000.0)})


class Crowd:
    """Each task's name says how its agent behaves; those that wait do so until they are told to go on."""

    name = "crowd"

    def __init__(self) -> None:
        self.go = asyncio.Event()

    def describe(self) -> dict[str, Any]:
        return {"policy": "crowd", "model": "crowd"}

    async def start(self, task: Task, environment: Any) -> Crowd:
        one = Crowd()
        one.go, one.task, one.environment, one.step = self.go, task, environment, 0  # type: ignore[attr-defined]
        return one

    async def act(self, observation: Any, *, feedback: str = "", must_answer: bool = False) -> Reply:
        self.step += 1  # type: ignore[attr-defined]
        task, environment = self.task, self.environment  # type: ignore[attr-defined]
        spent = Completion(HOSTILE, HOSTILE, 1000, 900, 50)
        if task.name == "circles" and self.step <= 3:  # type: ignore[attr-defined]
            return Reply(spent, HOSTILE, HOSTILE, Click(1, 1, HOSTILE))
        if task.name == "wrong":
            other = next(button for button in environment.buttons if button is not environment.target)
            return Reply(spent, action=Click(*other.centre))
        if task.name != "right":
            await self.go.wait()
        return Reply(spent, HOSTILE, HOSTILE, Click(*environment.target.centre, HOSTILE))

    async def close(self) -> None:
        pass


def tasks() -> list[Task]:
    names = ["waits"] * 8 + ["circles"] * 2 + ["wrong"] * 2 + ["right"] * 3
    return [Task("buttons", name, seed=seed) for seed, name in enumerate(names)]


def test_the_worst_come_first_and_can_be_filtered(viewer: Viewer, tmp_path: Path):
    async def story() -> None:
        policy, live = Crowd(), LiveRun(tmp_path / "run", title="rollout buttons", prices=PRICES)
        live.describe(policy.describe(), "buttons")
        with serving(live) as served:
            playing = asyncio.ensure_future(
                rollout(
                    tasks(), policy, ButtonPool(), tmp_path / "run", settings=RolloutSettings(sessions=15),
                    limits=Limits(repeats=9), listeners=[live.hear], steer=live.steer, on_progress=live.progress,
                )
            )  # fmt: skip
            await until(lambda: sum(steps or 0 for (steps,) in live.board.column("steps")) >= 11)
            async with viewer.looking_at(served.url) as page:
                await expect(page.locator("#tiles li")).to_have_count(15)
                await live.command("buttons/waits/4", {"do": "take_over"})
                order = page.locator("#tiles .tile-name")
                await expect(order.nth(0)).to_have_text("waits · 4")
                await expect(page.locator("#announce")).to_have_text("1 session waiting for you")
                names = [re.sub(r"\W.*", "", name) for name in await order.all_inner_texts()]
                assert names == ["waits", "circles", "circles", *["waits"] * 7, "wrong", "wrong", *["right"] * 3]
                trouble = page.locator(".tile[data-kind=trouble] .word")
                await expect(trouble.first).to_have_text("thinks, goes in circles")
                assert await page.title() == "(1) rollout buttons · holotron"
                await expect(page.locator("#totals")).to_contain_text("5 of 15")
                await expect(page.locator("#tiles li").last).to_contain_text("1 step · 1050 tokens · 1.10 EUR")
                # Every tile gets a picture, made small.
                drawn = "[...document.querySelectorAll('#tiles img')].every((image) => image.naturalWidth)"
                await until_true(page, drawn)
                assert await serious(page) == []

                for kind, count in {"Needs you": 1, "In trouble": 2, "Failed": 2, "Done": 3, "All": 15}.items():
                    await page.get_by_role("radio", name=kind).check(force=True)
                    await expect(page.locator("#tiles li")).to_have_count(count)
                await page.fill("#search", "wrong/1")
                await expect(page.locator("#tiles li")).to_have_count(2)
                await page.fill("#search", "")

                # Everybody stops before the next action, also those that begin later, and goes on.
                await page.get_by_role("button", name="Pause all").click()
                await expect(page.get_by_role("button", name="Resume all")).to_be_visible()
                policy.go.set()
                await expect(page.locator(".tile[data-kind=asks]")).to_have_count(10)
                await page.get_by_role("button", name="Resume all").click()
                await live.command("buttons/waits/4", {"do": "hand_back"})
                await expect(page.locator(".tile[data-kind=good]")).to_have_count(13)
                await playing
                live.over()
                await expect(page.locator("#connection")).to_have_text("ended")
                assert await page.evaluate("window.stolen") is None
        assert sorted(row["id"] for row in RunReader(tmp_path / "run").episodes()) == sorted(t.id for t in tasks())

    viewer.run(story())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """A run that has ended."""
    out = tmp_path_factory.mktemp("recorded") / "run"

    def trouble(call: str) -> None:
        if call == "step" and next(calls) % 7 == 6:
            raise EnvironmentFault("the page crashed")

    calls = iter(range(10_000))

    async def play() -> None:
        policy = Crowd()
        policy.go.set()
        settings = RolloutSettings(sessions=4, attempts=5)
        await rollout(tasks(), policy, ButtonPool(trouble), out, settings=settings, limits=Limits(repeats=9))

    asyncio.run(play())
    return out


@pytest.mark.parametrize(("size", "scheme"), [((1300, 900), "dark"), (PHONE, "light")])
def test_a_run_that_has_ended_opens_in_the_same_page(viewer: Viewer, recorded: Path, size: Any, scheme: str):
    async def story() -> None:
        with serving(RecordedRun(recorded, prices=PRICES)) as served:
            async with viewer.looking_at(served.url, size=size, scheme=scheme) as page:
                await expect(page.locator("#tiles li")).to_have_count(15)
                await expect(page.locator("#connection")).to_have_text("recorded")
                await expect(page.locator("#pause-all")).to_be_hidden()
                assert await serious(page) == [] and await too_wide(page) == []
                # By keyboard alone: into the filters, to the first tile, open it, step through it, and back.
                await page.focus("#search")
                await page.keyboard.type("circles")
                await expect(page.locator("#tiles li")).to_have_count(2)
                await page.keyboard.press("Tab")
                assert await page.evaluate("document.activeElement.className") == "tile"
                await page.keyboard.press("Enter")
                await expect(page.locator("#goal")).to_be_visible()
                await until_true(page, "document.activeElement.id === 'main'")
                await expect(page.locator("#film button")).to_have_count(4)
                await expect(page.locator("#state-text")).to_have_text("success")
                await expect(page.locator("#controls")).to_be_hidden()
                await page.keyboard.press("Home")
                await expect(page.locator("#position")).to_have_text("step 1 of 4")
                await expect(page.locator("#texts")).to_contain_text(HOSTILE)
                assert await page.evaluate("window.stolen") is None
                await until_true(page, "document.getElementById('shot').naturalWidth === 320")
                await page.keyboard.press("ArrowRight")
                await expect(page.locator("#announce")).to_contain_text("Step 2")
                assert await page.locator("#film [aria-current=step] .n").inner_text() == "2"
                await expect(page.locator("#cost")).to_contain_text("4.40 EUR")
                assert await serious(page) == [] and await too_wide(page) == []
                await page.reload()
                await expect(page.locator("#film button")).to_have_count(4)
                await page.keyboard.press("a")
                await expect(page.locator("#overview")).to_be_visible()
                await until_true(page, "document.activeElement.className === 'tile'")
                await page.keyboard.press("/")
                await until_true(page, "document.activeElement.id === 'search'")
                await page.get_by_role("button", name="Keys and help").click()
                assert await serious(page) == []
                await page.keyboard.press("Escape")

    viewer.run(story())


def test_a_run_that_another_process_writes_is_followed(viewer: Viewer, recorded: Path, tmp_path: Path):
    whole = list(RunReader(recorded).trajectories())

    async def story() -> None:
        manifest = {"kind": "rollout", "config": {}, "episodes": [one.id for one in whole]}
        with RunWriter(tmp_path / "run", manifest) as writer:
            writer.append(whole[0])
            with serving(RecordedRun(tmp_path / "run")) as served:
                async with viewer.looking_at(served.url) as page:
                    await expect(page.locator("#totals")).to_contain_text("1 of 15")
                    for trajectory in whole[1:5]:
                        writer.append(trajectory)
                    await expect(page.locator("#tiles li")).to_have_count(5, timeout=10_000)

    viewer.run(story())


def test_a_question_that_nobody_sees_is_a_no():
    from holotron.envs.effects.question import Kind, Question

    live = LiveRun(None, title="run", alone_seconds=1.0)
    decision = asyncio.run(live.ask(Question(Kind.FORM, "POST to https://shop.example")))
    assert not decision.allow and "nobody" in decision.reason


# -------------------------------------------------------------------------------------------------------- command line


def test_wrong_targets_are_told_in_one_line(tmp_path: Path):
    assert "is not a run directory" in refused("watch", tmp_path)
    assert "no live page" in refused("watch", "http://127.0.0.1:9/w/x/")
    wrong = ("--out", tmp_path / "x", "--watch", "--watch-at", "a:b")
    assert "HOST:PORT" in refused("rollout", "--policy", "random", *wrong)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Any]:
    started: list[subprocess.Popen[str]] = []

    def start(*words: object) -> subprocess.Popen[str]:
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "COLUMNS": "300"}
        one = subprocess.Popen(
            [sys.executable, "-m", "holotron", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, text=True, env=environment, cwd=tmp_path,
        )  # fmt: skip
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()
        one.wait()
        assert one.stdout is not None
        one.stdout.close()


SUITE = """
import asyncio
from holotron.suites.base import Suite, SuiteRequest, environments_of
from tests.agent.toy import ButtonEnvironment
class Slow(ButtonEnvironment):
    async def step(self, action):
        await asyncio.sleep(0.3)
        return await super().step(action)
def buttons(request: SuiteRequest) -> Suite:
    return Suite("buttons", request.tasks_of("buttons", ["press"]), environments_of(Slow), actions=("click",))
"""


def test_the_commands_find_each_other(process: Any, tmp_path: Path):
    """`eval --watch` in one process, `watch RUN` in another; a command reaches the agent; and when all is over, the run
    opens all the same."""
    (tmp_path / "mine.py").write_text(f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n{SUITE}")
    words = ("--policy", "random:1", "--seeds", "0:2", "--sessions", "2", "--steps", "60", "--out", "run")
    playing = process("eval", "mine.py:buttons", *words, "--no-report", "--watch")
    line = next(line for line in playing.stdout if line.startswith("watch: "))
    url = line.split()[1]
    found = call("watch", tmp_path / "run")
    assert (found.status, found.out.strip()) == (0, url)
    assert call("watch", url).out.strip() == url
    state = httpx.get(url + "state").json()["changes"]
    assert state["run"]["title"] == "eval mine.py:buttons" and state["run"]["live"]
    for seed in range(2):
        reply = httpx.post(url + "command", json={"session": f"buttons/press/{seed}", "do": "stop"})
        assert reply.status_code == 200 or "over" in reply.json()["error"]
    told = playing.stdout.read()
    assert playing.wait(60) == 0, told
    rows = RunReader(tmp_path / "run").episodes()
    assert len(rows) == 2
    helped = sum(row["assisted"] for row in rows)
    assert (f"a person had a hand in {helped} episodes" in told) == bool(helped)
    showing = process("watch", "run")
    url = showing.stdout.readline().strip()
    assert len(httpx.get(url + "state").json()["changes"]["sessions"]) == 2
    assert httpx.post(url + "command", json={"session": "x", "do": "stop"}).status_code == 409


def test_trajectories_that_never_began_are_no_trouble():
    live = LiveRun(None, title="test")

    async def main() -> None:
        from holotron.agent.events import Ended

        live.steer("a")
        live.hear("a", Ended(Trajectory("a", Task("s", "t"), (), Outcome.ENVIRONMENT_ERROR, error="no browser")))
        with pytest.raises(Exception, match="over"):
            await live.command("a", {"do": "pause"})

    asyncio.run(main())
