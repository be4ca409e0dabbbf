"""What is judged (our runs, other people's folders), what is kept, and what happens when it is interrupted."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.envs.base import FreshEnvironments
from holotron.errors import ConfigError, InputError
from holotron.evals.calibration import calibrate, read_human_labels
from holotron.evals.judging.apply import apply_verdicts
from holotron.evals.judging.cases import Decided
from holotron.evals.judging.figures import judged_figures
from holotron.evals.judging.labels import labels_of_folder, labels_of_run
from holotron.evals.judging.sources import read_source
from holotron.evals.judging.store import is_judgement, read_verdict_rows
from holotron.evals.judging.three_stage import ThreeStageJudge
from holotron.evals.judging.webvoyager import WebVoyagerJudge
from holotron.rollouts.runner import RolloutSettings, rollout
from holotron.rollouts.store import RunReader, RunWriter
from holotron.types import Answer, Outcome, StepResult, Task
from tests.agent.toy import ButtonEnvironment, ButtonPool, press_target
from tests.evals.judge_server import images_of, judge_server, text_of
from tests.evals.recorded import mind2web_folder, webvoyager_folder
from tests.evals.test_judging import judged

DATA = Path(os.environ.get("HOLOTRON_BENCHMARKS", Path(__file__).parents[3] / "shared" / "data"))


# ------------------------------------------------------------------------------------------------------------ layouts


def test_folders_of_webvoyagers_agent(tmp_path):
    webvoyager_folder(tmp_path, "Google Map--10", answer="At [Main Street] 5", shots=11)
    webvoyager_folder(tmp_path, "Google Map--2", task="Two\nlines.", answer=None)
    (tmp_path / "taskGoogle Map--3").mkdir()
    (tmp_path / "logs").mkdir()
    source = read_source(tmp_path)
    assert source.kind == "webvoyager"
    second, third, tenth = source.cases  # 2 before 10
    assert (second.id, second.site, second.goal, second.answer) == ("Google Map--2", "Google Map", "Two\nlines.", None)
    assert third.spoiled == "it has no interact_messages.json"
    assert tenth.answer == "At [Main Street"  # as the published pattern cuts it
    assert [path.name for path in tenth.screenshots[-2:]] == ["screenshot10.png", "screenshot11.png"]
    assert tenth.actions == ("Click [5]",)
    assert read_source(tmp_path / "taskGoogle Map--10").cases == (tenth,)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs published trajectories (HOLOTRON_BENCHMARKS)")
def test_every_published_trajectory_at_hand_is_read():
    cases = read_source(DATA / "webvoyager" / "examples").cases
    assert sum(len(case.screenshots) for case in cases) == 44
    goals = {
        row["id"]: row["ques"]
        for line in (DATA / "webvoyager" / "WebVoyager_data.jsonl").read_text().splitlines()
        if (row := json.loads(line))
    }
    for case in cases:
        assert case.answer and not case.spoiled and case.actions
        assert case.goal.split()[:3] == goals[case.id].split()[:3]  # dates in the text were renewed since


def test_folders_of_online_mind2web_in_both_versions(tmp_path):
    mind2web_folder(tmp_path, "a1", shots=12)
    mind2web_folder(tmp_path, "b2", second=True, shots=3, actions=2)
    (tmp_path / "c3" / "trajectory").mkdir(parents=True)
    first, second, third = read_source(tmp_path).cases
    assert [path.name[:2] for path in first.screenshots[-3:]] == ["9_", "10", "11"]
    assert (len(first.actions), first.answer) == (3, "opened")
    assert second.actions == ("<button> number 0 -> CLICK", "<button> number 1 -> CLICK")  # not its last word
    assert (len(second.screenshots), second.answer) == (3, "ok")
    assert third.spoiled


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[", "interact_messages.json is not valid JSON"),
        ("{}", "expected a list of messages"),
        ('[{"content": "a"}, 7]', "row 2: expected a message"),
        ('[{"content": "a"}, {"content": "b"}]', "row 2: expected 'Now given a task"),
    ],
)
def test_a_corrupted_trajectory_is_an_error_with_file_and_row(tmp_path, content, says):
    (webvoyager_folder(tmp_path, "Shop--0") / "interact_messages.json").write_text(content)
    with pytest.raises(InputError, match=says) as error:
        read_source(tmp_path)
    assert "taskShop--0" in str(error.value)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ("{", "not valid JSON"),
        ("{}", "an object with the task"),
        ('{"task": "x", "action_history": 3}', "action_history is a list"),
        ('{"task": "x", "schema_version": "online-mind2web-v2", "action_history": [{"action": "x"}]}', "row 1"),
    ],
)
def test_a_corrupted_result_is_an_error_with_its_file(tmp_path, result, says):
    (mind2web_folder(tmp_path, "a1") / "result.json").write_text(result)
    with pytest.raises(InputError, match=says) as error:
        read_source(tmp_path)
    assert str(tmp_path / "a1" / "result.json") in str(error.value)


# ----------------------------------------------------------------------------------------------------------- our runs


def play(run: Path, seeds: int = 6) -> None:
    """Even seeds press the button and succeed; odd ones answer at once and fail."""

    def script(environment: Any, observation: Any, step: int) -> Any:
        return press_target(environment, observation, step) if environment.task.seed % 2 == 0 else Answer("SUCCESS!")

    tasks = [Task("buttons", "press", seed=seed, options={"presses": 2}) for seed in range(seeds)]
    asyncio.run(rollout(tasks, ScriptedPolicy(script), ButtonPool(), run, settings=RolloutSettings(sessions=2)))


def test_a_run_is_judged_and_the_judge_calibrated_against_its_exact_checkers(tmp_path):
    run = tmp_path / "run"
    play(run)
    source = read_source(run)
    pressed = next(case for case in source.cases if case.id.endswith("/0"))
    answered = next(case for case in source.cases if case.id.endswith("/1"))
    assert (len(pressed.screenshots), len(pressed.actions), pressed.answer) == (3, 2, None)  # the last look, too
    assert all(action.startswith("click (") for action in pressed.actions)
    assert (len(answered.screenshots), answered.actions, answered.answer) == (1, (), "SUCCESS!")
    # A judge that passes whatever was done passes no failure here, but it cannot tell why.
    with judge_server(lambda request: "Score: 3\nStatus: success") as server:
        lenient = judged(server, run, ThreeStageJudge())
    assert lenient.folder.parent == run / "judgements"
    assert lenient.verdicts == {case.id: True for case in source.cases}
    truth = labels_of_run(run)
    [(name, labels)] = labels_of_folder(lenient.folder, truth).items()
    assert name == "three-stage, m"
    found = calibrate(truth, labels)
    assert (found.false_positive.count, found.false_positive.of) == (3, 3)
    assert (found.agreement.count, found.false_negative.count) == (3, 0)


def test_a_spoiled_episode_is_none_and_one_that_gave_up_is_a_failure(tmp_path):
    play(tmp_path / "played", 1)
    [played] = RunReader(tmp_path / "played").trajectories()  # without an answer
    with RunWriter(tmp_path / "run", {"kind": "rollout", "config": {}}) as writer:
        for seed, outcome in enumerate((Outcome.ENVIRONMENT_ERROR, Outcome.EXHAUSTED, Outcome.POLICY_ERROR)):
            task = Task("web", "tea", "Find tea.", seed)
            writer.append(replace(played, id=task.id, task=task, outcome=outcome, error="the page died"))
    with judge_server(lambda request: "SUCCESS") as server:
        result = judged(server, tmp_path / "run")
    assert list(result.verdicts.values()) == [None, False, False]
    assert result.figures.decided == {Decided.SPOILED: 1, Decided.RULE: 2}
    assert server.requests == []


def test_a_run_that_nobody_scored_cannot_calibrate(tmp_path):
    webvoyager_folder(tmp_path / "results", "Shop--0")
    with judge_server(lambda request: "SUCCESS") as server:
        folder = judged(server, tmp_path / "results").folder
    assert is_judgement(folder) and not is_judgement(tmp_path)
    with pytest.raises(InputError, match="name the run"):
        read_source(folder)
    with pytest.raises(InputError, match="is no folder of verdicts"):
        read_verdict_rows(tmp_path)
    people = tmp_path / "people.json"
    people.write_text('{"Shop--0": 0, "Shop--1": 1, "Shop--2": "?"}')
    human = read_human_labels(people)
    assert human == {("", "Shop--0"): 0, ("", "Shop--1"): 1}
    [labels] = labels_of_folder(folder, human).values()
    assert calibrate(human, labels).false_positive.count == 1
    human = {("operator", "Shop--0"): 1}
    [labels] = labels_of_folder(folder, human, agent="Operator").values()
    assert calibrate(human, labels).agreement.count == 1


# ---------------------------------------------------------------------------------------------- kept, resumed, refused


def test_judges_lie_side_by_side_and_each_says_what_it_is(tmp_path):
    webvoyager_folder(tmp_path, "Shop--0", shots=5)
    with judge_server(lambda request: "SUCCESS") as server:
        three, one = judged(server, tmp_path, WebVoyagerJudge(3)), judged(server, tmp_path, WebVoyagerJudge(1))
        assert [len(images_of(request)) for request in server.requests] == [3, 1]
        judged(server, tmp_path, WebVoyagerJudge(3))
        assert len(server.requests) == 2  # nothing is asked twice
        with pytest.raises(ConfigError, match="screenshots was 3, is 1"):
            judged(server, tmp_path, WebVoyagerJudge(1), out=three.folder)
    assert three.folder != one.folder
    manifest = json.loads((three.folder / "manifest.json").read_text())
    assert manifest["kind"] == "judge"
    assert manifest["config"] == {
        "protocol": "webvoyager", "prompts": WebVoyagerJudge().describe()["prompts"], "screenshots": 3,
        "model": "m", "temperature": 0.0, "seed": 42, "max_tokens": 1000,
    }  # fmt: skip
    assert len(manifest["config"]["prompts"]) == 16
    assert manifest["judged"] == tmp_path.name


def test_refusals_are_kept_until_somebody_wants_them_asked_again(tmp_path):
    webvoyager_folder(tmp_path, "Shop--0")
    with judge_server(lambda request: "no verdict here") as server:
        assert judged(server, tmp_path).verdicts == {"Shop--0": None}
        server.reply = lambda request: "SUCCESS"
        assert judged(server, tmp_path).verdicts == {"Shop--0": None}
        assert len(server.requests) == 1
        assert judged(server, tmp_path, again=True).verdicts == {"Shop--0": True}


def test_what_was_added_is_judged_and_only_that(tmp_path):
    webvoyager_folder(tmp_path, "Shop--0")
    with judge_server(lambda request: "SUCCESS") as server:
        judged(server, tmp_path)
        webvoyager_folder(tmp_path, "Shop--1", task="Another.")
        assert judged(server, tmp_path).figures.overall.successes == 2
        assert ["Another." in text_of(request) for request in server.requests] == [False, True]


def test_an_episode_that_was_played_again_is_judged_again(tmp_path):
    folder = webvoyager_folder(tmp_path, "Shop--0", answer=None)
    webvoyager_folder(tmp_path, "Shop--1", task="Another.")
    with judge_server(lambda request: "SUCCESS") as server:
        assert judged(server, tmp_path).verdicts == {"Shop--0": False, "Shop--1": True}
        shutil.rmtree(folder)
        webvoyager_folder(tmp_path, "Shop--0")
        assert judged(server, tmp_path).verdicts == {"Shop--0": True, "Shop--1": True}
    assert ["Another." in text_of(request) for request in server.requests] == [True, False]


def test_figures_of_nothing_decided():
    row = {"site": "", "verdict": None, "decided": "failed", "requests": 0, "prompt_tokens": 0, "generated_tokens": 0}
    figures = judged_figures([row, row])
    assert figures.overall.rate is None
    assert figures.overall.bounds == (0.0, 1.0)
    assert str(figures.overall) == "– (none of 2 decided)"


def answer_at_once(run: Path, seeds: int = 4) -> None:
    """Episodes that nobody can score: the second gives up."""

    class Unscored(ButtonEnvironment):
        async def step(self, action: Any) -> StepResult:
            return StepResult(await self.observe(), done=True)

    def script(environment: Any, observation: Any, step: int) -> Any:
        return None if environment.task.seed == 1 else Answer(f"It is number {environment.task.seed}.")

    tasks = [Task("buttons", "press", seed=seed) for seed in range(seeds)]
    pool = FreshEnvironments(Unscored)
    asyncio.run(rollout(tasks, ScriptedPolicy(script), pool, run, settings=RolloutSettings(sessions=1)))


def test_a_judged_copy_is_a_run_like_any_other(tmp_path):
    run, copy = tmp_path / "run", tmp_path / "copy"
    answer_at_once(run)
    says = {"number 0": "SUCCESS", "number 2": "NOT SUCCESS", "number 3": "hm"}
    with judge_server(lambda r: next(said for words, said in says.items() if words in text_of(r))) as server:
        result = judged(server, run)
    for _ in range(2):  # once more changes nothing
        outcomes = apply_verdicts(run, result.folder, copy)
        assert outcomes == {Outcome.SUCCESS: 1, Outcome.FAILURE: 2, Outcome.UNSCORED: 1}
    reader = RunReader(copy)
    assert [row["outcome"] for row in reader.episodes()] == ["success", "failure", "failure", "unscored"]
    assert reader.manifest["judge"] == "webvoyager, m, 15 screenshots"
    assert reader.manifest["config"]["judge"]["prompts"] == result.manifest["config"]["prompts"]
    assert [row["outcome"] for row in RunReader(run).episodes()].count("unscored") == 3  # as it was recorded
    assert next(reader.trajectories()).steps[0].observation.image  # pictures came along
    answer_at_once(run, 5)
    with pytest.raises(InputError, match="1 episodes have no verdict yet"):
        apply_verdicts(run, result.folder, copy)


def test_a_judge_does_not_overrule_an_exact_check(tmp_path):
    play(tmp_path / "run", 2)
    webvoyager_folder(tmp_path / "results", "Shop--0")
    with judge_server(lambda request: "Score: 3\nStatus: failure, NOT SUCCESS") as server:
        folder = judged(server, tmp_path / "run", ThreeStageJudge()).folder
        others = judged(server, tmp_path / "results").folder
    with pytest.raises(ConfigError, match="does not replace an exact check"):
        apply_verdicts(tmp_path / "run", folder, tmp_path / "copy")
    with pytest.raises(ConfigError, match="no run directory of ours"):
        apply_verdicts(tmp_path / "results", others, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
