"""Scores: what counts, what does not, and how sure we are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holotron.evals.statistics import scoreboard, wilson


def test_wilson_against_published_values():
    # Newcombe 1998, table I, method 3: 81/263, 15/148, 0/20, 1/29.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)


@given(trials=st.integers(0, 500), data=st.data())
def test_wilson_holds_the_rate_and_stays_in_bounds(trials, data):
    successes = data.draw(st.integers(0, trials))
    low, high = wilson(successes, trials)
    assert 0 <= low <= high <= 1
    if trials:
        assert low <= successes / trials <= high


def row(task: str, outcome: str, steps: int = 3) -> dict:
    return {"task": task, "outcome": outcome, "steps": steps, "seconds": 1.0}


def test_the_mean_is_over_tasks_and_spoiled_episodes_do_not_count():
    rows = [row("a", "success")] * 3 + [row("a", "failure")] + [row("b", "failure"), row("b", "environment_error")]
    rows += [row("b", "exhausted"), row("c", "environment_error"), row("d", "unscored"), row("b", "policy_error")]
    board = scoreboard(rows)
    rates = {item.task: item.success for item in board.tasks}
    assert rates == {"a": 0.75, "b": 0.0, "c": None, "d": None}
    assert board.mean_success == pytest.approx(0.375)
    assert board.overall.scored == 7
    assert board.overall.success == pytest.approx(3 / 7)
    assert board.overall.environment_errors == 2
    assert board.overall.policy_errors == 1
    assert board.overall.unscored == 1


def test_nothing_to_score():
    assert scoreboard([]).mean_success is None
    assert scoreboard([row("a", "unscored")]).mean_success is None
