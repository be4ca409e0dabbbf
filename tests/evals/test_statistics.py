"""Scores: what counts, what does not, and how sure we are."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holotron.evals.statistics import clustered, repeats, scoreboard, t_quantile, verdict, wilson


def test_wilson_against_published_values():
    # Newcombe 1998, table I, method 3: 81/263, 15/148, 0/20, 1/29.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)


def test_students_t_against_the_tables():
    published = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 5: 2.5706, 9: 2.2622, 10: 2.2281, 29: 2.0452,
                 30: 2.0423, 60: 2.0003, 120: 1.9799}  # fmt: skip
    for degrees, quantile in published.items():
        assert t_quantile(degrees) == pytest.approx(quantile, abs=5e-5)
    assert t_quantile(1) == pytest.approx(math.tan(0.475 * math.pi), rel=1e-9)  # Cauchy, in closed form
    assert t_quantile(2) == pytest.approx(0.95 * math.sqrt(2 / (1 - 0.95**2)), rel=1e-9)
    assert t_quantile(5000) == pytest.approx(1.95996, abs=1e-5)


@given(trials=st.integers(0, 500), data=st.data())
def test_wilson_holds_the_rate_and_stays_in_bounds(trials, data):
    successes = data.draw(st.integers(0, trials))
    low, high = wilson(successes, trials)
    assert 0 <= low <= high <= 1
    if trials:
        assert low <= successes / trials <= high


def test_the_clustered_interval_by_hand():
    # Three tasks at 0, 1/2 and 1 of ten episodes each. Variance of the mean: (1/4 + 0 + 1/4) / 2 / 3 = 1/12, so the
    # thirty episodes are worth p (1 - p) * 12 = 3. Wilson with n = 3, p = 1/2 and t(2) = 4.3027.
    z = 0.95 * math.sqrt(2 / (1 - 0.95**2))
    half = z * math.sqrt(0.25 / 3 + z * z / 36) / (1 + z * z / 3)
    assert clustered([0.0, 0.5, 1.0], 30) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-9)
    # Tasks that all agree: every episode counts, and no more than there are.
    assert clustered([0.5, 0.5, 0.5], 30) == pytest.approx(wilson(15, 30, z), abs=1e-9)
    # Nothing but failures: each task is one failure, not ten.
    assert clustered([0.0] * 20, 200) == wilson(0, 20)
    assert clustered([1.0] * 4, 40) == wilson(4, 4)
    # One task, one episode, none at all.
    assert clustered([0.3], 10) == pytest.approx(wilson(3, 10))
    assert clustered([1.0], 1) == wilson(1, 1)
    assert clustered([], 0) == (0.0, 1.0)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_the_clustered_interval_holds_the_mean(successes):
    rates = [count / 5 for count in successes]
    low, high = clustered(rates, 5 * len(rates))
    assert 0 <= low <= sum(rates) / len(rates) + 1e-12
    assert sum(rates) / len(rates) - 1e-12 <= high <= 1
    if len(rates) > 1:  # never narrower than if every episode were a task of its own
        plain = wilson(sum(successes), 5 * len(rates))
        assert high - low >= plain[1] - plain[0] - 1e-12


def row(task: str, outcome: str, steps: int = 3, seed: int = 0) -> dict:
    return {"task": task, "seed": seed, "outcome": outcome, "steps": steps, "seconds": 1.0}


def test_the_mean_is_over_tasks_and_what_broke_does_not_count():
    rows = [row("a", "success")] * 3 + [row("a", "failure")] + [row("b", "failure"), row("b", "environment_error")]
    rows += [row("b", "exhausted"), row("c", "environment_error"), row("d", "unscored"), row("b", "policy_error")]
    board = scoreboard(rows)
    rates = {item.task: item.success for item in board.tasks}
    assert rates == {"a": 0.75, "b": 0.0, "c": None, "d": None}
    assert board.mean_success == pytest.approx(0.375)
    assert board.overall.scored == 6
    assert board.overall.success == pytest.approx(3 / 6)
    assert board.overall.environment_errors == 2
    assert board.overall.policy_errors == 1
    assert board.overall.unscored == 1
    assert board.overall.at_least == pytest.approx(3 / 10)  # had everything unknown failed
    assert [verdict(one) for one in rows] == [True] * 3 + [False, False, None, False, None, None, None]


def test_nothing_to_score():
    for rows in ([], [row("a", "unscored")], [row("a", "environment_error")], [row("a", "policy_error")]):
        board = scoreboard(rows)
        assert board.mean_success is None
        assert (board.low, board.high) == (0.0, 1.0)
    assert scoreboard([]).overall.at_least is None


def test_pass_at_k_by_hand():
    # Four tries of one seed, one success: of the six pairs three hold it. Two of four: five of six hold one, one both.
    def tries(seed: int, signs: str, task: str = "a") -> list[dict]:
        return [row(task, "success" if sign == "+" else "failure", seed=seed) for sign in signs]

    found = {one.k: one for one in repeats(tries(0, "+---") + tries(1, "+-+-"))}
    assert sorted(found) == [1, 2, 3, 4]
    assert found[1].any_of == found[1].all_of == pytest.approx((1 / 4 + 2 / 4) / 2)
    assert found[2].any_of == pytest.approx((3 / 6 + 5 / 6) / 2)
    assert found[2].all_of == pytest.approx((0 + 1 / 6) / 2)
    assert (found[4].any_of, found[4].all_of) == (1.0, 0.0)
    # A try that broke is no try: this seed has three, and is left out of pass@4.
    broken = [*tries(0, "+---"), *tries(1, "+--"), row("a", "environment_error", seed=1)]
    assert [one.instances for one in repeats(broken)] == [2, 2, 2, 1]
    assert repeats([]) == ()
    # Five equal tries of each of four seeds say no more than one: the interval is that of four, not of twenty.
    equal = scoreboard(tries(0, "+++++") + tries(1, "-----") + tries(2, "-----") + tries(3, "-----")).overall
    four = clustered([1.0, 0.0, 0.0, 0.0], 4)
    assert (equal.low, equal.high) == pytest.approx(four)
    single = scoreboard(tries(0, "+++-" * 5))  # one seed of one task: how often does that one succeed?
    assert (single.low, single.high) == (single.overall.low, single.overall.high) == wilson(15, 20)
    several = [row(task, "success" if seed else "failure", seed=seed) for task in "abc" for seed in (0, 1)]
    often, once = scoreboard(several * 5), scoreboard(several)
    assert (often.low, often.high) == (once.low, once.high)
    # The mean is over tasks here too.
    uneven = repeats(tries(0, "+") + tries(1, "+") + tries(2, "+") + tries(0, "-", "b"))
    assert uneven[0].any_of == 0.5
