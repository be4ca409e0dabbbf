"""Judges against people."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holotron.errors import InputError
from holotron.evals.calibration import calibrate, plain_name, read_human_labels, read_verdicts

DATA = Path(os.environ.get("HOLOTRON_BENCHMARKS", Path(__file__).parents[3] / "shared" / "data")) / "online-mind2web"


def test_three_numbers():
    human = {("a", str(n)): int(n < 4) for n in range(10)}  # 4 successes, 6 failures
    judged = {**human, ("a", "0"): 0, ("a", "8"): 1, ("a", "9"): 1, ("b", "0"): 1}
    found = calibrate(human, judged)
    assert (found.agreement.count, found.agreement.of) == (7, 10)
    assert (found.false_positive.count, found.false_positive.of) == (2, 6)
    assert (found.false_negative.count, found.false_negative.of) == (1, 4)
    assert (found.human_rate, found.judged_rate) == (0.4, 0.5)
    low, high = found.false_positive.interval
    assert low < 1 / 3 < high
    with pytest.raises(InputError, match="no item in common"):
        calibrate(human, {("c", "0"): 1})


def test_files_say_what_is_wrong(tmp_path):
    assert plain_name("Agent-E") == plain_name("agente")
    file = tmp_path / "x.json"
    for content, reader, says in (
        ("[", read_human_labels, "row 1 is not valid JSON"),
        ('[{"task_id": "a", "X_human_label": "1"}, {"task_id": "b", "X_hum', read_human_labels, "row 2 is not valid"),
        ('[{"task_id": "a", "X_human_label": "yes"}]', read_human_labels, "row 1: X_human_label: .* found 'yes'"),
        ('{"a": 1, "b": "maybe"}', read_human_labels, "x.json, b: .* found 'maybe'"),
        ('{"a": 1, "b": [1]}', read_human_labels, "x.json, b: .* found"),
        ("{", read_human_labels, "not valid JSON"),
        ("{}", read_human_labels, "not a list"),
        ("[1]", read_human_labels, "row 1"),
        ('{"t": null}', read_human_labels, "holds no label of 0 or 1"),
        ("[]", read_verdicts, "not an object"),
        ('{"j": {"a": {"t": 2}}}', read_verdicts, "0 or 1, found 2"),
        ('{"j": {"a": 1}}', read_verdicts, "j, a: expected an object"),
    ):
        file.write_text(content)
        with pytest.raises(InputError, match=says):
            reader(file)
    with pytest.raises(InputError, match="cannot read"):
        read_verdicts(tmp_path / "nowhere.json")
    file.write_text('{"a": true, "b": false, "c": "1", "d": 0.0, "e": 2, "f": null, "g": ""}')
    assert read_human_labels(file) == {("", "a"): 1, ("", "b"): 0, ("", "c"): 1, ("", "d"): 0}


@pytest.mark.skipif(not DATA.is_dir(), reason="needs published labels (HOLOTRON_BENCHMARKS)")
def test_the_published_judges_against_the_published_labels():
    """What follows from the files, counted once more by hand."""
    rows = json.loads((DATA / "human_label.json").read_text())
    people = {
        (plain_name(key.removesuffix("_human_label")), row["task_id"]): value
        for row in rows for key, value in row.items() if key.endswith("_human_label")
    }  # fmt: skip
    published = json.loads((DATA / "webjudge_verdicts.json").read_text())
    labels = read_human_labels(DATA / "human_label.json")
    for judge, said in read_verdicts(DATA / "webjudge_verdicts.json").items():
        pairs = [
            (people[plain_name(agent), task], verdict)
            for agent, tasks in published[judge].items() for task, verdict in tasks.items()
            if people.get((plain_name(agent), task)) in ("0", "1")
        ]  # fmt: skip
        found = calibrate(labels, said)
        assert found.agreement.of == len(pairs) == 1187
        assert found.agreement.count == sum(int(true) == verdict for true, verdict in pairs)
        assert found.false_positive.count == sum(true == "0" and verdict == 1 for true, verdict in pairs)
