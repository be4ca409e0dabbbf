"""verifiers, both ways: our suites as its environments, its environments as our suites. With the real package where
`make test-exchange` has made an environment for it."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import holotron
from holotron.errors import ConfigError, EnvironmentFault, MissingDependency
from holotron.exchange.verifiers_package import write_package
from holotron.suites.base import find_suite
from holotron.suites.verifiers_bridge.process import PYTHON, HostProcess
from holotron.suites.verifiers_bridge.showing import SIZE, content_text, shown
from holotron.types import Action, Answer, Click, Observation, StepResult, Write
from tests.exchange.seeing_model import click_the_colour, seeing_model

SOURCE = Path(holotron.__file__).parent.parent
THEIRS = Path(__file__).parent / "theirs"

# ------------------------------------------------------------------------------------------------- without verifiers


def test_a_package_is_written_by_their_conventions(tmp_path: Path) -> None:
    out = write_package("painted", tmp_path / "out", tasks="boxes-2", seeds="0:3")
    project = tomllib.loads((out / "pyproject.toml").read_text())
    assert project["project"]["name"] == "holotron-painted" and "verifiers>=0.4" in project["project"]["dependencies"]
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["holotron_painted"]
    module = (out / "holotron_painted" / "__init__.py").read_text()
    compile(module, "module", "exec")
    assert '__all__ = ["DirectHarness", "HolotronPaintedTaskset", "SuiteEnv", "load_environment"]' in module
    assert "suite: str = 'painted'" in module and "seeds: str = '0:3'" in module


def test_a_package_is_not_written_over_anything(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(ConfigError, match="not empty"):
        write_package("painted", tmp_path)
    assert os.listdir(tmp_path) == ["mine.txt"]
    with pytest.raises(ConfigError, match="cannot be the name"):
        write_package("painted", tmp_path / "new", name="a b")
    with pytest.raises(ConfigError, match="there is no task"):
        write_package("painted", tmp_path / "new", tasks="boxxes-2")
    assert not (tmp_path / "new").exists()


def test_what_is_held_out_says_so(tmp_path: Path) -> None:
    out = write_package("oscar:phone", tmp_path / "out", tasks="buy")
    assert "Nothing may be trained" in (out / "README.md").read_text()
    assert "oscar-phone" in tomllib.loads((out / "pyproject.toml").read_text())["project"]["name"]


def test_without_verifiers_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PYTHON, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=PYTHON):
        find_suite("verifiers:anything")
    monkeypatch.setenv(PYTHON, "/no/such/python")
    with pytest.raises(ConfigError, match="is no program"):
        find_suite("verifiers:anything")
    monkeypatch.setenv(PYTHON, sys.executable)
    for bad in ("verifiers:x,threshold=high", "verifiers:x,oops"):
        with pytest.raises(ConfigError, match="x,"):
            find_suite(bad)
    assert find_suite("verifiers:x,threshold=-2,depth=3").facts == {
        "environment": "x", "settings": {"depth": 3}, "threshold": -2.0,
    }  # fmt: skip


def test_requests_are_shown() -> None:
    plain = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 1 + 1? " * 400}]
    assert shown(plain, [], []).image_size == SIZE
    file = io.BytesIO()
    Image.new("RGB", (30, 20), "red").save(file, "GIF")
    url = f"data:image/gif;base64,{base64.b64encode(file.getvalue()).decode()}"
    part: dict[str, Any] = {"type": "image_url", "image_url": {"url": url}}
    seen = shown([{"role": "user", "content": [{"type": "text", "text": "Look."}, part]}], [], [])
    assert (seen.mime, seen.image_size) == ("image/png", (30, 20))
    assert content_text([{"role": "user", "content": None}, {"role": "user", "content": [part]}]) == ""
    for bad in ("http://example.com/a.png", "data:image/png;base64,AAAA", "data:image/png;base64,@@"):
        with pytest.raises(EnvironmentFault, match="picture"):
            shown([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": bad}}]}], [], [])


def test_a_process_that_cannot_start_says_why() -> None:
    async def go() -> None:
        host = HostProcess(sys.executable, "anything", {})
        try:
            await host.play(0)
        finally:
            await host.close()

    with pytest.raises(ConfigError, match=r"verifiers cannot play anything: .*verifiers"):
        asyncio.run(go())


# ---------------------------------------------------------------------------------------------------- with verifiers

exchange = pytest.mark.exchange


def vf_eval(verifiers_bin: Path, package: Path, cwd: Path, url: str, *words: str) -> list[dict[str, Any]]:
    """Their command, their traces."""
    command = [str(verifiers_bin / "vf-eval"), *words, "--model", "seer", "--client.base-url", url]
    command += ["--client.api-key-var", "NOBODYS_KEY", "--no-rich"]
    environment = os.environ | {"PYTHONPATH": f"{SOURCE}:{package}"}
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    (found,) = cwd.glob("outputs/*/traces.jsonl")
    episodes = [json.loads(line) for line in found.read_text().splitlines()]
    return [trace for episode in episodes for trace in episode.get("traces", [episode])]


@exchange
def test_an_exported_package_installs(verifiers_bin: Path, tmp_path: Path) -> None:
    out = write_package("painted", tmp_path / "out", tasks="boxes-1", name="holotron-installed")
    target = tmp_path / "site"
    command = ["pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(target), str(out)]
    subprocess.run([str(verifiers_bin / "python"), "-m", *command], check=True, timeout=300)
    code = (
        "from holotron_installed import load_environment; e = load_environment(tasks='boxes-1', seeds='0:3');"
        "print(type(e).__name__, [t.data.name for t in e.taskset])"
    )
    environment = os.environ | {"PYTHONPATH": f"{SOURCE}:{target}"}
    said = subprocess.run(
        [str(verifiers_bin / "python"), "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.split()[0] == "SuiteEnv" and said.stdout.count("painted/boxes-1/") == 3


@exchange
def test_their_runner_plays_our_suite_with_a_model_from_outside(verifiers_bin: Path, tmp_path: Path) -> None:
    out = write_package("painted", tmp_path / "out", tasks="boxes-3,order-3", seeds="0:2")
    with seeing_model() as (url, requests):
        traces = vf_eval(verifiers_bin, out, tmp_path, url, "holotron-painted")
    assert len(traces) == 4 and all(trace["rewards"]["reward"]["score"] == 1.0 for trace in traces)
    assert sorted(trace["metrics"]["steps"] for trace in traces) == [1.0, 1.0, 3.0, 3.0]
    longest = max(requests, key=lambda request: len(request["messages"]))
    assert [m["role"] for m in longest["messages"]] == ["system", "user", "assistant", "user", "assistant", "user"]


@exchange
def test_a_model_that_talks_nonsense_gets_nothing_and_is_told(verifiers_bin: Path, tmp_path: Path) -> None:
    out = write_package("painted", tmp_path / "out", tasks="boxes-3")
    with seeing_model(lambda request: "I would rather not.") as (url, requests):
        (trace,) = vf_eval(verifiers_bin, out, tmp_path, url, "holotron-painted")
    assert trace["rewards"]["reward"]["score"] == 0.0 and trace["info"]["outcome"] == "failure"
    assert len(requests) == 4 and "JSON" in json.dumps(requests[-1]["messages"][-1])


Replies = list[Action | Callable[[Observation], Action]]


def play(
    monkeypatch: pytest.MonkeyPatch, python: Path, spec: str, replies: Replies, *, seed: int = 0, path: str = ""
) -> StepResult:
    monkeypatch.setenv(PYTHON, str(python))
    monkeypatch.setenv("PYTHONPATH", f"{THEIRS}:{SOURCE}:{path}")

    async def go() -> StepResult:
        suite = find_suite(spec, seeds=range(seed, seed + 1))
        pool = suite.open(2)
        environment = await pool.acquire()
        try:
            seen = await environment.reset(suite.tasks[0])
            assert environment.task.goal
            for reply in replies:
                result: StepResult = await environment.step(reply(seen) if callable(reply) else reply)
                seen = result.observation
            return result
        finally:
            await pool.release(environment)
            await pool.close()

    return asyncio.run(go())


@exchange
def test_an_environment_without_pictures(verifiers_bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = verifiers_bin / "python"
    result = play(monkeypatch, python, "verifiers:text-sums", [Click(1, 2), Write("The sum is 3.")], seed=1)
    assert (result.reward, result.done, result.success) == (1.0, True, True)
    with pytest.raises(ConfigError, match="has no task 2"):
        play(monkeypatch, python, "verifiers:text-sums,num_tasks=2", [], seed=2)


@exchange
def test_rewards_of_any_size(verifiers_bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = verifiers_bin / "python"
    result = play(monkeypatch, python, "verifiers:odd-rewards", [Write("1"), Write("9"), Write("5")])
    assert (result.reward, result.success) == (7.5, True)
    result = play(monkeypatch, python, "verifiers:odd-rewards,threshold=20", [Write("5")])
    assert (result.reward, result.success) == (12.5, False)
    result = play(monkeypatch, python, "verifiers:odd-rewards", [Write("9")] * 6)
    assert result.reward == -12.5 and not result.success
    result = play(monkeypatch, python, "verifiers:odd-rewards", [Answer("1")])  # it would have gone on
    assert result.done and not result.success
    with pytest.raises(EnvironmentFault, match="invalid literal"):  # its own fault, and no reward of 0
        play(monkeypatch, python, "verifiers:odd-rewards", [Write("no number")])


@exchange
def test_tools_can_be_called(verifiers_bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(seen: Observation) -> Action:
        assert "capital" in seen.note and "country" in seen.note
        return Write('{"name": "capital", "arguments": {"country": "Norway"}}')

    def answer(seen: Observation) -> Action:
        assert seen.note == "Oslo"
        return Write("It is Oslo.")

    result = play(monkeypatch, verifiers_bin / "python", "verifiers:with-tools", [call, answer])
    assert (result.reward, result.success) == (1.0, True)


@exchange
def test_there_and_back(verifiers_bin: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Our suite, exported, played by their package, as a suite of ours: pictures and clicks arrive as they left."""
    out = write_package("painted", tmp_path / "out", tasks="boxes-3", seeds="0:4")

    def look(seen: Observation) -> Action:
        url = f"data:image/png;base64,{base64.b64encode(seen.image).decode()}"
        goal = suite_goal
        parts = [{"type": "text", "text": f"<task>{goal}</task>"}, {"type": "image_url", "image_url": {"url": url}}]
        said = json.loads(click_the_colour({"messages": [{"role": "user", "content": parts}]}))["tool_call"]
        return Click(said["x"] / 1000 * seen.viewport[0], said["y"] / 1000 * seen.viewport[1])

    async def goal_of() -> str:
        suite = find_suite("painted", tasks="boxes-3", seeds=range(2, 3))
        environment = await suite.open(1).acquire()
        await environment.reset(suite.tasks[0])
        return environment.task.goal

    suite_goal = asyncio.run(goal_of())
    result = play(monkeypatch, verifiers_bin / "python", "verifiers:holotron-painted", [look], seed=2, path=str(out))
    assert (result.reward, result.done, result.success) == (1.0, True, True)
