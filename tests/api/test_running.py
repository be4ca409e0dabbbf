"""One task from Python, in a real browser."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import holotron
from holotron import errors
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.envs.chromium import FLAGS, find_chromium
from holotron.rollouts.store import RunReader
from holotron.types import Answer, Click, Outcome, Write
from tests.envs.site import Site

pytestmark = pytest.mark.browser

LOGIN = """<title>Shop</title><body style="margin:0"><p id=who></p>
<button style="position:absolute;left:0;top:100px;width:200px;height:50px"
  onclick="document.cookie='user=ann;max-age=9999'; localStorage.basket='mug'; show()">Remember me</button>
<script>function show() { who.textContent = document.cookie + '/' + (localStorage.basket || '') }; show()</script>"""


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.pages["/"] = LOGIN
    site.pages["/buy"] = """<form method=post action=/order><button style="position:fixed;left:0;top:0;width:300px;
        height:200px">Buy now</button></form>"""
    yield site
    site.close()


def acting(*actions: Any) -> ScriptedPolicy:
    return ScriptedPolicy(lambda environment, observation, step: actions[step])


async def reads(environment: Any, observation: Any, step: int) -> Answer:
    return Answer(await environment.evaluate("document.getElementById('who').textContent"))


def test_a_task_is_one_call(site: Site, tmp_path: Path):
    told: list[str] = []
    result = holotron.run(
        "Log in.",
        url=site.url("/"),
        private=True,
        policy=acting(Click(100, 125), Answer("done")),
        out=tmp_path / "run",
        listeners=[lambda episode, event: told.append(type(event).__name__)],
    )
    assert (result.outcome, result.answer, result.answered) == (Outcome.UNSCORED, "done", True)
    assert [step.reply.action for step in result.steps] == [Click(100, 125), Answer("done")]
    assert result.cost.seconds > 0
    assert told[0] == "Began" and told[-1] == "Ended"
    assert json.loads(json.dumps(result.to_json()))["steps"][1]["action"]["content"] == "done"
    (recorded,) = RunReader(tmp_path / "run").trajectories()
    assert recorded.answer == "done"


def test_an_event_loop_gets_the_other_function(site: Site):
    async def main() -> None:
        with pytest.raises(errors.ConfigError, match=r"await holotron\.run_async"):
            holotron.run("x", url=site.url("/"))
        result = await holotron.run_async("x", url=site.url("/"), private=True, policy=acting(Answer("yes")))
        assert result.answer == "yes" and result.folder is None

    asyncio.run(main())


def test_what_cannot_be_taken_back_is_asked_about(site: Site):
    questions: list[str] = []

    def say(answer: bool) -> Any:
        return lambda question: questions.append(question) or answer

    for confirm, ordered in ((say(False), 0), ("critical", 0), (say(True), 1)):
        site.seen.clear()
        result = holotron.run(
            "Buy it.",
            url=site.url("/buy"),
            private=True,
            policy=acting(Click(150, 100), Answer("bought")),
            confirm=confirm,
        )
        assert site.seen.count("/order") == ordered
        assert bool(result.refused) is not bool(ordered)
        assert result.answered is bool(ordered)
    assert len(questions) == 2 and "Buy now" in questions[0]
    with pytest.raises(errors.ConfigError, match="confirm is never"):
        holotron.run("x", url=site.url("/"), private=True, policy=acting(), confirm=3)  # type: ignore[arg-type]


def test_a_dead_site_is_an_outcome(site: Site):
    site.close()
    result = holotron.run("x", url=site.url("/"), private=True, policy=acting())
    assert result.outcome is Outcome.ENVIRONMENT_ERROR
    assert "did not open" in result.error and not result.steps


def test_log_ins_are_kept_in_a_profile(site: Site, tmp_path: Path):
    profile = tmp_path / "saved" / "shop.json"

    def who() -> str:
        policy = ScriptedPolicy(reads)
        return holotron.run("Who?", url=site.url("/"), private=True, policy=policy, profile=profile).answer

    assert who() == "/"
    holotron.run(
        "Log in.", url=site.url("/"), private=True, profile=profile, policy=acting(Click(100, 125), Answer(""))
    )
    assert stat.S_IMODE(profile.stat().st_mode) == 0o600
    assert who() == "user=ann/mug"
    profile.write_text("not a profile")
    with pytest.raises(errors.ConfigError, match="not a saved browser profile"):
        who()
    assert profile.read_text() == "not a profile"
    profile = profile / "below-a-file.json"
    with pytest.raises(errors.StorageError, match="cannot write"):  # before anything is done, not at the end
        who()


@pytest.fixture
def running_browser(tmp_path: Path, site: Site) -> Iterator[str]:
    """A person's browser, with a tab of theirs open."""
    command = [str(find_chromium()), *FLAGS, "--headless", "--no-sandbox", "--remote-debugging-port=0"]
    command += [f"--user-data-dir={tmp_path / 'user'}", site.url("/")]
    port = tmp_path / "user" / "DevToolsActivePort"
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            while not port.exists() or not port.read_text().strip():
                assert process.poll() is None
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port.read_text().split()[0]}"
        finally:
            process.kill()


def test_working_in_a_browser_that_runs_already(site: Site, running_browser: str):
    def tabs() -> list[str]:
        return [tab["url"] for tab in httpx.get(f"{running_browser}/json/list").json() if tab["type"] == "page"]

    while site.url("/") not in tabs():
        time.sleep(0.1)
    before = tabs()
    options: dict[str, Any] = {"url": site.url("/"), "private": True, "cdp": running_browser}
    holotron.run("Log in.", policy=acting(Click(100, 125), Answer("")), **options)
    assert holotron.run("Who?", policy=ScriptedPolicy(reads), **options).answer == "user=ann/mug"
    assert tabs() == before  # and it still runs

    other = Site("127.0.0.2")
    try:
        site.pages["/leak"] = f"<title>x</title><img src='{other.url('/pixel')}'>"
        allowed = {**options, "url": site.url("/leak"), "allow": [site.host]}
        result = holotron.run("x", policy=acting(Click(5, 5), Answer("")), **allowed)
        assert other.seen == []
        assert any("not in the list" in step.observation.note for step in result.steps)
    finally:
        other.close()

    with pytest.raises(errors.ConfigError, match="no browser to attach to"):
        holotron.run("x", url=site.url("/"), private=True, policy=acting(), cdp="http://127.0.0.1:9")


def test_secrets_are_typed_and_not_seen(site: Site):
    site.pages["/form"] = "<input style='position:fixed;left:0;top:0;width:300px;height:50px' id=who>"
    secret = holotron.Secret("pin", "4711-0815", hosts=("127.0.0.1",), fields=("any",))
    seen: list[bool] = []

    async def script(environment: Any, observation: Any, step: int) -> Any:
        if step == 0:
            return Write("<secret:pin>", 100, 25)
        seen.append(await environment.evaluate("document.getElementById('who').value") == "4711-0815")
        return Answer("typed")

    result = holotron.run(
        "Type it.", url=site.url("/form"), private=True, policy=ScriptedPolicy(script), secrets=[secret]
    )
    assert seen == [True]
    assert "4711-0815" not in str(result.to_json()) and "4711-0815" not in str(result.steps)
