"""The first things people try from Python, right and wrong: errors are one sentence of `holotron.errors`."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import holotron
from holotron.agent.events import Observed
from holotron.errors import ConfigError, InputError
from holotron.rollouts.store import RunReader
from holotron.types import Action, Answer, Completion, Observation, Outcome, Reply, Task
from tests.envs.site import Site


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    site = Site()
    site.pages["/"] = "<title>Shop</title><p>Hello"
    yield site
    site.close()


def shout(task: Task, observation: Observation) -> Action:
    return Answer(task.goal.upper() + observation.title)


async def later(task: Task, observation: Observation) -> Reply:
    return Reply(Completion(text=""), thought="easy", action=Answer("later"))


async def never(task: Task, observation: Observation) -> Action:
    await asyncio.sleep(300)
    return Answer("")


# ------------------------------------------------------------------------------------------------------------- one task


@pytest.mark.browser
def test_a_function_is_a_policy(site: Site, tmp_path: Path):
    def run(policy: Any, **more: Any) -> holotron.RunResult:
        return holotron.run("x", url=site.url("/"), private=True, policy=policy, **more)

    result = run(shout, out=tmp_path / "run")
    assert (result.answer, result.answered) == ("XShop", True)
    assert repr(result).startswith("RunResult(unscored, 'XShop', 1 steps, ")
    assert "function" in str(RunReader(tmp_path / "run").manifest["config"]["policy"])
    assert run(later).steps[0].reply.thought == "easy"
    wrong = run(lambda task, observation: "click there")
    assert wrong.outcome is Outcome.POLICY_ERROR and "return an action of holotron.types" in wrong.error
    with pytest.raises(ConfigError, match="one task is not resumed; choose another folder"):
        run(shout, out=tmp_path / "run")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("file:///home/ann/page.html", r"http\.server.*http://127\.0\.0\.1:8000/page\.html, with --private"),
        (__file__, r"is a file, .*:8000/test_newcomers\.py"),
        ("http://two words/", "not a valid address"),
        (
            "https://ann:secret-pw@other.example/",
            "^https://other.example/ cannot be opened: .* not in the list of allowed",
        ),
        ("https://shop.example:s3cr3t-token/", "secret:token"),
    ],
)
def test_a_start_that_cannot_be_is_said_before_anything_is_loaded(url: str, says: str):
    token = holotron.Secret("token", "s3cr3t-token", ("shop.example",))
    with pytest.raises(ConfigError, match=says) as told:
        holotron.run("x", url=url, policy="http://127.0.0.1:9", allow="shop.example", secrets=[token])
    assert "s3cr3t" not in str(told.value) and "secret-pw" not in str(told.value)


@pytest.mark.browser
def test_where_web_tasks_may_go(site: Site, tmp_path: Path):
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(json.dumps({"url": site.url("/"), "goal": "x"}) + "\n")
    with pytest.raises(ConfigError, match="private address"):
        holotron.rollout(str(tasks), policy=shout, out=tmp_path / "refused")
    assert holotron.rollout(str(tasks), policy=shout, allow="127.0.0.1", out=tmp_path / "run").done == 1
    (trajectory,) = RunReader(tmp_path / "run").trajectories()
    assert trajectory.answer == "XShop"


@pytest.mark.browser
def test_from_a_thread_and_two_at_once(site: Site):
    async def both() -> list[str]:
        tasks = [holotron.run_async(goal, url=site.url("/"), private=True, policy=shout) for goal in "ab"]
        return [result.answer for result in await asyncio.gather(*tasks)]

    assert asyncio.run(both()) == ["AShop", "BShop"]
    found: list[str] = []
    thread = threading.Thread(
        target=lambda: found.append(holotron.run("t", url=site.url("/"), private=True, policy=shout).answer)
    )
    thread.start()
    thread.join()
    assert found == ["TShop"]


@pytest.mark.browser
def test_cancelled_it_stops_and_keeps_what_was_done(site: Site, tmp_path: Path):
    async def main() -> None:
        def hear(episode: str, event: object) -> None:
            if isinstance(event, Observed):  # as soon as it has seen something
                task.cancel()

        work = holotron.run_async(
            "x", url=site.url("/"), private=True, policy=never, out=tmp_path / "run", listeners=[hear]
        )
        task = asyncio.ensure_future(work)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    (trajectory,) = RunReader(tmp_path / "run").trajectories()
    assert (trajectory.outcome, trajectory.error) == (Outcome.EXHAUSTED, "interrupted")


@pytest.mark.browser
def test_ctrl_c_reaches_the_script(site: Site, tmp_path: Path):
    """A script over many tasks has to stop, and not to go on with the next one."""
    script = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may have it ignored
import holotron
from tests.api.test_newcomers import never
for number in range(2):
    print("begins", flush=True)
    try:
        holotron.run("x", url={site.url("/")!r}, private=True, policy=never, out=f"run{{number}}",
                     listeners=[lambda episode, event: print(type(event).__name__, flush=True)])
    except KeyboardInterrupt:
        print("stopped", flush=True)
        raise SystemExit(130)
"""
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": f"{root / 'src'}:{root}"}
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() != "Observed":
            assert process.poll() is None
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.split() == ["Ended", "stopped"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"goal": ""}, "goal is what the agent is to do"),
        ({"goal": None}, "goal is what the agent is to do"),
        ({"url": ""}, "url is where the agent starts"),
        ({"url": None}, "url is where the agent starts"),
        ({"url": "file:///etc/passwd"}, "only http and https"),
        ({"steps": 0}, "steps is a whole number, at least 1"),
        ({"steps": "3"}, "steps is a whole number, at least 1"),
        ({"seconds": -1}, "seconds is a number above 0"),
        ({"tokens": 0}, "tokens is a whole number"),
        ({"view": {"scale": 2}}, "view is a holotron.View"),
        ({"policy": None}, "policy is a model or an address"),
        ({"policy": dict}, "policy is a model or an address"),
        ({"policy": "rndom"}, "did you mean random"),
        ({"policy": "nowhere:make"}, "cannot load the policy nowhere:make"),
        ({"allow": "http://x"}, "is not a host pattern"),
        ({"secrets": "password"}, "'password' is no secret; write NAME=VARIABLE@HOST"),
        ({"confirm": True}, "confirm is never, critical, always"),
    ],
)
def test_wrong_arguments_of_run(wrong: dict[str, Any], says: str):
    given: dict[str, Any] = {"goal": "x", "url": "http://127.0.0.1:1/", "policy": shout, **wrong}
    with pytest.raises(ConfigError, match=says) as caught:
        holotron.run(given.pop("goal"), **given)
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.__context__ is None or caught.value.__suppress_context__ or "load the policy" in says


def test_arguments_that_python_checks():
    with pytest.raises(TypeError, match="missing a required"):
        holotron.run("x")  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="no attribute 'rum'") as caught:
        _ = holotron.rum
    assert caught.value.name == "rum" and caught.value.obj is holotron  # so that Python says "Did you mean: 'run'?"


def test_the_small_policy_says_what_it_is_not_made_for():
    toys = pytest.warns(UserWarning, match="holotron-mini is small and was trained on toy pages")
    with toys, pytest.raises(ConfigError):
        holotron.run("x", url="file:///x")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"suite": "miniwbo"}, "did you mean miniwob"),
        ({"tasks": "click-tset"}, "did you mean click-test"),
        ({"seeds": 3}, "seeds is a range"),
        ({"seeds": range(0)}, "seeds is a range"),
        ({"policy": 3}, "policy is a model or an address"),
        ({"allow": "x.com"}, "brings its own pages"),
    ],
)
def test_wrong_arguments_of_suites(wrong: dict[str, Any], says: str, tmp_path: Path):
    given: dict[str, Any] = {"suite": "miniwob", "policy": "random", "out": tmp_path / "run", **wrong}
    suite = given.pop("suite")
    for play in (holotron.evaluate, holotron.rollout):
        with pytest.raises(ConfigError, match=says):
            play(suite, **given)


# -------------------------------------------------------------------------------------------------------------- a model


@pytest.fixture(scope="module")
def model() -> Iterator[holotron.Model]:
    with holotron.Model("tiny", device="cpu") as model:
        yield model


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"messages": None}, "messages are a text, or a list"),
        ({"messages": []}, "at least one message"),
        ({"messages": [{"role": "x", "content": "y"}]}, "role is one of"),
        ({"images": b"none"}, "none of PNG, JPEG"),
        ({"images": ["nowhere.png"]}, "the picture nowhere.png cannot be read"),
        ({"schema": {"type": "nonsense"}}, "json_schema cannot be used"),
        ({"tools": [3]}, "tools\\[0\\] must be an object"),
        ({"sampling": {"max_tokens": 3}}, "sampling is a holotron.SamplingParams"),
        ({"temperature": 0}, "write sampling=model.sampling\\(temperature=...\\)"),
        ({"image": b""}, "did you mean images"),
    ],
)
def test_wrong_arguments_of_chat(model: holotron.Model, wrong: dict[str, Any], says: str):
    given: dict[str, Any] = {"messages": "x", **wrong}
    with pytest.raises(InputError, match=says):
        model.chat(given.pop("messages"), **given)


def test_pictures_in_every_form(model: holotron.Model, tmp_path: Path):
    picture = Image.new("RGB", (64, 64), "red")
    data = io.BytesIO()
    picture.save(data, "PNG")
    (tmp_path / "page.png").write_bytes(data.getvalue())
    forms: list[Any] = [picture, data.getvalue(), [data.getvalue()], tmp_path / "page.png", str(tmp_path / "page.png")]
    one = model.sampling(max_tokens=1)
    assert len({model.chat("x", images=form, sampling=one).prompt_tokens for form in forms}) == 1


def test_token_ids_of_the_wrong_shape():
    network, _ = holotron.load_model("tiny", device="cpu")
    wrong: list[Any] = [torch.zeros(2, 3, dtype=torch.long), torch.zeros(3), [1, 2]]
    for ids in wrong:
        with pytest.raises(InputError, match="one row of whole numbers"):
            network(ids)
    with pytest.raises(InputError, match="lengths add up to 4"):
        network(torch.zeros(3, dtype=torch.long), [2, 2])


def test_a_model_in_a_running_loop_and_closed_twice():
    async def main() -> str:
        with holotron.Model("tiny", device="cpu") as model:
            reply = model.chat("x", sampling=model.sampling(max_tokens=2)).finish_reason
            model.close()
        return reply

    assert asyncio.run(main()) == "length"
    for wrong, says in (({"source": "tinny"}, "did you mean tiny"), ({"device": "cuda:9"}, "cuda:9 was asked for")):
        with pytest.raises(ConfigError, match=says):
            holotron.Model(**{"source": "tiny", **wrong})
    with pytest.raises(ConfigError, match=r"config is a holotron\.EngineConfig"):
        holotron.Model("tiny", device="cpu", config={"kv_tokens": 3})  # type: ignore[arg-type]
