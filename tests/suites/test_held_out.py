"""What is held out for measuring is refused wherever something is learnt, and stays open to be measured."""

from __future__ import annotations

import asyncio
import json
import lzma
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holotron.agent.dialects import make_dialect
from holotron.agent.history import Append
from holotron.agent.policies.registry import PolicyRequest
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.annotate.items import Wishes, items_of_run
from holotron.cli import export, train
from holotron.errors import ConfigError
from holotron.rollouts import pack as packing
from holotron.rollouts.export import export_sft
from holotron.rollouts.recorded import open_recorded
from holotron.rollouts.runner import rollout
from holotron.rollouts.suite import opened
from holotron.suites.base import HELD_OUT, Suite, find_suite, refuse_held_out
from holotron.types import Task
from tests.agent.toy import ButtonPool, press_target

REFUSED = "held out for measuring"


def recorded(out: Path, suite: str, environment: dict | None = None, **options: object) -> Path:
    """Three presses of buttons, which say that they were played elsewhere."""
    tasks = [Task(suite, "press", seed=1, options={"presses": 3, **options})]
    asyncio.run(rollout(tasks, ScriptedPolicy(press_target), ButtonPool(), out, environment=environment))
    return out


@pytest.fixture(params=[*HELD_OUT, "sites:heldout", "marked by somebody else"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "sites:heldout":
        return recorded(tmp_path / "run", "sites", split="heldout")
    if request.param in HELD_OUT:
        return recorded(tmp_path / "run", request.param)
    return recorded(tmp_path / "run", "theirs", {"suite": "theirs", "held_out": True})


def test_a_recorded_run_is_no_training_data(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=REFUSED):
        open_recorded(run)
    with pytest.raises(ConfigError, match=REFUSED):
        packing.pack([run], tmp_path / "packed.zip")
    with pytest.raises(ConfigError, match=REFUSED):
        export_sft(run, tmp_path / "sft.jsonl", make_dialect("compact"), Append())
    for kind in ("point", "caption"):
        with pytest.raises(ConfigError, match=REFUSED):
            list(items_of_run(run, kind, Wishes()))
    assert len(list(items_of_run(run, "judgement", Wishes()))) == 1  # which is measuring
    assert not (tmp_path / "sft.jsonl").exists() and not (tmp_path / "packed.zip").exists()
    said = CliRunner().invoke(export.app, [str(run), str(tmp_path / "sft.jsonl")])
    assert isinstance(said.exception, ConfigError) and REFUSED in str(said.exception)


def test_other_runs_are(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", "sites", split="train")
    assert len(open_recorded(run).episodes) == 1
    assert export_sft(run, tmp_path / "sft.jsonl", make_dialect("compact"), Append()).episodes == 1


def test_a_packed_run_is_refused_by_what_its_episodes_say(tmp_path: Path) -> None:
    """Somebody packed it elsewhere, with something else."""
    run = recorded(tmp_path / "run", "theirs")
    packing.pack([run], tmp_path / "packed.zip")
    with zipfile.ZipFile(tmp_path / "packed.zip") as file:
        parts = {name: file.read(name) for name in file.namelist()}
    line = json.loads(lzma.decompress(parts["episodes.jsonl.xz"]))
    parts["episodes.jsonl.xz"] = lzma.compress(json.dumps(line | {"suite": "oscar"}).encode() + b"\n")
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as file:
        for name, data in parts.items():
            file.writestr(name, data)
    with pytest.raises(ConfigError, match=f"oscar is {REFUSED}"):
        open_recorded(tmp_path / "packed.zip")


@pytest.mark.parametrize("spec", [*HELD_OUT, "oscar:phone", "sites:heldout", "recall:heldout"])
def test_suites_are_marked_and_their_manifests_say_so(spec: str) -> None:
    suite = find_suite(spec)
    assert suite.held_out and suite.describe()["held_out"] is True
    with pytest.raises(ConfigError, match=REFUSED):
        refuse_held_out("tasks.suite", suite)


def test_what_is_trained_on_is_not_marked() -> None:
    suite = find_suite("sites", tasks="shop")
    assert not suite.held_out and "held_out" not in suite.describe()
    refuse_held_out("tasks.suite", suite)


@pytest.mark.parametrize("spec", ["trac", "oscar", "sites:heldout"])
def test_reinforcement_learning_and_labels_refuse_them(spec: str, tmp_path: Path) -> None:
    recipe = tmp_path / "rl.toml"
    recipe.write_text(
        f'name = "no"\n[model]\nsource = "tiny"\n[tasks]\nsuite = "{spec}"\n[schedule]\nsteps = 1\n', encoding="utf-8"
    )
    said = CliRunner().invoke(train.app, ["rl", str(recipe), "--dry-run"])
    assert isinstance(said.exception, ConfigError) and REFUSED in str(said.exception)

    async def label() -> None:
        async with opened(PolicyRequest("random"), spec, label=PolicyRequest("scripted")):
            pass

    with pytest.raises(ConfigError, match=REFUSED):
        asyncio.run(label())


def test_a_suite_of_ones_own_can_be_held_out() -> None:
    painted = find_suite("painted", tasks="all")
    mine: Suite = replace(painted, name="mine", held_out=True)
    with pytest.raises(ConfigError, match="mine is held out"):
        refuse_held_out("tasks.suite", mine)
