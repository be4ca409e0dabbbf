"""The live page as a person uses it, on an agent in a real browser: watch, hold, correct, refuse, instruct, take over
with mouse and keyboard, hand back, answer questions, come back after a reload and after a lost connection. What was
done is then looked for where it counts: at the site, in what the policy was told, and in the run directory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from holotron.agent.approval import Approval
from holotron.agent.dialects import make_dialect
from holotron.agent.history import parse_history
from holotron.api.running import run_async
from holotron.console.live import LiveRun
from holotron.console.serving import serving
from holotron.evals.costs import Price, Prices
from holotron.rollouts.export import export_sft
from holotron.rollouts.store import RunReader
from holotron.types import Action, Answer, Click, Completion, Observation, Outcome, Reply, Trajectory, Wait, Write
from holotron.view import View
from tests.console.watching import PHONE, Viewer, Wire, serious, too_wide, until, until_true
from tests.envs.site import Site

pytestmark = pytest.mark.browser

PAGE = """<!doctype html><title>A small shop</title><style>body { margin: 0; font: 16px sans-serif }
  * { position: fixed } button { width: 120px; height: 40px }</style>
<script>const add = (text) => fetch('/did?' + text)</script>
<button style="left: 20px; top: 20px" onclick="add('wrong')">Wrong</button>
<button style="left: 200px; top: 20px" onclick="add('right')">Right</button>
<input style="left: 20px; top: 100px; width: 300px; height: 30px">
<input type=password style="left: 20px; top: 150px; width: 300px; height: 30px">
<form method=post action=/order><button style="left: 20px; top: 220px">Order</button></form>
"""


PRICES = Prices("EUR", {"director-1": Price(prompt=1000.0, generated=1000.0)})  # for a million tokens


class Director:
    """A policy whose next reply is whatever the test says, when it says so."""

    name = "director"

    def __init__(self) -> None:
        self.replies: asyncio.Queue[Action] = asyncio.Queue()
        self.told: list[str] = []
        self.instructions: list[str] = []
        self.seen: list[Observation] = []

    def describe(self) -> dict[str, Any]:
        return {"policy": "director", "model": "director-1"}

    async def start(self, task: Any, environment: Any = None) -> Director:
        return self

    async def act(self, observation: Observation, *, feedback: str = "", must_answer: bool = False) -> Reply:
        self.told.append(feedback)
        self.seen.append(observation)
        action = await self.replies.get()
        spent = Completion("{raw}", prompt_tokens=1200, cached_tokens=1000, generated_tokens=30)
        return Reply(spent, "a note", f"I think I should {action.tool_name}.", action)

    def instruct(self, text: str) -> None:
        self.instructions.append(text)

    async def close(self) -> None:
        pass


class Stage:
    """An agent at work in a browser of its own, with the page beside it."""

    def __init__(self, site: Site, folder: Path, confirm: str = "never") -> None:
        self.site = site
        self.folder = folder
        self.policy = Director()
        self.live = LiveRun(folder, title="run", prices=PRICES)
        self._confirm = Approval(confirm, self.live.ask)  # type: ignore[arg-type]

    def did(self, what: str) -> bool:
        return any(f"did?{what}" in path for path in self.site.paths)

    async def play(self) -> Trajectory:
        await run_async(
            "Order something.", url=self.site.url("/"), policy=self.policy, private=True, confirm=self._confirm,
            out=self.folder, view=View(width=640, height=400), listeners=[self.live.hear], steer=self.live.steer,
        )  # fmt: skip
        (trajectory,) = RunReader(self.folder).trajectories()
        return trajectory


class Noted(Site):
    """Remembers queries too."""

    @property
    def paths(self) -> list[str]:
        return self.queries

    def __init__(self) -> None:
        super().__init__()
        self.queries: list[str] = []
        self.pages["/"] = PAGE
        handler = self._server.RequestHandlerClass
        inner = handler.do_GET

        def noting(request: Any) -> None:
            self.queries.append(request.path)
            inner(request)

        handler.do_GET = noting  # type: ignore[method-assign]


@pytest.fixture
def site() -> Iterator[Noted]:
    one = Noted()
    yield one
    one.close()


async def screen_point(page: Page, x: float, y: float) -> tuple[float, float]:
    """Where a place of the agent's page lies on the live screen."""
    box = await page.locator("#shot").bounding_box()
    assert box is not None
    return box["x"] + x * box["width"] / 640, box["y"] + y * box["height"] / 400


def test_hold_edit_step_refuse_instruct_and_take_over(viewer: Viewer, site: Noted, tmp_path: Path):
    async def story() -> Trajectory:
        stage = Stage(site, tmp_path / "run")
        with serving(stage.live) as served:
            playing = asyncio.ensure_future(stage.play())
            await until(lambda: stage.policy.told or playing.done(), 60)
            async with (
                Wire(served.port) as wire,
                viewer.looking_at(served.url.replace(str(served.port), str(wire.port))) as page,
            ):
                # One session: the page opens it by itself. It shows the screen, where it is, and what the agent does.
                await expect(page.locator("#goal")).to_have_text("Order something.")
                await expect(page.locator("#state-text")).to_have_text("thinks")
                await expect(page.locator("#place-title")).to_have_text("A small shop")
                await expect(page.locator("#about")).to_contain_text("director-1 · web")
                assert await page.evaluate("document.getElementById('shot').naturalWidth") == 640
                assert await serious(page) == []

                # Pause: it thinks on, and stands still before it acts.
                await page.get_by_role("button", name="Pause", exact=True).click()
                await expect(page.get_by_role("button", name="Resume")).to_be_visible()
                stage.policy.replies.put_nowait(Click(80, 40, "the wrong one"))
                await expect(page.locator("#hold-action")).to_have_text("click (80, 40) on “the wrong one”")
                await expect(page.locator("#texts")).to_contain_text("I think I should click.")
                await expect(page.locator("#announce")).to_contain_text(
                    "It waits for you before step 1: click (80, 40)"
                )
                assert await page.locator("#marks .ring").count() > 0
                assert await serious(page) == []
                await asyncio.sleep(0.3)
                assert not stage.did("wrong")

                # Edit: another place, by a click on the screen, and a reason.
                await page.get_by_role("button", name="Edit…").click()
                await page.mouse.click(*await screen_point(page, 260, 40))
                assert abs(float(await page.input_value("#editor-x")) - 260) < 3
                assert await serious(page) == []
                await page.fill("#editor-reason", "the right one is beside it")
                await page.get_by_role("button", name="Do this instead").click()
                await until(lambda: stage.did("right"))
                assert not stage.did("wrong")

                # One step.
                stage.policy.replies.put_nowait(Wait(0))
                await expect(page.locator("#hold-action")).to_have_text("wait 0 s")
                await page.get_by_role("button", name="Step", exact=True).click()
                await until(lambda: len(stage.policy.told) == 3)

                # Refuse, with a reason that the policy is told.
                stage.policy.replies.put_nowait(Click(80, 40))
                await expect(page.locator("#hold-action")).to_have_text("click (80, 40)")
                await page.fill("#hold-reason", "that one does nothing")
                await page.locator("#hold").get_by_role("button", name="Refuse").press("Enter")
                await until(lambda: len(stage.policy.told) == 4)
                await until_true(page, "document.activeElement.id === 'main'")
                assert "that one does nothing" in stage.policy.told[3]

                # An instruction, and on.
                await page.fill("#tell-text", "Take the cheapest.")
                await page.get_by_role("button", name="Send").click()
                await expect(page.locator("#said")).to_have_text("It is told with its next turn.")
                await page.get_by_role("button", name="Resume").click()
                stage.policy.replies.put_nowait(Wait(0))
                await until(lambda: len(stage.policy.told) == 5)
                first, second = stage.policy.instructions
                assert "instead of your last action" in first and "the right one is beside it" in first
                assert second == "Take the cheapest."

                await expect(page.locator("#cost")).to_contain_text("4.92 EUR")  # four turns of 1,200 and 30 tokens
                # Reload: everything is there again.
                await page.reload()
                await expect(page.locator("#goal")).to_have_text("Order something.")
                await expect(page.locator("#film button")).to_have_count(5)

                # Take over while it thinks: click into the field, type, use a key; then a password; hand back.
                await page.get_by_role("button", name="Take over").click()
                await expect(page.locator("#flag")).to_have_text("You have control")
                await page.mouse.click(*await screen_point(page, 100, 115))
                await expect(page.locator("#film button")).to_have_count(6)
                await page.keyboard.type("Ada Lovelace")
                await page.keyboard.press("Backspace")
                await expect(page.locator("#film")).to_contain_text("press Backspace")
                assert await serious(page) == []
                await page.mouse.click(*await screen_point(page, 100, 165))
                await page.wait_for_timeout(400)
                await page.keyboard.type("hunter2")
                await page.keyboard.press("Shift+Escape")
                assert await page.evaluate("document.activeElement.id") == "take", "the keyboard is not trapped"
                await expect(page.locator("#film")).to_contain_text("write “•••”")

                # A connection that is lost for a while: what was missed is there when it is back.
                wire.cut()
                await expect(page.locator("#connection")).to_have_text("reconnecting")
                count = await page.locator("#film button").count()
                await stage.live.command("web/task/0", {"do": "act", "action": {"tool_name": "wait", "seconds": 0}})
                await asyncio.sleep(0.5)
                wire.mend()
                await expect(page.locator("#connection")).to_have_text("live", timeout=10_000)
                await expect(page.locator("#film button")).to_have_count(count + 1)

                await page.get_by_role("button", name="Hand back").click()
                await expect(page.locator("#state-text")).to_have_text("thinks")
                said = stage.policy.instructions[-1]
                assert "took over" in said and "Ada Lovelace" in said and "hunter2" not in said

                stage.policy.replies.put_nowait(Answer("All done."))
                await expect(page.locator("#state-text")).to_have_text("answered")
                await expect(page.locator("#action")).to_have_text("All done.")
                await expect(page.locator("#controls")).to_be_hidden()
                # Looking back: the first step says who did it and what had been proposed.
                await page.locator("#film button").first.click()
                await expect(page.locator("#by")).to_have_text("Step 1 · A person did this")
                await expect(page.locator("#texts")).to_contain_text("click (80, 40)")
                await expect(page.locator("#texts")).to_contain_text("the right one is beside it")
                assert await serious(page) == []
            return await playing

    trajectory = viewer.run(story())
    assert trajectory.outcome is Outcome.UNSCORED and trajectory.assisted
    done = [(step.author, step.reply.action) for step in trajectory.steps]
    assert done[0][0] == "person" and trajectory.steps[0].proposed == Click(80, 40, "the wrong one")
    assert trajectory.steps[0].reply.thought == "the right one is beside it"
    assert ("person", Write("Ada Lovelace", overwrite=False)) in done
    assert [author for author, _ in done[:4]] == ["person", "agent", "agent", "agent"]
    assert trajectory.steps[2].info["refused"]
    assert trajectory.steps[-1].instruction == "Take the cheapest.", "of the first turn that was not interrupted"
    stored = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
    assert "hunter2" not in stored and not (tmp_path / "run" / ".live.json").exists()
    # What a person did can be learnt.
    out = tmp_path / "sft.jsonl"
    report = export_sft(
        tmp_path / "run",
        out,
        make_dialect("holotron"),
        parse_history("append"),
        where=lambda row: True,
        author="person",
    )
    (line,) = [json.loads(text) for text in out.read_text().splitlines()]
    learnt = [line["messages"][place]["content"][0]["text"] for place in line["learn"]]
    assert report.replies == len(learnt) and "the right one is beside it" in learnt[0] and "Ada Lovelace" in str(learnt)


def test_questions_are_answered_on_the_page_also_on_a_phone(viewer: Viewer, site: Noted, tmp_path: Path):
    async def story() -> Trajectory:
        stage = Stage(site, tmp_path / "run", confirm="critical")
        with serving(stage.live) as served:
            playing = asyncio.ensure_future(stage.play())
            await until(lambda: stage.policy.told or playing.done(), 60)
            async with viewer.looking_at(served.url, size=PHONE, scheme="dark", touch=True) as page:
                stage.policy.replies.put_nowait(Click(80, 240, "Order"))
                await expect(page.locator("#question")).to_be_visible()
                await expect(page.locator("#question-summary")).to_contain_text("POST to http://127.0.0.1")
                await expect(page.locator("#question-lines")).to_contain_text('"Order"')
                await expect(page.locator("#alarm")).to_contain_text("The agent asks: POST")
                assert await page.title() == "(1) run · holotron"
                assert await too_wide(page) == [] and await serious(page) == []
                await page.fill("#question-reason", "not today")
                await page.locator("#question").get_by_role("button", name="Refuse").tap()
                await until(lambda: len(stage.policy.told) == 2)
                assert "not today" in stage.policy.told[1] and "/order" not in site.seen

                # Take over by touch: tap the screen, type in the field below it.
                await page.get_by_role("button", name="Take over").tap()
                await expect(page.locator("#hands")).to_be_visible()
                assert await too_wide(page) == [] and await serious(page) == []
                await page.touchscreen.tap(*await screen_point(page, 100, 115))
                await expect(page.locator("#film button")).to_have_count(3)
                await page.fill("#type-text", "Grace")
                await page.get_by_role("button", name="Type", exact=True).tap()
                await expect(page.locator("#film")).to_contain_text("write “Grace”")
                await page.get_by_role("button", name="Hand back").tap()
                await until(lambda: len(stage.policy.told) == 3)

                stage.policy.replies.put_nowait(Click(80, 240, "Order"))
                await expect(page.locator("#question")).to_be_visible()
                await page.get_by_role("button", name="Allow once").tap()
                await until(lambda: "/order" in site.seen)

                # Stop wants to be said twice.
                await until(lambda: len(stage.policy.told) == 4)
                await page.get_by_role("button", name="Stop", exact=True).tap()
                await page.get_by_role("button", name="Stop for good?").tap()
                await expect(page.locator("#state-text")).to_have_text("stopped")
                assert await too_wide(page) == []
            return await playing

    trajectory = viewer.run(story())
    assert (trajectory.outcome, trajectory.error) == (Outcome.EXHAUSTED, "stopped by a person")
    first = trajectory.steps[0]
    assert first.info["refused"] and first.info["steered"][0]["reason"] == "not today"
    assert [step.author for step in trajectory.steps] == ["agent", "person", "person", "agent"]
    assert "Grace" in str(trajectory.steps[2].reply.action)
