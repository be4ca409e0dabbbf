"""Reports of several runs, of very large ones, and of what people and pages put into them."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from holotron.errors import InputError
from holotron.evals.report import write_report
from tests.evals.runs import make_run

HOSTILE = "</script><script>window.stolen = 1</script><!--\u2028 %%DATA%% é 🐙 \x07"


def data_of(page: Path) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_ten_thousand_episodes_make_a_small_page_in_seconds(tmp_path):
    tasks = {f"task-{n:04d}": "+-+--!-+x-" for n in range(1000)}
    long = {"goal": "Do this. " * 200, "answer": "I have done it. " * 200, "reply": "word " * 4000}
    run = make_run(tmp_path / "large", tasks, steps=3, shard=500, **long)
    began, used = time.monotonic(), time.process_time()
    report = write_report(run)
    used, wall = time.process_time() - used, time.monotonic() - began
    assert report.episodes == 10_000
    assert report.bytes < 20e6
    assert used < 30, f"{used:.1f} s of CPU, {wall:.1f} s"
    data = data_of(report.path)
    assert len(data["episodes"]) == 10_000
    assert 20 < report.playable <= 300
    assert f"{report.playable} of 10000 episodes can be played" in data["notice"]
    assert "1000 episodes broke and are in no rate" in data["notice"]


def test_several_runs_on_one_page(tmp_path):
    runs = [
        make_run(tmp_path / "one", {"x": "++-"}, model="a"),
        make_run(tmp_path / "two", {"x": "---", "y": "+"}, suite="other", model="b", missing=2,
                 curve={"of": "distance", "at": {"x": 1, "y": 2}}),
        make_run(tmp_path / "none", {}),
    ]  # fmt: skip
    report = write_report(runs, tmp_path / "all.html")
    assert (report.episodes, report.playable) == (7, 7)
    data = data_of(report.path)
    assert [(run["name"], run["success"], run["errors"]) for run in data["runs"]] == [
        ("one", pytest.approx(2 / 3), 0), ("two", 0.5, 0), ("none", None, 0),
    ]  # fmt: skip
    assert [plot["title"] for plot in data["plots"]] == [
        "Success, with 95 % intervals", "How episodes ended", "two: Success by distance",
    ]  # fmt: skip
    assert {(task["run"], task["task"]) for task in data["tasks"]} == {(0, "x"), (1, "x"), (1, "y")}
    assert "two: this run is not complete: 2 episodes have not been played" in data["notice"]
    assert data["protocols"]["one"]["weights"] == "sha256:a"
    with pytest.raises(InputError, match="a file to be written to"):
        write_report(runs)


def test_hostile_names_and_answers_stay_text(tmp_path):
    run = make_run(tmp_path / "a", {HOSTILE: "+-"}, model=HOSTILE, goal=HOSTILE, answer=HOSTILE, reply=HOSTILE)
    other = make_run(tmp_path / "b\udcff", {"x": "!"})  # a folder's name that is no Unicode
    report = write_report([run, other], tmp_path / "page.html", title=HOSTILE)
    page = report.path.read_text()
    assert page.count("<script") == 2 and "<!--" not in page
    data = data_of(report.path)
    assert data["title"] == HOSTILE
    assert data["episodes"][0]["answer"] == HOSTILE
    assert data["episodes"][2]["reward"] is None  # it broke: no verdict, and no 0
