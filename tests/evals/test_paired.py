"""Comparing two runs episode by episode."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holotron.errors import InputError
from holotron.evals.paired import Change, compare, differences_beside_the_policy


def rows(outcomes: str, task: str = "a") -> list[dict]:
    """`+` success, `-` failure, `!` spoiled by the environment."""
    named = {"+": "success", "-": "failure", "!": "environment_error"}
    return [{"id": f"{task}/{n}", "task": task, "outcome": named[sign]} for n, sign in enumerate(outcomes)]


def test_only_what_changed_counts():
    result = compare(rows("++--+") + rows("-", "b"), rows("+++-!") + rows("+", "b"))
    assert (result.overall.episodes, result.overall.won, result.overall.lost) == (5, 2, 0)
    assert result.overall.difference == pytest.approx(0.4)
    assert result.tasks["a"] == Change(4, 0.5, 0.75, 1, 0)
    assert result.tasks["b"] == Change(1, 0.0, 1.0, 1, 0)
    assert result.unpaired == 1  # spoiled in one of them
    assert result.low < 0.4 < result.high


def test_the_sign_test_against_the_binomial():
    assert Change(100, 0.5, 0.5, 0, 0).chance == 1
    assert Change(100, 0.5, 0.6, 9, 0).chance == pytest.approx(2 / 2**9)
    assert Change(100, 0.5, 0.6, 53, 38).chance == pytest.approx(0.1419, abs=2e-3)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_the_interval_holds_the_difference(pairs):
    before, after = ("".join("+" if one else "-" for one in side) for side in zip(*pairs, strict=True))
    result = compare(rows(before), rows(after))
    assert -1 <= result.low <= result.overall.difference <= result.high <= 1
    assert result.overall.difference == pytest.approx((result.overall.won - result.overall.lost) / len(pairs))
    assert 0 < result.overall.chance <= 1


def test_runs_with_nothing_in_common_are_refused():
    with pytest.raises(InputError, match="same --tasks and --seeds"):
        compare(rows("+"), rows("+", "b"))


def test_what_else_differs_is_said():
    def manifest(model: str, scale: float, history: str = "append") -> dict:
        policy = {"policy": "engine", "model": model, "history": history, "dialect": {"name": "compact"}}
        view = {"scale": scale, "crop": True}
        return {"config": {"policy": policy, "limits": {"steps": 20}, "environment": {"suite": "x", "view": view}}}

    assert differences_beside_the_policy(manifest("a", 2), manifest("b", 2)) == []
    found = differences_beside_the_policy(manifest("a", 2), manifest("a", 3, "window:3"))
    assert found == ["environment.view.scale was 2, is 3", "policy.history was 'append', is 'window:3'"]
    by_address = manifest("a", 2)
    by_address["config"]["policy"] |= {"policy": "openai", "base_url": "http://x/v1", "structured": True}
    assert differences_beside_the_policy(manifest("a", 2), by_address) == ["policy.structured was None, is True"]
