"""The whole offline report: parts, resumption after kill -9, what cannot be played, what must not be mixed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holotron.agent.policies.registry import PolicyRequest
from holotron.cli.eval import app
from holotron.errors import ConfigError, EnvironmentFault, MissingDependency
from holotron.evals.offline import FIRST_SEED, Part, offline_parts, play_offline, select
from holotron.rollouts.store import RunReader
from holotron.suites.base import Suite, SuiteRequest, find_suite

PARTS = [
    Part("boxes", "painted", "click the named box", tasks="boxes-2,boxes-3", seeds=range(3)),
    Part("order", "painted", "click in order", tasks="order-2", seeds=range(2)),
]
SLOW = """
import asyncio, sys
from pathlib import Path
from holotron.agent.policies.registry import PolicyRequest
from holotron.evals.offline import Part, play_offline
from holotron.rollouts.runner import RolloutSettings

async def main():
    parts = [Part("a", "painted", "", tasks="boxes-2", seeds=range(4)), Part("b", "painted", "", tasks="boxes-3",
             seeds=range(60))]
    played = await play_offline(parts, PolicyRequest("random"), Path(sys.argv[1]), settings=RolloutSettings(1))
    print("done", [len(one.rows) for one in played.results])

asyncio.run(main())
"""


def _gone(kind: type[Exception]):
    def open_pool(sessions: int):
        raise kind("it cannot be installed")

    def suite(request: SuiteRequest) -> Suite:
        return Suite("gone", request.tasks_of("gone", ["x"]), open_pool)

    return suite


gone_ConfigError, gone_MissingDependency = _gone(ConfigError), _gone(MissingDependency)
gone_EnvironmentFault = _gone(EnvironmentFault)


def play(out: Path, parts: list[Part] = PARTS, policy: str = "random"):
    return asyncio.run(play_offline(parts, PolicyRequest(policy), out))


def test_parts_are_played_in_turn_and_taken_up_again(tmp_path):
    seen: list[str] = []

    def follow(part: Part, number: int):
        seen.append(f"{number} {part.name}")

    played = asyncio.run(play_offline(PARTS, PolicyRequest("random"), tmp_path, on_part=follow))
    assert seen == ["1 boxes", "2 order"]
    assert [(one.name, len(one.rows), one.missing) for one in played.results] == [("boxes", 6, 0), ("order", 2, 0)]
    assert played.skipped == {}
    again = play(tmp_path)
    assert [one.rows for one in again.results] == [one.rows for one in played.results]
    with pytest.raises(ConfigError, match="another configuration"):
        play(tmp_path, policy="random:7")  # another policy's episodes must not get into these


def test_it_goes_on_after_kill_9(tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SLOW, str(tmp_path / "out")]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    journal = tmp_path / "out" / "b" / "journal"
    deadline = time.monotonic() + 120
    while not any(file.stat().st_size for file in journal.glob("*.jsonl")):  # in the middle of the second part
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = {row["id"]: row["started_at"] for row in RunReader(tmp_path / "out" / "b").episodes()}
    assert 0 < len(before) < 60
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    assert "done [4, 60]" in done.stdout
    after = {row["id"]: row["started_at"] for row in RunReader(tmp_path / "out" / "b").episodes()}
    assert before.items() <= after.items()  # what was on record was not played again


def test_what_cannot_be_had_is_left_out_and_said(tmp_path):
    for number, kind in enumerate((ConfigError, MissingDependency, EnvironmentFault)):
        parts = [Part("gone", f"{__name__}:gone_{kind.__name__}", "", installs=True), PARTS[1]]
        played = play(tmp_path / str(number), parts)
        assert played.skipped == {"gone": "not played: it cannot be installed"}
        assert [one.name for one in played.results] == ["order"]
    played = play(tmp_path / "x", [Part("a", "painted", "", tasks="nonsense")], "scripted")
    assert played.results == () and "no task 'nonsense'" in played.skipped["a"]


def test_a_stride_takes_some_of_the_tasks(tmp_path):
    (result,) = play(tmp_path, [Part("some", "painted", "", tasks="boxes-2,boxes-3,boxes-4", stride=2)]).results
    assert [row["task"] for row in result.rows] == ["boxes-2", "boxes-4"]


def test_the_parts_that_there_are():
    full = {part.name: part for part in offline_parts("full", ["osworld-g:somewhere"])}
    assert list(full) == [
        "miniwob", "sites-short", "sites-medium", "sites-long", "trac", "oscar", "recall", "osworld-g",
    ]  # fmt: skip
    small = {part.name: part for part in offline_parts("small")}
    assert full["sites-long"].suite == "sites:heldout"  # looks that nothing is trained on
    counts = {}
    for size, parts in (("full", full), ("small", small)):
        for name in ("sites-short", "sites-medium", "sites-long", "recall"):
            suite = find_suite(parts[name].suite, tasks=parts[name].tasks, seeds=parts[name].seeds)
            assert all(task.seed >= FIRST_SEED and task.options["split"] == "heldout" for task in suite.tasks)
            counts[size, name] = len(suite.tasks[:: parts[name].stride])
    assert counts["full", "sites-short"] + counts["full", "sites-medium"] + counts["full", "sites-long"] == 94
    assert counts["full", "recall"] == 18
    assert all(counts["small", name] < counts["full", name] / 4 for _, name in counts)
    assert [part.name for part in select(list(full.values()), "trac, miniwob")] == ["miniwob", "trac"]
    with pytest.raises(ConfigError, match="no part 'minowob'"):
        select(list(full.values()), "minowob")
    with pytest.raises(ConfigError, match="named once"):
        offline_parts("full", ["osworld-g:a", "osworld-g:b"])


def test_mistakes_on_the_command_line(tmp_path):
    for words, error in ((["--size", "huge"], "there are full and small"), (["--parts", "x"], "no part 'x'")):
        done = CliRunner().invoke(app, ["offline", "--out", str(tmp_path / "o"), *words])
        assert isinstance(done.exception, ConfigError) and error in str(done.exception)
    assert not (tmp_path / "o").exists()


@pytest.mark.browser
def test_report_card_and_json_are_written(tmp_path):
    words = ["offline", "--out", str(tmp_path / "o"), "--size", "small", "--parts", "miniwob,trac"]
    words += ["--policy", "scripted"]  # which there is none of for Trac
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "miniwob" in done.output and "100.0 %" in done.output
    result = json.loads((tmp_path / "o" / "results.json").read_text())
    assert [part["name"] for part in result["parts"]] == ["miniwob"]
    assert "trac" in result["skipped"]
    assert "trac was not played" in (tmp_path / "o" / "report.html").read_text()
    assert set(result["parts"][0]["verdicts"].values()) == {True}
    card = (tmp_path / "o" / "card.md").read_text()
    assert "| miniwob | 100.0 % |" in card and "Played in" in card
    assert (tmp_path / "o" / "report.html").stat().st_size > 10_000
