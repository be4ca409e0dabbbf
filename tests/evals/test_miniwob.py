"""The benchmark end to end: real pages in real Chromium, a number, and everything needed to get it again."""

from __future__ import annotations

import asyncio
import json

import pytest

from holotron.agent.loop import Limits
from holotron.agent.policies.choice import PolicyChoice, miniwob_view, web_screen
from holotron.agent.policies.random import RandomPolicy
from holotron.errors import ConfigError
from holotron.evals.miniwob import evaluate
from holotron.evals.report import write_report
from holotron.rollouts.runner import Settings
from holotron.suites.base import miniwob_suite, parse_seeds, web_suite
from holotron.suites.miniwob_solver import SolverPolicy
from holotron.types import Task

pytestmark = pytest.mark.browser


def test_the_solver_scores_and_chance_does_not(tmp_path):
    suite = miniwob_suite("click-test,click-button,enter-text", range(100, 103), scale=2)
    seen = []
    result = asyncio.run(
        evaluate(SolverPolicy(), suite, tmp_path / "a", settings=Settings(sessions=4), on_progress=seen.append)
    )
    data = json.loads(json.dumps(result.to_json()))
    assert data["mean_success"] == 1.0
    assert [(row["task"], row["scored"], row["successes"]) for row in data["tasks"]] == [
        ("click-button", 3, 3),
        ("click-test", 3, 3),
        ("enter-text", 3, 3),
    ]
    assert data["tasks"][0]["low"] < 0.5  # three episodes prove little
    assert data["environment_errors"] == 0
    assert data["steps_per_second"] > 0
    assert data["seeds"] == [100, 101, 102]
    config = data["manifest"]["config"]
    assert config["policy"]["policy"] == "miniwob-solver"
    assert config["environment"]["scale"] == 2
    assert "Chromium" in config["environment"]["browser"]
    assert config["limits"]["steps"] == 20
    assert {"miniwob", "playwright"} <= set(data["manifest"]["packages"])
    assert len(data["manifest"]["commit"] or "x" * 40) >= 40
    assert seen[-1].done == 9
    assert write_report(tmp_path / "a").playable == 9
    # Once more: it is all there already.
    again = asyncio.run(evaluate(SolverPolicy(), suite, tmp_path / "a", settings=Settings(sessions=4)))
    assert (again.progress.resumed, again.progress.steps) == (9, 0)
    assert again.scores == result.scores
    chance = asyncio.run(
        evaluate(
            RandomPolicy(),
            miniwob_suite("enter-text", range(3), scale=1, limits=Limits(steps=2)),
            tmp_path / "b",
        )
    )
    assert chance.scores.mean_success == 0.0


def test_suites_are_checked():
    assert len(miniwob_suite("all", range(2)).tasks) == 250
    with pytest.raises(ConfigError, match="no MiniWoB\\+\\+ task 'click-tset'"):
        miniwob_suite("click-tset", range(1))
    assert parse_seeds("3:5") == range(3, 5)
    assert parse_seeds("7") == range(7, 8)
    for bad in ("", "a:b", "5:5", "5:3", "-1:4", "1:2:3"):
        with pytest.raises(ConfigError, match="seeds"):
            parse_seeds(bad)


def test_web_tasks_come_from_a_file(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"url": "http://a.example", "goal": "Find it"}\n\n{"url": "http://b", "goal": "g", "name": "n"}\n')
    assert web_suite(path).tasks == (
        Task("web", "1", "Find it", start_url="http://a.example"),
        Task("web", "n", "g", start_url="http://b"),
    )
    assert web_suite(path).limits.answer_when_over
    path.write_text('{"url": "http://a"}\n')
    with pytest.raises(ConfigError, match="line 1"):
        web_suite(path)
    path.write_text("")
    with pytest.raises(ConfigError, match="no tasks"):
        web_suite(path)
    with pytest.raises(ConfigError, match="cannot read"):
        web_suite(tmp_path / "missing.jsonl")


def test_a_model_says_how_it_wants_to_be_shown_things_and_the_user_has_the_last_word():
    mini, other = PolicyChoice("holotron-mini"), PolicyChoice("random")
    assert web_screen(mini, None, None, None) == (320, 320, 2.0)
    assert web_screen(mini, 640, None, None) == (640, 320, 2.0)
    assert web_screen(other, None, None, None) == (1280, 720, 1.0)
    assert miniwob_view(mini, None, None, None) == {"scale": 2.0, "crop_instruction": True, "image_format": "png"}
    assert miniwob_view(mini, 3.0, False, None) == {"scale": 3.0, "crop_instruction": False, "image_format": "png"}
