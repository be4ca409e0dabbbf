"""The benchmark end to end: real pages in real Chromium, a number, and everything needed to get it again."""

from __future__ import annotations

import asyncio
import json

import pytest

from holotron.agent.policies.random import RandomPolicy
from holotron.agent.policies.registry import local_profile
from holotron.errors import ConfigError
from holotron.evals.evaluate import evaluate
from holotron.evals.report import write_report
from holotron.rollouts.runner import RolloutSettings
from holotron.suites.base import Suite, find_suite, parse_seeds
from holotron.suites.miniwob_solver import SolverPolicy
from holotron.types import Task
from holotron.view import View

pytestmark = pytest.mark.browser


def miniwob(tasks: str, seeds: range, scale: float = 1) -> Suite:
    return find_suite("miniwob", tasks=tasks, seeds=seeds, view=View(scale=scale))


def test_the_solver_scores_and_chance_does_not(tmp_path):
    suite = miniwob("click-test,click-button,enter-text", range(100, 103), scale=2)
    seen = []
    result = asyncio.run(
        evaluate(SolverPolicy(), suite, tmp_path / "a", settings=RolloutSettings(sessions=4), on_progress=seen.append)
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
    assert config["environment"]["view"] == {"scale": 2, "crop": False, "format": "jpeg"}
    assert "Chromium" in config["environment"]["browser"]
    assert config["limits"]["steps"] == 20
    assert {"miniwob", "playwright"} <= set(data["manifest"]["packages"])
    assert len(data["manifest"]["commit"] or "x" * 40) >= 40
    assert seen[-1].done == 9
    assert write_report(tmp_path / "a").playable == 9
    # Once more: it is all there already.
    again = asyncio.run(evaluate(SolverPolicy(), suite, tmp_path / "a", settings=RolloutSettings(sessions=4)))
    assert (again.progress.resumed, again.progress.steps) == (9, 0)
    assert again.scores == result.scores
    # Other seeds are another experiment: mixed into one folder, its report would be of neither.
    more = miniwob("click-test,click-button,enter-text", range(100, 104), scale=2)
    with pytest.raises(ConfigError, match=r"episodes: 3 new \(.*choose another folder"):
        asyncio.run(evaluate(SolverPolicy(), more, tmp_path / "a"))
    chance = asyncio.run(
        evaluate(
            RandomPolicy(),
            miniwob("enter-text", range(3)).limited(steps=2),
            tmp_path / "b",
        )
    )
    assert chance.scores.mean_success == 0.0


def test_suites_are_checked():
    assert len(miniwob("all", range(2)).tasks) == 250
    with pytest.raises(ConfigError, match="no task 'click-tset'"):
        miniwob("click-tset", range(1))
    assert parse_seeds("3:5") == range(3, 5)
    assert parse_seeds("7") == range(7, 8)
    for bad in ("", "a:b", "5:5", "5:3", "-1:4", "1:2:3"):
        with pytest.raises(ConfigError, match="seeds"):
            parse_seeds(bad)


def test_web_tasks_come_from_a_file(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"url": "http://a.example", "goal": "Find it"}\n\n{"url": "http://b", "goal": "g", "name": "n"}\n')
    assert find_suite(str(path)).tasks == (
        Task("web", "1", "Find it", start_url="http://a.example"),
        Task("web", "n", "g", start_url="http://b"),
    )
    assert find_suite(str(path)).limits.answer_when_over
    path.write_text('{"url": "http://a"}\n')
    with pytest.raises(ConfigError, match="line 1"):
        find_suite(str(path))
    path.write_text("")
    with pytest.raises(ConfigError, match="no tasks"):
        find_suite(str(path))
    with pytest.raises(ConfigError, match="cannot read"):
        find_suite(str(tmp_path / "missing.jsonl"))


def test_a_model_says_how_it_wants_to_be_shown_things_and_the_user_has_the_last_word(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"url": "http://a.example", "goal": "Find it"}\n')
    declared = local_profile("holotron-mini").views

    def web(view: View = View(), declared=declared) -> View:
        return find_suite(str(path), view=view, declared=declared).view

    assert web() == View(320, 320, 2.0, format="jpeg")
    assert web(View(width=640)) == View(640, 320, 2.0, format="jpeg")
    assert web(declared={}) == View(1280, 720, 1.0, format="jpeg")
    assert find_suite("miniwob", declared=declared).view == View(scale=2.0, crop=True, format="png")
    wish = View(scale=3.0, crop=False)
    assert find_suite("miniwob", view=wish, declared=declared).view == View(scale=3.0, crop=False, format="png")
    with pytest.raises(ConfigError, match="width cannot be chosen"):
        find_suite("miniwob", view=View(width=100))


def test_the_manifest_says_what_a_reviewer_asks(tmp_path):
    """Suite, subset and its hash, prompts, schema, view, policy with its weights, judge, limits, attempts, hardware."""
    from holotron.agent.policies.registry import PolicyRequest
    from holotron.rollouts.suite import opened

    async def play(out: str, tasks: str, policy: str = "tiny", **wishes) -> dict:
        request = PolicyRequest(policy, max_tokens=4, **wishes)
        async with opened(request, "painted", tasks=tasks, seeds=range(2), steps=1) as (who, suite):
            result = await evaluate(who, suite, tmp_path / out, settings=RolloutSettings(sessions=1), repeats=2)
            assert len(result.result.rows) == 4 * len(tasks.split(","))
            return json.loads((tmp_path / out / "manifest.json").read_text())

    first = asyncio.run(play("a", "boxes-2"))
    assert first["subset"] | {"sha256": ""} == {"tasks": 1, "instances": 2, "seeds": [0, 1], "sha256": ""}
    assert (first["repeats"], first["attempts"], first["judge"]) == (2, 3, "the environment's own check")
    assert first["hardware"]["cores"] >= 1 and first["hardware"]["cpu"]
    assert "GOAL" in json.dumps(first["request"]["messages"]) and "[screenshot]" in json.dumps(first["request"])
    assert first["request"]["output"]
    assert first["config"]["policy"]["weights"] is None  # random ones of a preset
    again = asyncio.run(play("b", "boxes-2"))
    assert again["subset"] == first["subset"] and again["config"] == first["config"]
    other = asyncio.run(play("c", "boxes-3", dialect="holotron"))
    assert other["subset"]["sha256"] != first["subset"]["sha256"]
    for part in ("prompt", "schema"):
        assert other["config"]["policy"]["dialect"][part] != first["config"]["policy"]["dialect"][part]
    bundled = asyncio.run(play("d", "boxes-2", "holotron-mini"))
    assert bundled["config"]["policy"]["weights"].startswith("sha256:")


def test_other_weights_under_the_same_name_are_another_policy(tmp_path):
    from holotron.model.weights import fingerprint as module

    folder = tmp_path / "model"
    folder.mkdir()
    assert module.fingerprint(folder) is None
    (folder / "model.safetensors").write_bytes(bytes(3_000_000))
    first = module.fingerprint(folder)
    assert first == module.fingerprint(folder) and first.startswith("sha256:")
    changed = bytearray(3_000_000)
    changed[1_234_567] = 1  # one bit
    (folder / "model.safetensors").write_bytes(changed)
    assert module.fingerprint(folder) != first


def test_large_weights_are_sampled_and_the_name_says_so(tmp_path, monkeypatch):
    from holotron.model.weights import fingerprint as module

    monkeypatch.setattr(module, "WHOLE_BYTES", 1000)
    (tmp_path / "a.safetensors").write_bytes(bytes(40_000_000))
    first = module.fingerprint(tmp_path)
    assert first.startswith("sha256-sampled:")
    (tmp_path / "a.safetensors").write_bytes(bytes(39_999_999) + b"\x01")  # header and end are always read
    assert module.fingerprint(tmp_path) != first
