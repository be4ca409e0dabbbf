"""The computer tool: the official client's own loop drives a real Chromium, and the bundled policy solves the task."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI
from playwright.sync_api import Page, sync_playwright

from holotron.envs.chromium import find_chromium
from holotron.envs.miniwob import pages
from tests.server.inside import inside
from tests.server.pictures import data_url
from tests.server.process import ServerProcess, running

ROOT = Path(__file__).parents[2]
MANUAL = (ROOT / "docs" / "responses.md").read_text()
MODEL = "holotron-mini"
COMPUTER = {"type": "computer"}
PREVIEW = {"type": "computer_use_preview", "display_width": 160, "display_height": 160, "environment": "browser"}


def documented() -> dict[str, Any]:
    """The loop that docs/responses.md shows."""
    found = re.search(r"<!-- tested in .*? -->\n```python\n(.*?)```", MANUAL, re.S)
    assert found is not None
    names: dict[str, Any] = {}
    exec(compile(found[1], "docs/responses.md", "exec"), names)
    return names


@pytest.fixture(scope="module")
def mini() -> Iterator[ServerProcess]:
    with running("--memory.sessions", "16", "--memory.context", "4096") as server:
        yield server


@pytest.fixture
def client(mini: ServerProcess) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{mini.url}/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def browser_page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(headless=True))
        yield browser.new_context(viewport={"width": 160, "height": 210}, device_scale_factor=2).new_page()
        browser.close()


class Screen:
    """A MiniWoB++ page as the bundled policy was shown it: 160 x 160 without the instruction bar, drawn twice as large.
    Looks like a Playwright page to the documented loop, which counts in pixels of the screenshot."""

    def __init__(self, page: Page, task: str, seed: int, pixels: int) -> None:
        self.page = page
        self.keyboard = page.keyboard
        self.mouse = self
        self._scale = pixels / 160
        page.goto((pages() / "miniwob" / f"{task}.html").as_uri())
        page.evaluate(f"Math.seedrandom({seed}); core.EPISODE_MAX_TIME = 1e8; core.startEpisodeReal()")
        self.goal: str = page.evaluate("core.getUtterance()")
        self.reward = 0.0

    def click(self, x: float, y: float, button: str = "left") -> None:
        self.page.mouse.click(x / self._scale, y / self._scale + 50, button=button)
        self.page.wait_for_timeout(50)
        if self.page.evaluate("WOB_DONE_GLOBAL"):
            self.reward = self.page.evaluate("WOB_RAW_REWARD_GLOBAL")
            raise Done

    def screenshot(self) -> bytes:
        return self.page.screenshot(clip={"x": 0, "y": 50, "width": 160, "height": 160})


class Done(Exception):
    """The page has ended the episode."""


def test_the_documented_loop_solves_a_task(client: OpenAI, browser_page: Page) -> None:
    loop = documented()
    for task, seed in (("click-button", 1), ("enter-text", 2)):
        screen = Screen(browser_page, task, seed, pixels=320)
        with pytest.raises(Done):
            loop["run"](client, MODEL, screen, screen.goal, steps=8)
        assert screen.reward == 1


def test_every_step_computes_its_screenshot_and_no_more(client: OpenAI, browser_page: Page) -> None:
    """With the older tool: one action a call, in pixels of the display."""
    loop = documented()
    screen = Screen(browser_page, "enter-text", 1, pixels=160)
    response = client.responses.create(model=MODEL, tools=[PREVIEW], input=screen.goal, truncation="auto")
    (call,) = response.output
    assert call.action.type == "screenshot"
    assert call.pending_safety_checks == []
    assert response.usage.total_tokens == 0
    known, kinds = 0, []
    while not screen.reward and len(kinds) < 8:
        with client.responses.stream(
            model=MODEL,
            tools=[PREVIEW],
            previous_response_id=response.id,
            input=[shown(call.call_id, screen.screenshot())],
        ) as stream:
            events = [event.type for event in stream]
            response = stream.get_final_response()
        assert events[-3:] == ["response.output_item.added", "response.output_item.done", "response.completed"]
        usage = response.usage
        if usage.total_tokens:  # else the rest of an action that takes several calls
            assert usage.input_tokens_details.cached_tokens >= max(0, known - 2)
            known = usage.total_tokens
        (call,) = [item for item in response.output if item.type == "computer_call"]
        kinds.append(call.action.type)
        with contextlib.suppress(Done):
            loop["perform"](screen, call.action)
    assert screen.reward == 1
    assert kinds == ["click", "keypress", "type", "click"]


def test_a_run_that_nobody_stores(client: OpenAI, browser_page: Page) -> None:
    """The whole run is sent each time, one action a call: what remains of an action comes back in the call's id."""
    loop = documented()
    screen = Screen(browser_page, "enter-text", 1, pixels=160)
    items: list[Any] = [{"role": "user", "content": screen.goal}]
    kinds: list[str] = []
    while not screen.reward and len(kinds) < 8:
        response = client.responses.create(model=MODEL, tools=[PREVIEW], input=items, store=False)
        (call,) = [item for item in response.output if item.type == "computer_call"]
        kinds.append(call.action.type)
        with contextlib.suppress(Done):
            loop["perform"](screen, call.action)
        items += [*(item.to_dict() for item in response.output), shown(call.call_id, screen.screenshot())]
    assert screen.reward == 1
    assert kinds == ["screenshot", "click", "keypress", "type", "click"]


def shown(call_id: str, png: bytes) -> dict[str, Any]:
    image = "data:image/png;base64," + base64.b64encode(png).decode()
    return {"type": "computer_call_output", "call_id": call_id, "output": output(image)}


def output(image: str) -> dict[str, Any]:
    return {"type": "computer_screenshot", "image_url": image}


def test_branches_and_a_client_that_sends_everything_again(client: OpenAI, browser_page: Page) -> None:
    screen = Screen(browser_page, "click-button", 2, pixels=320)
    picture = "data:image/png;base64," + base64.b64encode(screen.screenshot()).decode()
    content = [{"type": "input_text", "text": screen.goal}, {"type": "input_image", "image_url": picture}]
    asked: list[Any] = [{"role": "user", "content": content}]
    request: dict[str, Any] = {"model": MODEL, "tools": [COMPUTER]}
    first = client.responses.create(**request, input=asked)
    (call,) = [item for item in first.output if item.type == "computer_call"]
    assert call.actions[0].type == "click"  # the screenshot came with the goal

    after = shown(call.call_id, screen.screenshot())
    branches = [client.responses.create(**request, input=[after], previous_response_id=first.id) for _ in range(2)]
    assert branches[0].output[-1].actions == branches[1].output[-1].actions
    assert branches[0].usage == branches[1].usage
    assert branches[0].usage.input_tokens_details.cached_tokens >= first.usage.total_tokens - 2
    whole = [*asked, *(item.to_dict() for item in first.output), after]
    again = client.responses.create(**request, input=whole)
    assert again.output[-1].actions == branches[0].output[-1].actions
    assert again.usage == branches[0].usage

    # Nothing stored: the calls are put back into the model's own words.
    first = client.responses.create(**request, input=asked, store=False)
    whole = [*asked, *(item.to_dict() for item in first.output), shown(first.output[-1].call_id, screen.screenshot())]
    unstored = client.responses.create(**request, input=whole, store=False)
    assert unstored.output[-1].actions == branches[0].output[-1].actions
    assert abs(unstored.usage.input_tokens - again.usage.input_tokens) <= 16  # without where it looked first


def test_other_instructions_are_read(client: OpenAI) -> None:
    picture = {"type": "input_image", "image_url": data_url("white", size=(320, 320))}
    asked = [{"role": "user", "content": [{"type": "input_text", "text": "Click the button."}, picture]}]
    request: dict[str, Any] = {"model": MODEL, "tools": [COMPUTER], "tool_choice": "required"}
    first = client.responses.create(**request, input=asked, instructions="Be quick.")
    call = first.output[-1]
    after = {"type": "computer_call_output", "call_id": call.call_id, "output": output(data_url(size=(320, 320)))}
    same, other, none = (
        client.responses.create(**request, input=[after], previous_response_id=first.id, instructions=words)
        for words in ("Be quick.", "Be very quick.", None)
    )
    assert other.usage.input_tokens == same.usage.input_tokens + 5 > none.usage.input_tokens
    assert same.usage.resumed == "session" != other.usage.resumed
    # A grammar is no part of the prompt: having to act or not, the session goes on.
    free = client.responses.create(
        model=MODEL, tools=[COMPUTER], input=[after], previous_response_id=first.id, instructions="Be quick."
    )
    assert free.usage == same.usage
    # Another word from the user while the task runs belongs to the goal.
    said = client.responses.create(
        **request, input=[after, {"role": "user", "content": "Hurry."}], previous_response_id=first.id
    )
    assert said.usage.input_tokens == none.usage.input_tokens + len("\nHurry.")


def test_what_the_computer_cannot_be_asked(client: OpenAI, mini: ServerProcess) -> None:
    function = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
    shot = output(data_url())
    for fields, code, words in (
        ({"tools": [COMPUTER, function]}, "not_supported", "beside functions"),
        ({"tools": [COMPUTER], "text": {"format": {"type": "json_object"}}}, "not_supported", "text.format"),
        ({"tools": [COMPUTER, PREVIEW]}, None, "one computer"),
        ({"tools": [{"type": "computer_use_preview"}]}, None, "display_width"),
        ({"tool_choice": {"type": "computer"}}, None, "not in tools"),
        (
            {"tools": [COMPUTER], "input": [{"type": "computer_call_output", "call_id": "x", "output": shot}]},
            None,
            "No",
        ),
        (
            {"tools": [COMPUTER], "input": [*foreign({"type": "click", "button": "wheel", "x": 1, "y": 1}, shot)]},
            None,
            "wheel",
        ),
        ({"tools": [COMPUTER], "input": [*foreign({"type": "fly"}, shot)]}, None, "fly"),
        (
            {"tools": [COMPUTER], "input": [*foreign({"type": "wait"}, output("data:image/png;base64,AAAA"))]},
            None,
            "image",
        ),
    ):
        body = {"model": MODEL, "input": "Go", **fields}
        response = httpx.post(f"{mini.url}/v1/responses", json=body, timeout=60)
        assert response.status_code == 400, response.text
        error = response.json()["error"]
        assert error["code"] == code
        assert words in error["message"]
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model=MODEL, input=[*foreign({"type": "wait"}, shot)])  # without the tool


def foreign(action: dict[str, Any], shot: dict[str, Any]) -> list[dict[str, Any]]:
    """A conversation that another server had."""
    return [
        {"role": "user", "content": [{"type": "input_text", "text": "Go"}, {"type": "input_image", **image()}]},
        {"type": "computer_call", "id": "cu_1", "call_id": "c1", "actions": [action], "status": "completed"},
        {"type": "computer_call_output", "call_id": "c1", "output": shot},
    ]


def image() -> dict[str, str]:
    return {"image_url": data_url(size=(64, 64))}


def test_a_server_that_was_not_told_how() -> None:
    with inside() as server:
        refused = server.post("/v1/responses", {"input": "Go", "tools": [COMPUTER]})
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == "not_supported"
        plain = {"input": "Go", "tools": [COMPUTER], "tool_choice": "none", "max_output_tokens": 2}
        assert server.post("/v1/responses", plain).status_code == 200
