"""`holotron judge` and `holotron eval --judge` as people call them: killed, damaged, with a protocol of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from typer.testing import CliRunner

from holotron.cli.data import app as data_app
from holotron.cli.eval import app as eval_app
from holotron.cli.judge import app as judge_app
from holotron.errors import ConfigError, InputError
from holotron.evals.judging.cases import JudgeRequest, protocols
from holotron.evals.judging.store import read_verdict_rows
from tests.evals.judge_server import JudgeServer, Trouble, judge_server, text_of
from tests.evals.recorded import webvoyager_folder
from tests.evals.test_judging import judged


def test_killed_and_resumed_nothing_is_lost_or_asked_twice(tmp_path):
    for number in range(30):
        webvoyager_folder(tmp_path / "results", f"Shop--{number}", task=f"Number {number}.", shots=1)

    def slowly(request: dict[str, Any]) -> str:
        time.sleep(0.05)
        return "SUCCESS"

    arguments = ["judge", tmp_path / "results", "--judge-requests", "2", "--out", tmp_path / "verdicts", "--judge"]
    with judge_server(slowly) as server:
        command = [sys.executable, "-m", "holotron.cli.main", *map(str, arguments), server.url]
        first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _until(lambda: len(server.requests) >= 8, first)
        first.send_signal(signal.SIGKILL)
        first.wait()
        time.sleep(0.2)
        before = len(server.requests)
        kept = {row["id"] for row in read_verdict_rows(tmp_path / "verdicts")[1]}
        assert 5 <= len(kept) < 30
        result = judged(server, tmp_path / "results", model="looker", out=tmp_path / "verdicts")
    assert (result.figures.overall.successes, result.figures.overall.cases) == (30, 30)
    assert len(server.requests) - before == 30 - len(kept)
    assert len(read_verdict_rows(tmp_path / "verdicts")[1]) == 30


def _until(condition: Any, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)


def test_the_command_says_what_came_out_and_what_it_cost(tmp_path, monkeypatch):
    for number in range(4):
        webvoyager_folder(tmp_path / "run", f"{('Shop', 'Bank')[number % 2]}--{number}", task=f"Number {number}.")
    says = {"Number 0.": "SUCCESS", "Number 1.": "NOT SUCCESS", "Number 2.": "who knows"}

    def answer(request: dict[str, Any]) -> Any:
        return next((said for task, said in says.items() if task in text_of(request)), Trouble(500))

    monkeypatch.chdir(tmp_path)
    calibration = tmp_path / "calibration.json"
    rates = {"false_positive": {"count": 20, "of": 100}, "false_negative": {"count": 10, "of": 100}}
    calibration.write_text(json.dumps({"webvoyager, looker": rates}))

    def call(server: JudgeServer, *more: str) -> Any:
        out = ["--json", str(tmp_path / "found.json"), "--judge-price", "2.5,10", "--judge-seconds", "5"]
        out += ["--calibration", str(calibration)]
        return CliRunner().invoke(judge_app, ["run", "--judge", server.url, *out, *more])

    with judge_server(answer) as server:
        result = call(server)
        assert result.exit_code == 0, result.output
        assert {request["model"] for request in server.requests} == {"looker"}  # the only one it serves
        wrong = call(server, "--judge-price", "cheap")
        assert isinstance(wrong.exception, ConfigError)
        wrong = call(server, "--calibration", "nowhere.json")
        assert isinstance(wrong.exception, ConfigError)
    text = " ".join(result.output.split())
    assert "judged success 50.0 %" in text and "1 of 2" in text
    assert "undecided 2 of 4 (with them: 25.0 – 75.0 %)" in text
    assert "decided by failed 1, malformed 1, model 2" in text
    assert "3 requests, 3,000 + 30 tokens, 0.01 in money (0.008 per success)" in text
    assert "Shop 100.0 %" in text
    assert "likely true rate 42.9 %" in text  # (0.5 - 0.2) / (1 - 0.1 - 0.2), and wide, from two cases
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["verdicts"]["Bank--3"] is None
    assert found["overall"]["rate"] == 0.5
    assert found["manifest"]["config"]["protocol"] == "webvoyager"


def test_damaged_verdicts_are_found_and_made_again(tmp_path):
    webvoyager_folder(tmp_path, "Shop--0")
    with judge_server(lambda request: "SUCCESS") as server:
        folder = judged(server, tmp_path).folder
        [shard] = (folder / "verdicts").glob("*.parquet")
        shard.write_bytes(shard.read_bytes()[:-40])
        with pytest.raises(InputError, match="holotron data verify"):
            judged(server, tmp_path)
        assert CliRunner().invoke(data_app, ["verify", str(folder), "--quarantine"]).exit_code == 0
        assert judged(server, tmp_path).verdicts == {"Shop--0": True}
    assert len(server.requests) == 2


def test_an_evaluation_is_judged_at_its_end(tmp_path):
    """`holotron eval SUITE --judge ADDRESS`, with a suite and a policy of one's own."""
    (tmp_path / "mine.py").write_text(
        """
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.suites.base import Suite
from holotron.types import Answer, Task
from tests.agent.toy import ButtonPool


def suite(request):
    tasks = tuple(Task("mine", "press", seed=seed) for seed in request.seeds)
    return Suite("mine", tasks, lambda sessions: ButtonPool(), scored=False)


def policy(request):
    return ScriptedPolicy(lambda environment, observation, step: Answer("It is done."))
"""
    )
    arguments = [f"{tmp_path}/mine.py:suite", "--policy", f"{tmp_path}/mine.py:policy", "--seeds", "0:3"]
    arguments += ["--out", str(tmp_path / "run"), "--json", str(tmp_path / "found.json"), "--no-report"]
    with judge_server(lambda request: "SUCCESS") as server:
        wrong = CliRunner().invoke(eval_app, [*arguments, "--judge", server.url, "--threshold", "3"])
        assert "has no threshold" in str(wrong.exception)
        assert not (tmp_path / "run").exists()  # said before anything is played
        result = CliRunner().invoke(eval_app, [*arguments, "--judge", server.url, "--screenshots", "1"])
        assert result.exit_code == 0, (result.output, result.exception)
    assert "100.0 %" in result.output and "3 of 3" in result.output
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["judged"]["overall"]["successes"] == 3
    assert found["judged"]["manifest"]["config"]["screenshots"] == 1
    assert len(server.requests) == 3 and "Result Response: It is done." in text_of(server.requests[0])


def test_a_protocol_of_ones_own(tmp_path):
    (tmp_path / "mine.py").write_text(
        """
from holotron.agent.messages import Message
from holotron.evals.judging.cases import Decided, Ruling


class Mine:
    name, max_tokens = "mine", 5

    def describe(self):
        return {"protocol": "mine"}

    async def rule(self, case, ask):
        said = await ask([Message("user", (f"Was this done? {case.goal}",))])
        return Ruling(said.text == "yes", Decided.MODEL, said.text)


def make(request):
    return Mine()
"""
    )
    webvoyager_folder(tmp_path / "results", "Shop--0")
    mine = protocols.get(f"{tmp_path}/mine.py:make")(JudgeRequest())
    with judge_server(lambda request: "yes") as server:
        assert judged(server, tmp_path / "results", mine).verdicts == {"Shop--0": True}
    assert server.requests[0]["max_tokens"] == 5
