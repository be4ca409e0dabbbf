"""What a newcomer sees first: small web tasks, web apps beside them, one page of both."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from holotron.cli.demo import SITES, TASKS, app, make_room
from holotron.errors import ConfigError


@pytest.mark.browser
@pytest.mark.slow
def test_the_demo_plays_both_worlds_and_hides_nothing(tmp_path):
    out = tmp_path / "demo"
    done = CliRunner().invoke(app, ["--out", str(out), "--seeds", "1"], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    page = (out / "report.html").read_text()
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    assert [(run["name"], run["scored"]) for run in data["runs"]] == [("miniwob", len(TASKS)), ("sites", len(SITES))]
    assert all(episode["steps"] for episode in data["episodes"])  # every one can be looked at
    assert data["runs"][0]["success"] > 0.5
    apps = [episode for episode in data["episodes"] if episode["run"] == 1]
    for episode in apps:  # how each of them ended stands on the terminal, whatever it is
        assert episode["goal"] in done.output
        assert f"{episode['outcome']} after {episode['count']} step" in done.output
    failed = not any(episode["outcome"] == "success" for episode in apps)
    assert ("It fails there" in done.output) is failed


def test_a_demo_replaces_the_last_demo_and_nobodys_runs(tmp_path):
    out = tmp_path / "runs"
    runs = [out / "miniwob", out / "sites"]
    runs[0].mkdir(parents=True)
    (runs[0] / "manifest.json").write_text("of an evaluation that took a day")
    with pytest.raises(ConfigError, match="may not be a demo's"):
        make_room(out, runs)
    assert (runs[0] / "manifest.json").exists()

    demo = [tmp_path / "demo" / run.name for run in runs]
    make_room(tmp_path / "demo", demo)
    demo[1].mkdir()
    (tmp_path / "demo" / "notes.txt").touch()
    make_room(tmp_path / "demo", demo)
    assert not demo[1].exists() and (tmp_path / "demo" / "notes.txt").exists()
