"""Comparing two runs episode by episode, or task by task."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holotron.errors import InputError
from holotron.evals.paired import Change, compare, difference_interval, flip_chance, holm


def rows(outcomes: str, task: str = "a", first: int = 0) -> list[dict]:
    """`+` success, `-` failure, `!` broken."""
    named = {"+": "success", "-": "failure", "!": "environment_error"}
    return [{"id": f"{task}/{n}", "task": task, "outcome": named[sign]} for n, sign in enumerate(outcomes, first)]


def test_only_what_changed_counts():
    result = compare(rows("++--+") + rows("-", "b"), rows("+++-!") + rows("+", "b"))
    assert (result.overall.episodes, result.overall.won, result.overall.lost) == (5, 2, 0)
    assert result.overall.difference == pytest.approx(0.4)
    assert result.tasks["a"] == Change(4, 0.5, 0.75, 1, 0)
    assert result.tasks["b"] == Change(1, 0.0, 1.0, 1, 0)
    assert result.unpaired == 1  # broken in one of them
    assert result.low < 0.4 < result.high
    assert result.chance_by_task == 0.5  # two tasks, both better: one way in four, and as many the other way


def test_the_sign_test_against_the_binomial():
    assert Change(100, 0.5, 0.5, 0, 0).chance == 1
    assert Change(100, 0.5, 0.6, 9, 0).chance == pytest.approx(2 / 2**9)
    assert Change(100, 0.5, 0.6, 53, 38).chance == pytest.approx(0.1419, abs=2e-3)


def test_flipping_signs_against_every_possibility():
    for gains in ([3, -1, 2], [1, 1, 1, -1], [5], [0, 0], [2, 2, -3, 1, 0, -1]):
        every = [sum(s * g for s, g in zip(signs, gains, strict=True)) for signs in _signs(len(gains))]
        expected = sum(abs(total) >= abs(sum(gains)) for total in every) / len(every)
        assert flip_chance(gains) == pytest.approx(expected), gains
    # With gains of one it is the sign test: 9 won and 2 lost.
    assert flip_chance([1] * 9 + [-1] * 2) == pytest.approx(Change(11, 0, 0, 9, 2).chance)
    assert flip_chance([]) == 1.0
    assert 0 <= flip_chance([1] * 3000) < 1e-300  # large runs do not overflow


def _signs(count: int):
    return itertools.product((1, -1), repeat=count)


def test_the_interval_of_a_difference_by_hand():
    # Tasks of two episodes, gains 2, 0 and 1: difference 3/6. Deviations from 1/2 x 2 are 1, -1 and 0.
    error = math.sqrt(2 * 3 / 2) / 6
    t = 0.95 * math.sqrt(2 / (1 - 0.95**2))
    assert difference_interval([2, 0, 1], [2, 2, 2]) == pytest.approx((max(-1, 0.5 - t * error), 1.0))
    # Thirty tasks of one episode, five won: the textbook paired interval, d ± t(29) s / sqrt(30).
    s = math.sqrt((5 * (1 - 1 / 6) ** 2 + 25 * (1 / 6) ** 2) / 29)
    half = 2.045229642 * s / math.sqrt(30)
    assert difference_interval([1] * 5 + [0] * 25, [1] * 30) == pytest.approx((1 / 6 - half, 1 / 6 + half), abs=1e-6)
    low, high = difference_interval([0] * 20, [5] * 20)  # nothing changed: not known to the last digit all the same
    assert low == -high and high == pytest.approx(0.1611, abs=5e-5)
    assert difference_interval([1], [1]) == (-1.0, 1.0)  # one episode says nothing


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60), st.integers(1, 4))
def test_the_interval_holds_the_difference(pairs, tasks):
    before, after = ("".join("+" if one else "-" for one in side) for side in zip(*pairs, strict=True))

    def spread(signs: str) -> list[dict]:
        return [{**row, "task": f"t{n % tasks}"} for n, row in enumerate(rows(signs))]

    result = compare(spread(before), spread(after))
    assert -1 <= result.low <= result.overall.difference + 1e-12
    assert result.overall.difference - 1e-12 <= result.high <= 1
    assert result.overall.difference == pytest.approx((result.overall.won - result.overall.lost) / len(pairs))
    assert 0 < result.overall.chance <= 1
    assert 0 < result.chance_by_task <= 1


def test_tries_of_one_seed_are_one_piece_of_evidence():
    """Ten seeds, nine of them better; played five times each with the same outcomes it proves no more."""
    once = compare(rows("-" * 10), rows("+" * 9 + "-"))

    def tried(signs: str) -> list[dict]:
        one = rows(signs)
        return one + [{**row, "id": f"{row['id']}#{n}"} for row in one for n in range(1, 5)]

    often = compare(tried("-" * 10), tried("+" * 9 + "-"))
    assert often.overall.episodes == 50 and once.overall.episodes == 10
    assert often.chance == pytest.approx(once.chance) == pytest.approx(2 / 2**9)
    assert (often.low, often.high) == pytest.approx((once.low, once.high))


def test_other_seeds_of_the_same_tasks_are_compared_task_by_task():
    before = rows("--+-") + rows("----", "b") + rows("+-+-", "c")
    after = rows("++", first=10) + rows("+-", "b", first=10) + rows("++", "c", first=10) + rows("+", "only here")
    result = compare(before, after)
    assert not result.paired and result.chance is None
    assert result.overall.before == pytest.approx((0.25 + 0 + 0.5) / 3)
    assert result.overall.after == pytest.approx((1 + 0.5 + 1) / 3)
    assert result.unpaired == 1
    assert result.chance_by_task == pytest.approx(2 / 2**3)  # three tasks, all better
    assert result.tasks["b"].difference == 0.5


def test_runs_with_nothing_in_common_are_refused():
    with pytest.raises(InputError, match="same --tasks and --seeds"):
        compare(rows("+"), rows("+", "b"))
    with pytest.raises(InputError, match="same --tasks and --seeds"):
        compare(rows("+"), rows("+", first=5))  # one task with other seeds: nothing to set one against the other
    with pytest.raises(InputError):
        compare([], rows("+"))
    with pytest.raises(InputError):
        compare(rows("!"), rows("+"))
