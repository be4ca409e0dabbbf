"""Any number of runs against each other, and as a table for a model card: as a user calls it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holotron.cli.eval import app
from holotron.errors import HolotronError, InputError
from holotron.evals.card import model_card
from holotron.evals.comparison import compare_runs, differences_beside_the_policy
from holotron.evals.results import read_result, read_results
from tests.evals.runs import make_run

HOSTILE = "a|b <script>alert(1)</script>\n[x](http://e) `c` é 🐙 *"


def run_cli(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def three(tmp_path: Path) -> list[Path]:
    names = [f"t{n}" for n in range(10)]
    return [
        make_run(tmp_path / "weak", dict.fromkeys(names, "+---"), model="weak"),
        make_run(tmp_path / "same", dict.fromkeys(names, "-+--"), model="same"),
        make_run(tmp_path / "strong", dict.fromkeys(names, "+++-"), model="strong"),
    ]


def test_three_runs_and_a_correction_for_three_questions(three, tmp_path):
    found = compare_runs(read_results(three))
    assert [pair.names for pair in found.pairs] == [("weak", "same"), ("weak", "strong"), ("same", "strong")]
    same, strong, _ = found.pairs
    assert same.result.overall.difference == 0 and same.verdict == "no difference is shown"
    assert strong.result.overall.won == 20 and strong.result.overall.lost == 0
    assert strong.result.chance_by_task == pytest.approx(2 / 2**10)
    assert strong.adjusted_by_task == pytest.approx(3 * 2 / 2**10)  # the smallest of three, times three
    assert strong.adjusted == pytest.approx(3 * 2 / 2**20)
    assert strong.verdict == "strong is better on tasks like these"
    said = run_cli("compare", *three, "--json", tmp_path / "c.json", "--html", tmp_path / "c.html")
    assert "weak -> strong: 25.0 -> 75.0 %, +50.0 points" in said
    assert "corrected for 3 comparisons" in said
    assert "Strong is better on tasks like these." in said
    data = json.loads((tmp_path / "c.json").read_text())
    assert data["pairs"][0]["verdict"] == "no difference is shown"
    assert (tmp_path / "c.html").read_text().startswith("<!doctype html>")


def test_few_tasks_say_little_about_others(tmp_path):
    """Sixty episodes of two tasks: sure on these, open on others."""
    before = make_run(tmp_path / "a", {"x": "-" * 30, "y": "-" * 30})
    after = make_run(tmp_path / "b", {"x": "+" * 20 + "-" * 10, "y": "+" * 20 + "-" * 10})
    (pair,) = compare_runs(read_results([before, after])).pairs
    assert pair.result.chance_by_task == 0.5
    assert pair.verdict == "b is better on these tasks; whether on others like them is open"


def test_what_broke_is_left_out_of_pairs(tmp_path):
    before = make_run(tmp_path / "a", {"x": "+-!?", "y": "++"})
    after = make_run(tmp_path / "b", {"x": "-+++", "y": "+!"})
    result = read_result(after)
    assert result.errors == 1 and result.scores.overall.scored == 5
    (pair,) = compare_runs(read_results([before, after])).pairs
    assert (pair.result.overall.episodes, pair.result.overall.won, pair.result.overall.lost) == (3, 1, 1)
    assert pair.result.unpaired == 3


def test_runs_that_cannot_be_compared_say_why(three, tmp_path):
    other = make_run(tmp_path / "other", {"t0": "+"}, suite="sites")
    with pytest.raises(InputError, match=r"different suites.*toy: weak; sites: other"):
        compare_runs(read_results([three[0], other]))
    with pytest.raises(InputError, match="at least two"):
        compare_runs(read_results(three[:1]))
    empty = make_run(tmp_path / "empty", {})
    with pytest.raises(InputError, match="empty has no episode with a verdict"):
        compare_runs(read_results([three[0], empty]))
    broken = make_run(tmp_path / "broken", {"t0": "!?"})
    with pytest.raises(InputError, match=r"broken has no episode with a verdict \(2 on record\)"):
        compare_runs(read_results([three[0], broken]))
    apart = make_run(tmp_path / "apart", {"z": "+-"})
    with pytest.raises(InputError, match="weak and apart: the two runs have no episode in common"):
        compare_runs(read_results([three[0], apart]))


def test_a_damaged_run_is_one_sentence(three, tmp_path):
    with pytest.raises(InputError, match="not a run directory"):
        read_results([tmp_path / "nowhere"])
    (three[0] / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        read_results(three)
    shard = next((three[1] / "episodes").glob("*.parquet"))
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(HolotronError, match="holotron data verify"):
        read_results(three[1:])


def test_one_episode(tmp_path):
    one, other = make_run(tmp_path / "a", {"x": "+"}), make_run(tmp_path / "b", {"x": "-"})
    (pair,) = compare_runs(read_results([one, other])).pairs
    assert (pair.result.low, pair.result.high) == (-1.0, 1.0)
    assert pair.result.overall.chance == 1.0


def test_names_tell_runs_apart(tmp_path):
    runs = [make_run(tmp_path / where / "eval", {"x": "+-", "y": "+"}) for where in ("before", "after")]
    assert [result.name for result in read_results(runs)] == ["before/eval", "after/eval"]
    assert "before/eval -> after/eval" in run_cli("compare", *runs)


def test_what_else_differs_is_said(tmp_path):
    def manifest(model: str, scale: float, history: str = "append", cpu: str = "abacus") -> dict:
        policy = {"policy": "engine", "model": model, "history": history, "dialect": {"name": "compact"}}
        shown = {"suite": "x", "view": {"scale": scale, "crop": True}}
        config = {"policy": policy, "limits": {"steps": 20}, "environment": shown}
        return {"config": config, "hardware": {"cpu": cpu}}

    def of(*manifests: dict) -> tuple:
        return differences_beside_the_policy([(f"r{n}", one) for n, one in enumerate(manifests)])

    assert of(manifest("a", 2), manifest("b", 2)) == ((), ())
    played, around = of(manifest("a", 2), manifest("a", 3, "window:3"), manifest("b", 2, cpu="slide rule"))
    assert played == (
        'policy.history: "append" (r0, r2); "window:3" (r1)',
        "environment.view.scale: 2 (r0, r2); 3 (r1)",
    )
    assert around == ('hardware.cpu: "abacus" (r0, r1); "slide rule" (r2)',)
    by_address = manifest("a", 2)
    by_address["config"]["policy"] |= {"policy": "openai", "base_url": "http://x/v1", "structured": True}
    assert of(manifest("a", 2), by_address)[0] == ("policy.structured: not said (r0); true (r1)",)
    runs = [
        make_run(tmp_path / "a", {"x": "+"}, view={"scale": 1}),
        make_run(tmp_path / "b", {"x": "+"}, view={"scale": 2}),
    ]
    assert "environment.view.scale: 1 (a); 2 (b)" in run_cli("compare", *runs)


def test_other_tasks_under_the_same_name_are_noticed(tmp_path):
    before = make_run(tmp_path / "a", {"x": "+-"}, goal="Buy milk.")
    after = make_run(tmp_path / "b", {"x": "+-"}, goal="Buy bread.")
    assert "2 episodes of the same name ask for different things, such as toy/x/0" in run_cli("compare", before, after)


def test_a_table_for_a_model_card(tmp_path):
    good = make_run(tmp_path / "good", {"x": "++-+", "y": "-!+?"}, repeats=2, missing=3)
    table = run_cli("card", good)
    lines = table.splitlines()
    assert lines[0].startswith("| benchmark | success | 95 % interval | tasks | episodes | no verdict |")
    assert lines[2].startswith("| good | 62.5 % |") and "| 2 | 8 | 2 | 1.0 |" in lines[2]
    assert any(line.startswith("| good, pass@2 | 100.0 %") for line in lines)  # of the seeds with two verdicts
    note = lines[-1]
    for words in ("suite toy", "seeds 0–1", "weights sha256:m", "limits 20 steps", "judge the environment's own check",
                  "2 cores", "Not complete: 3 episodes", "2 episodes broke", "50.0 % of all episodes"):  # fmt: skip
        assert words in note, words
    assert {line.count("|") for line in lines[:4]} == {lines[0].count("|")}


def test_hostile_names_cannot_leave_the_table(tmp_path):
    run = make_run(tmp_path / "a", {HOSTILE: "+-"}, model=HOSTILE)
    other = make_run(tmp_path / "b", {HOSTILE: "+-"}, model="plain")
    card = model_card(read_results([run, other]))
    body = card.splitlines()
    assert "<script>" not in card and not re.search(r"[^\\]\]\(http", card)
    assert all(line.replace("\\|", "").count("|") == body[0].count("|") for line in body[:4])
    assert "🐙" in card
    said = run_cli("compare", run, other)
    assert "[x](http://e)" in said or "[x]" in said  # rich markup would have eaten it


def test_runs_without_anything_still_have_a_card(tmp_path):
    card = model_card(read_results([make_run(tmp_path / "a", {}), make_run(tmp_path / "b", {"x": "!"})]))
    assert "| a | – | – | 0 | 0 | 0 |" in card
    assert "| b | – | – | 1 | 1 | 1 |" in card
