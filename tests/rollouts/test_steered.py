"""Episodes in which a person had a hand: recorded, never cut for the time a person took, exported as demonstrations and
corrections, and in no score."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import duckdb
import pytest

from holotron.agent.dialects import dialects, make_dialect
from holotron.agent.events import Event, Steered
from holotron.agent.history import parse_history
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.agent.steering import Do, Edit, HandBack, Instruct, Resume, Steering, TakeOver
from holotron.evals.report import write_report
from holotron.evals.statistics import scoreboard
from holotron.rollouts.export import export_sft
from holotron.rollouts.pack import pack
from holotron.rollouts.recorded import open_recorded
from holotron.rollouts.runner import RolloutSettings, rollout
from holotron.rollouts.store import RunReader
from holotron.types import Click, Outcome, Task, Write
from tests.agent.toy import ButtonPool, press_target

HELD_SECONDS = 0.9
RIGHT = "the right button"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Two episodes of three presses each. In the first a person waits longer than a lease lasts, corrects the first
    click, adds an instruction, takes over, and hands back; the second is left alone."""
    out = tmp_path_factory.mktemp("steered") / "run"
    tasks = [Task("buttons", "press", seed=seed, options={"presses": 3}) for seed in range(2)]
    hands = {task.id: Steering(paused=task.seed == 0) for task in tasks}
    environments = {}

    def beside_then_right(environment, observation, step):
        environments[environment.task.seed] = environment
        if environment.task.seed == 0 and step == 0:
            return Click(1, 1)
        return press_target(environment, observation, step)

    async def person(steering: Steering) -> None:
        await asyncio.sleep(HELD_SECONDS)
        target = environments[0].target.centre
        steering.give(Edit(0, Click(*target), RIGHT))
        steering.give(Instruct("Only twice more."))
        steering.give(Resume())
        steering.give(TakeOver())
        steering.give(Do(Write("hello", overwrite=False)))
        steering.give(Do(Click(*target)))
        steering.give(HandBack())

    def hear(episode: str, event: Event) -> None:
        if isinstance(event, Steered) and event.what == "held":
            helping.append(asyncio.ensure_future(person(hands[episode])))

    helping: list[asyncio.Future[None]] = []
    settings = RolloutSettings(sessions=2, attempts=1, lease_seconds=HELD_SECONDS / 3)
    progress = asyncio.run(
        rollout(
            tasks, ScriptedPolicy(beside_then_right), ButtonPool(), out, settings=settings, listeners=[hear],
            steer=hands.__getitem__,
        )
    )  # fmt: skip
    assert progress.outcomes == {Outcome.SUCCESS: 2}, "held for longer than its lease, and not cut"
    return out


def test_who_did_what_is_on_record(run):
    helped, alone = RunReader(run).trajectories()
    helped, alone = (helped, alone) if helped.task.seed == 0 else (alone, helped)
    assert (helped.assisted, alone.assisted) == (True, False)
    assert [step.author for step in helped.steps] == ["person", "person", "person", "agent"]
    assert helped.steps[0].proposed == Click(1, 1) and helped.steps[0].reply.thought == RIGHT
    assert [step.instruction for step in helped.steps] == ["", "", "", "Only twice more."]
    assert [said["what"] for step in helped.steps for said in step.info.get("steered", ())] == [
        "released", "handed back", "instructed",
    ]  # fmt: skip
    counted = duckdb.sql(f"select author, count(*) from '{run}/steps/*.parquet' group by 1 order by 1").fetchall()
    assert counted == [("agent", 4), ("person", 3)]


def test_what_a_person_helped_with_is_in_no_score(run):
    board = scoreboard(RunReader(run).episodes())
    assert (board.overall.episodes, board.overall.scored, board.overall.assisted) == (2, 1, 1)
    assert board.overall.success == 1.0


def test_the_report_says_who_did_what(run, tmp_path):
    html = write_report(run, tmp_path / "report.html").path.read_text()
    assert html.count('"by a person: ') == 3 and '"proposed":"click (1, 1)"' in html
    assert "Only twice more." in html and "a person had a hand in 1 episodes" in html


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", sorted({*dialects.names()} - {"surfer"}))  # has no words for keys without a place
@pytest.mark.parametrize("history", ["append", "epoch:2,1", "window:1"])
def test_what_a_person_did_is_learnt_as_if_the_agent_had_said_it(run, tmp_path, name, history):
    dialect = make_dialect(name)
    export_sft(run, tmp_path / "all.jsonl", dialect, parse_history(history))
    assert sum(len(line["learn"]) for line in lines_of(tmp_path / "all.jsonl")) == 7
    report = export_sft(run, tmp_path / "theirs.jsonl", dialect, parse_history(history), author="person")
    lines = lines_of(tmp_path / "theirs.jsonl")
    assert (report.episodes, report.replies) == (1, 3)
    learnt = [str(line["messages"][place]) for line in lines for place in line["learn"]]
    assert any("hello" in words for words in learnt)
    assert (RIGHT in learnt[0]) == (name != "compact")  # which has no words for a thought
    told = json.dumps(lines_of(tmp_path / "all.jsonl"))
    assert "The user says: Only twice more." in told


def test_an_instruction_travels_in_a_packed_run(run, tmp_path):
    pack([run], tmp_path / "packed.zip")
    for source in (open_recorded(run), open_recorded(tmp_path / "packed.zip")):
        said = [step.instruction for episode in source.episodes for step in episode.steps]
        assert said.count("Only twice more.") == 1 and said.count("") == 6
