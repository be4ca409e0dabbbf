"""What is likely true, given how often a judge errs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holotron.errors import InputError
from holotron.evals.calibration import Share, calibrate
from holotron.evals.judging.correction import ErrorRates, corrected, read_error_rates
from holotron.evals.judging.figures import Rate


@given(
    true=st.integers(0, 100), passes=st.integers(0, 45), fails=st.integers(0, 45), labels=st.sampled_from([100, 10_000])
)
def test_the_true_rate_comes_back_from_what_an_erring_judge_measures(true, passes, fails, labels):
    measured = true * (100 - fails) + (100 - true) * passes  # of 10,000
    errors = ErrorRates(Share(passes * labels // 100, labels), Share(fails * labels // 100, labels))
    estimate = corrected(Rate(measured, 10_000, 10_000), errors)
    assert estimate is not None
    assert estimate.rate == pytest.approx(true / 100)
    assert 0.0 <= estimate.low <= estimate.rate <= estimate.high <= 1.0


def test_few_labels_make_it_wide_and_chance_says_nothing():
    measured = Rate(640, 1000, 1000)
    wide = corrected(measured, ErrorRates(Share(9, 20), Share(1, 20)))
    narrow = corrected(measured, ErrorRates(Share(900, 2000), Share(100, 2000)))
    assert wide is not None and narrow is not None
    assert wide.rate == pytest.approx(narrow.rate) == pytest.approx(0.38)
    assert wide.high - wide.low > 3 * (narrow.high - narrow.low)
    assert corrected(measured, ErrorRates(Share(60, 100), Share(50, 100))) is None
    assert corrected(Rate(0, 0, 5), ErrorRates(Share(1, 10), Share(1, 10))) is None


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    """300 made-up judges with known errors, each calibrated on 200 labels and measured on 400 episodes."""
    import numpy as np

    random = np.random.default_rng(7)
    held = 0
    for _ in range(300):
        true, p, n = random.uniform(0.2, 0.8), random.uniform(0.05, 0.3), random.uniform(0.05, 0.3)
        successes = random.binomial(400, true * (1 - n) + (1 - true) * p)
        errors = ErrorRates(Share(int(random.binomial(100, p)), 100), Share(int(random.binomial(100, n)), 100))
        estimate = corrected(Rate(int(successes), 400, 400), errors)
        assert estimate is not None
        held += estimate.low <= true <= estimate.high
    assert 0.91 <= held / 300 <= 0.99


def test_files(tmp_path):
    file = tmp_path / "calibration.json"
    human = {("", str(n)): int(n < 5) for n in range(10)}
    result = calibrate(human, {**human, ("", "9"): 1})
    file.write_text(json.dumps({"webvoyager, a": result.to_json(), "webvoyager, b": result.to_json()}))
    assert read_error_rates(file, "webvoyager, a") == ErrorRates(Share(1, 5), Share(0, 5))
    for content, says in (
        (None, "has no calibration of 'webvoyager, c'; it has webvoyager, a, webvoyager, b"),
        ("{", "not valid JSON"),
        ("[]", "is no result"),
        ('{"x": {"false_positive": {"count": 1, "of": 0}}}', "is no result"),
    ):
        if content is not None:
            file.write_text(content)
        with pytest.raises(InputError, match=says):
            read_error_rates(file, "webvoyager, c")
    with pytest.raises(InputError, match="cannot read"):
        read_error_rates(tmp_path / "nowhere.json", "x")
