"""What solved tasks cost, by a price table."""

from __future__ import annotations

from pathlib import Path

import pytest

from holotron.errors import ConfigError
from holotron.evals.costs import Price, Prices, cost_of, read_prices
from holotron.evals.results import read_result
from tests.evals.runs import make_run

TABLE = """
currency = "EUR"
[models."m*"]
prompt = 2.0
cached = 0.5
generated = 10.0
[models."m-local"]
hour = 3.6
[models."m-pictures"]
image = 0.25
"""


@pytest.fixture
def prices(tmp_path: Path) -> Prices:
    file = tmp_path / "prices.toml"
    file.write_text(TABLE)
    return read_prices(file)


def test_tokens_seconds_and_money_by_hand(tmp_path, prices):
    # Six episodes of 100 prompt tokens (60 cached) and 10 generated; two seconds each, one begun every second.
    run = make_run(tmp_path / "a", {"x": "++-", "y": "-!+"}, model="m1")
    cost = read_result(run, prices=prices).cost
    assert (cost.solved, cost.steps, cost.images) == (3, 6, 6)
    assert (cost.prompt_tokens, cost.cached_tokens, cost.generated_tokens) == (600, 360, 60)
    assert cost.seconds == pytest.approx(7.0)  # wall time, not the sum of 12
    assert cost.money == pytest.approx((240 * 2 + 360 * 0.5 + 60 * 10) / 1e6)
    assert cost.per_solved("money") == pytest.approx(cost.money / 3)
    assert cost.per_solved("generated_tokens") == 20
    assert cost.to_json()["per_solved"]["seconds"] == pytest.approx(7 / 3)


def test_time_that_nobody_played_is_not_paid_for(tmp_path, prices):
    def row(start: float, seconds: float) -> dict:
        tokens = dict.fromkeys(("prompt_tokens", "cached_tokens", "generated_tokens", "images_sent"), 0)
        return {"outcome": "success", "steps": 1, "started_at": start, "seconds": seconds, **tokens}

    rows = [row(0, 10), row(5, 10), row(6, 1), row(86_400, 5)]  # taken up a day later
    cost = cost_of(rows, {"config": {"policy": {"model": "m-local"}}}, prices)
    assert cost.seconds == 20
    assert cost.money == pytest.approx(20 * 3.6 / 3600)
    assert cost.prompt_tokens is None  # not zero: nobody counted


def test_the_longest_name_wins_and_some_have_no_price(tmp_path, prices):
    assert prices.of("m-local") == Price(hour=3.6)
    assert prices.of("m-pictures") == Price(image=0.25)
    assert prices.of("m2") == Price(2.0, 0.5, 10.0)
    assert prices.of("other") is None
    unknown = read_result(make_run(tmp_path / "a", {"x": "+"}, model="other"), prices=prices).cost
    assert unknown.money is None and "does not have other" in unknown.no_money
    uncounted = read_result(make_run(tmp_path / "b", {"x": "+"}, model="m1", tokens=0), prices=prices).cost
    assert uncounted.money is None and "no tokens" in uncounted.no_money
    nothing = read_result(make_run(tmp_path / "c", {"x": "-"}, model="m1"), prices=prices).cost
    assert nothing.money is not None and nothing.per_solved("money") is None  # nothing solved: not infinity, not zero
    assert read_result(make_run(tmp_path / "d", {"x": "+"}, model="m1")).cost.money is None  # no table


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("currency = ", "not valid TOML"),
        ('[models."a"]\nprompt = 1', "which currency"),
        ('currency = "USD"', "at least one model"),
        ('currency = "USD"\nmodels = 3', "at least one model"),
        ('currency = "USD"\n[models."a"]\nprompts = 1', "takes prompt, cached"),
        ('currency = "USD"\n[models."a"]\nprompt = -1', "not negative"),
        ('currency = "USD"\n[models."a"]\nprompt = "1"', "is a number"),
        ('currency = "USD"\n[models."a"]\nprompt = nan', "is a number"),
        ('currency = "USD"\n[models."a"]\nprompt = true', "is a number"),
        ('currency = "USD"\nmodel = 1', "there is no 'model'"),
    ],
)
def test_a_wrong_table_is_one_clear_error(tmp_path, text, words):
    file = tmp_path / "prices.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_prices(file)
    with pytest.raises(ConfigError, match="cannot read"):
        read_prices(tmp_path / "none.toml")
