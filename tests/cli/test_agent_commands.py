"""run, rollout, eval, export and report as a user calls them: real processes, a real browser, a real HTTP model."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holotron.rollouts.store import RunReader
from holotron.types import Click
from tests import warm
from tests.agent.strict_server import StrictServer, strict_server
from tests.agent.toy import COLOURS

pytestmark = pytest.mark.browser


def holotron(*arguments: object, code: int = 0, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [warm.holotron(), *map(str, arguments)]
    environment = os.environ | {"HOLOTRON_API_KEY": "sk-very-secret", "COLUMNS": "200"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=300, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def model() -> Iterator[StrictServer]:
    with strict_server() as double:
        yield double


@pytest.fixture
def page() -> Iterator[tuple[str, list[str]]]:
    """A page with a green button that tells its server when it is pressed."""
    seen: list[str] = []
    colour = "rgb({}, {}, {})".format(*COLOURS["green"])
    body = f"""<title>Shop</title><body style="margin:0"><button style="position:absolute; left:700px; top:433px;
        width:120px; height:50px; border:0; background:{colour}" onclick="fetch('/pressed')"></button>"""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", seen
        server.shutdown()


def test_run_shows_every_step_and_writes_a_report(tmp_path, model, page):
    url, seen = page
    done = holotron(
        "run", "Press the green button", "--url", url, "--private", "--policy", model.url, "--dialect", "holotron",
        "--steps", 3, "--out", "task", "--scale", 1.5, code=11, cwd=tmp_path,
    )  # fmt: skip
    assert seen.count("/pressed") == 2
    assert "on “green”" in done.stdout
    assert "there" in done.stdout  # the model's thought
    assert "exhausted after 3 steps" in done.stdout
    assert "report: task/report.html" in done.stdout
    (trajectory,) = RunReader(tmp_path / "task").trajectories()
    action = trajectory.steps[0].reply.action
    assert isinstance(action, Click)
    assert (action.x, action.y) == pytest.approx((760, 458), abs=1.5)
    assert trajectory.task.goal == "Press the green button"
    # The key was used, and is nowhere on disk.
    assert model.headers[-1]["authorization"] == "Bearer sk-very-secret"
    assert not any(b"sk-very-secret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert "best answer now" in json.dumps(model.requests[-1].model_dump())


def test_run_as_json_and_its_exit_status(tmp_path, model, page):
    url, _ = page
    done = holotron(
        "run", "Press the green button", "--url", url, "--private", "--policy", model.url, "--dialect", "holotron",
        "--steps", 2, "--confirm", "always", "--json", code=11, cwd=tmp_path,
    )  # fmt: skip
    result = json.loads(done.stdout)
    assert result["outcome"] == "exhausted"
    assert len(result["steps"]) == 2 and result["steps"][0]["refused"]
    assert len(result["refused"]) == 1 and "green" in result["refused"][0]
    assert (tmp_path / result["report"]).is_file()
    assert result["cost"]["generated_tokens"] > 0


def test_a_run_that_is_terminated_keeps_its_steps(tmp_path, model, page):
    url, seen = page
    command = [warm.holotron(), "run", "Press the green button", "--url", url, "--private"]
    command += ["--policy", model.url, "--dialect", "holotron", "--steps", "1000", "--out", "task"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        while seen.count("/pressed") < 2:  # so that one step is complete
            assert process.poll() is None
            time.sleep(0.1)
        process.terminate()
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + 15
    assert "interrupted" in said and "report: task/report.html" in said
    (trajectory,) = RunReader(tmp_path / "task").trajectories()
    assert trajectory.steps and trajectory.error == "interrupted"


def test_private_pages_need_permission(tmp_path, model, page):
    url, _ = page
    done = holotron("run", "Press it", "--url", url, "--policy", model.url, "--out", "t", code=2, cwd=tmp_path)
    assert "is at a private address" in done.stderr
    assert "(--private)" in done.stderr


def test_eval_report_export(tmp_path):
    done = holotron(
        "eval", "miniwob", "--policy", "scripted", "--tasks", "click-test,click-button", "--seeds", "0:2",
        "--sessions", 2, "--scale", 1, "--out", "runs/e", "--json", "e.json", cwd=tmp_path,
    )  # fmt: skip
    assert "mean_success 1.0000 over 2 tasks, 4 episodes" in done.stdout
    assert "click-button" in done.stdout
    assert (tmp_path / "runs/e/report.html").is_file()
    result = json.loads((tmp_path / "e.json").read_text())
    assert result["mean_success"] == 1.0
    more = (
        "eval", "miniwob", "--policy", "scripted", "--tasks", "click-test,click-button", "--seeds", "0:3",
        "--sessions", 2, "--scale", 1, "--no-report", "--out",
    )  # fmt: skip
    mixed = holotron(*more, "runs/e", code=2, cwd=tmp_path)  # its report would be of neither
    assert "episodes: 2 new" in mixed.stderr
    assert "6 episodes" in holotron(*more, "runs/f", cwd=tmp_path).stdout
    (tmp_path / "runs/e").rename(tmp_path / "runs/few")
    (tmp_path / "runs/f").rename(tmp_path / "runs/e")
    compared = holotron("eval", "compare", "runs/e", "runs/e", cwd=tmp_path)
    assert "100.0 -> 100.0 %, +0.0 points" in compared.stdout
    assert "6 episodes that both played, 0 won, 0 lost" in compared.stdout
    carded = holotron("eval", "card", "runs/e", "runs/few", cwd=tmp_path)
    assert "| e | 100.0 % |" in carded.stdout and "| few | 100.0 % |" in carded.stdout
    exported = holotron("export", "runs/e", "sft.jsonl", "--dialect", "compact", cwd=tmp_path)
    assert "6 conversations, 6 replies, 6 episodes" in exported.stdout
    assert len((tmp_path / "sft.jsonl").read_text().splitlines()) == 6
    made = holotron("report", "runs/e", "--out", "page.html", "--title", "Six", cwd=tmp_path)
    assert "6 episodes, 6 to play" in made.stdout
    assert "<title>Six</title>" in (tmp_path / "page.html").read_text()
    other = holotron(
        "eval", "miniwob", "--policy", "random", "--tasks", "click-test", "--out", "runs/e", code=2, cwd=tmp_path
    )
    assert "another configuration" in other.stderr


def test_rollout_with_a_model_in_this_process(tmp_path):
    done = holotron(
        "rollout", "--policy", "tiny", "--tasks", "click-test", "--seeds", "0:2", "--sessions", 2, "--scale", 1,
        "--steps", 2, "--max-tokens", 24, "--temperature", 1, "--out", "r", cwd=tmp_path,
    )  # fmt: skip
    assert "2 episodes" in done.stdout
    reader = RunReader(tmp_path / "r")
    assert reader.manifest["config"]["policy"]["dialect"]["name"] == "compact"
    assert reader.manifest["config"]["policy"]["history"] == "append"
    step = next(reader.trajectories()).steps[0]
    assert len(step.reply.completion.tokens) == len(step.reply.completion.logprobs) > 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["eval", "miniwob", "--policy", "scripted", "--tasks", "click-tset"], 2, "did you mean click-test"),
        (["eval", "miniwob", "--policy", "scripted", "--seeds", "5:5"], 2, "seeds '5:5'"),
        (["eval", "miniwob", "--policy", "no-such-model"], 2, "neither a folder"),
        (["rollout", "--policy", "random", "--suite", "mind2web", "--out", "r"], 2, "no suite 'mind2web'"),
        (["rollout", "--policy", "http://127.0.0.1:9/v1", "--out", "r"], 7, "cannot list the models"),
        (
            ["rollout", "--policy", "http://127.0.0.1:9/v1", "--model", "m", "--dialect", "x", "--out", "r"],
            2,
            "dialect",
        ),
        (["report", "nowhere"], 4, "not a run directory"),
        (["report", "nowhere", "nowhere"], 4, "a file to be written to"),
        (["eval", "compare", "nowhere"], 4, "not a run directory"),
        (["eval", "card", "nowhere"], 4, "not a run directory"),
        (["eval", "miniwob", "--policy", "scripted", "--prices", "none.toml"], 2, "cannot read the price table"),
        (["export", "nowhere", "x.jsonl"], 4, "not a run directory"),
    ],
)
def test_mistakes_get_one_line_and_a_code(tmp_path, arguments, code, words):
    done = holotron(*arguments, code=code, cwd=tmp_path)
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
