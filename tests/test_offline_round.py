"""tools/offline_round.py: time boxes, copies, seeds, failures and results, with real commands of the package."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tarfile
import time
import tomllib
from pathlib import Path

import pytest

from holotron.training.recipe import read_recipe

ROOT = Path(__file__).parents[1]
PLAN = """
name = "{name}-{{word}}"
results = ["runs/{name}-{{word}}.stages.json"]
facts = {{ word = "x" }}

[[stage]]
name = "one"
seconds = 60
job = [
  {{ name = "list", copies = 2, seeds = [10, 14, 1], command = ["sites", "list"] }},
  {{ name = "endless", background = true, command = ["sites", "serve", "shop"] }},
]

[[stage]]
name = "wrong"
seconds = 60
job = [{{ command = ["no-such-command"] }}]

[[stage]]
name = "boxed"
seconds = 4
job = [{{ command = ["sites", "serve", "shop"] }}]
"""


def run(plan: Path, store: Path, results: Path, *more: str) -> str:
    command = [sys.executable, str(plan.parent / "tools/offline_round.py"), str(plan), "--store", str(store)]
    done = subprocess.run([*command, "--results", str(results), *more], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """In a copy of the tree, because a round writes to runs/ there."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/offline_round.py").write_bytes((ROOT / "tools/offline_round.py").read_bytes())
    (tmp_path / "src").symlink_to(ROOT / "src")
    path = tmp_path / "a.plan"
    path.write_text(PLAN.format(name="try"))
    return path


def test_a_round(plan: Path, tmp_path: Path):
    store, results = tmp_path / "store", tmp_path / "out"
    store.mkdir()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:xz") as file:
        entry = tarfile.TarInfo("carried/word.txt")
        entry.size = 5
        file.addfile(entry, io.BytesIO(b"hello"))
    data = archive.getvalue()
    (store / "things.tar.xz.aa").write_bytes(data[:100])
    (store / "things.tar.xz.ab").write_bytes(data[100:])
    began = time.monotonic()
    said = run(plan, store, results, "--set", "word=y")
    assert time.monotonic() - began < 200
    assert (store / "carried/word.txt").read_text() == "hello"
    # Each copy has its own seeds, and the endless one did not keep the stage from ending.
    assert "one-list-0: [0, 0]" in said and "one-list-1: [0, 0]" in said and "one-endless-0: stopped" in said
    assert "wrong-job-0 ended with 2" in said and "no such command" in said
    assert "boxed took" in said
    # What went wrong is tried again, what is over is not.
    whole = b"".join(part.read_bytes() for part in sorted(results.glob("round.tar.*")))
    with tarfile.open(fileobj=io.BytesIO(whole)) as file:
        names = file.getnames()
        assert json.load(file.extractfile("runs/try-y.stages.json")) == ["one", "boxed"]
    assert "runs/logs/one-list-0.log" in names
    again = run(plan, store, results, "--set", "word=y")
    assert "wrong-job-0 ended with 2" in again and "one took" not in again and "boxed took" not in again
    assert not subprocess.run(["pgrep", "-f", f"{tmp_path}"], capture_output=True, text=True).stdout


def test_every_plan_of_the_package_can_be_rehearsed(monkeypatch):
    """Its recipes are valid with all that the plan changes in them, at full size and at the smallest."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.chdir(ROOT)
    from offline_round import fill, rehearsal

    plans = sorted(ROOT.glob("recipes/**/*.plan"))
    assert plans
    for path in plans:
        plan = tomllib.loads(path.read_text())
        facts = {"store": "there", "minutes": "1.0", "copy": "0", "seeds": "1:2", **plan.get("facts", {})}
        for stage in plan["stage"]:
            smallest = rehearsal(stage, 30)
            assert smallest["seconds"] == 30 and all(job["copies"] == 1 for job in smallest["job"])
            for job in [*stage["job"], *smallest["job"]]:
                words = [fill(word, facts).replace("runs=[]", 'runs=["runs/none-yet"]') for word in job["command"]]
                assert not [word for word in words if re.search(r"\{\w+[:}]", word)]
                if words[:2] == ["train", "sft"]:
                    changes = [word for word in words[3:] if "=" in word]
                    recipe = read_recipe(words[2], changes)
                    assert recipe.model.source and (recipe.schedule.steps == 1) == (job in smallest["job"])
