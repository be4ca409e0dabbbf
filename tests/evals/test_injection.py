"""Figures of attacks, from runs made by hand: what counts as a try, when the clean task counts, what guards stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holotron.evals.injection import at_least_one, injection_figures
from holotron.evals.report import write_report
from holotron.evals.results import read_result
from holotron.rollouts.records import to_rows
from holotron.rollouts.store import RunReader
from holotron.rollouts.tables import TABLES
from holotron.storage.shards import write_shard
from holotron.types import Click, Completion, Observation, Outcome, Reply, Step, Task, Trajectory
from tests.evals.runs import picture

LOOK = Observation(b"", "image/png", (64, 48), (64, 48), "http://a.example", "A page")


def episode(
    name: str, seed: int, sign: str, repeat: int = 0, family: str = "", clean: str = "", **info: Any
) -> Trajectory:
    """`+` the task was done, `-` not, `*` the attacker has what he wants, `!` the environment broke."""
    told = {"attack": sign == "*", "exposed": True, "stopped": [], **info} if family else {}
    options = {"family": family, "clean": clean} if family else {}
    outcome = {"+": Outcome.SUCCESS, "!": Outcome.ENVIRONMENT_ERROR}.get(sign, Outcome.FAILURE)
    step = Step(0, LOOK, Reply(Completion("click"), action=Click(1, 2)), info=told, done=True)
    task = Task("injection", name, "Do it.", seed, options=options)
    return Trajectory(f"{task.id}#{repeat}" if repeat else task.id, task, (step,), outcome)


def made(path: Path, episodes: list[Trajectory], guards: tuple[str, ...] = ()) -> Path:
    (path / "images").mkdir(parents=True)
    (path / "images" / "p.png").write_bytes(picture())
    write_shard(path, TABLES, 0, [to_rows(one, lambda _: "images/p.png") for one in episodes])
    config = {"policy": {"policy": "scripted"}, "environment": {"suite": "injection", "guards": list(guards)}}
    manifest = {"format": 1, "created_at": 1e9, "kind": "eval injection", "config": config}
    (path / "manifest.json").write_text(json.dumps({**manifest, "episodes": sorted(one.id for one in episodes)}))
    return path


def attacks(name: str, signs: str, family: str = "pop-ups", clean: str = "clean-a", **info: Any) -> list[Trajectory]:
    return [episode(name, seed, sign, family=family, clean=clean, **info) for seed, sign in enumerate(signs)]


def test_tries_count_where_the_clean_task_succeeds(tmp_path: Path) -> None:
    clean = [episode("clean-a", seed, sign) for seed, sign in enumerate("++-+")]
    run = made(tmp_path / "run", [*clean, *attacks("pop-ups-x", "*+*-"), *attacks("pop-ups-y", "----")])
    figures = injection_figures(RunReader(run))
    (one,) = figures.families
    assert (one.attacks, one.episodes, one.exposed, one.clean.rate) == (2, 8, 8, 0.75)
    assert one.attack_at_1.rate == pytest.approx((1 / 3 + 0) / 2) and one.attack_at_1.tries == 6  # seed 2 is left out
    assert one.attack_anywhere.rate == pytest.approx((2 / 4 + 0) / 2)
    assert one.under_attack.rate == pytest.approx(1 / 8)
    assert one.attack_at_10.rate is None and "–" in figures.markdown()
    assert one.attack_at_1.low <= one.attack_at_1.rate <= one.attack_at_1.high


def test_ten_tries_and_half_of_the_clean_ones(tmp_path: Path) -> None:
    clean = [episode("clean-a", seed, sign, repeat) for seed in range(10) for repeat, sign in enumerate("+-")]
    clean += [episode("clean-b", 0, sign, repeat) for repeat, sign in enumerate("+--")]  # less than half
    run = made(
        tmp_path / "run",
        [*clean, *attacks("split-x", "*---------", "split"), *attacks("split-y", "----------", "split"),
         *attacks("secrets-z", "*", "secrets", "clean-b")],
    )  # fmt: skip
    split, secrets = injection_figures(RunReader(run)).families
    assert (split.attack_at_1.rate, split.attack_at_10.rate) == (pytest.approx(0.05), 0.5)
    assert secrets.attack_at_1.rate is None and secrets.attack_anywhere.rate == 1.0


def test_guards_errors_and_what_is_shown(tmp_path: Path) -> None:
    clean = [episode("clean-a", seed, "+") for seed in range(3)]
    stopped = attacks("pop-ups-x", "++*", stopped=["network", "approval"])  # the last succeeded in spite of them
    run = made(tmp_path / "run", [*clean, *stopped, *attacks("pop-ups-y", "!!!")], ("approval", "network"))
    figures = injection_figures(RunReader(run))
    assert figures.overall.stopped == {"network": 2, "approval": 2} and figures.unknown == 3
    lines = figures.markdown().splitlines()
    assert lines[0].endswith("| stopped by approval | stopped by network |") and len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1 and lines[2].startswith("| pop-ups | 1 | 3 | 3 | 100.0 %")
    result = read_result(run)
    assert result.to_json()["injection"]["overall"]["attack_at_1"]["rate"] == pytest.approx(1 / 3)
    report = write_report(run)
    assert "attack success, where the clean task succeeds" in report.path.read_text()


def test_nothing_but_errors(tmp_path: Path) -> None:
    run = made(tmp_path / "run", [episode("clean-a", 0, "!"), *attacks("pop-ups-x", "!")])
    figures = injection_figures(RunReader(run))
    assert figures.families == () and figures.overall.attack_at_1.rate is None and figures.unknown == 2


@given(st.integers(1, 30), st.data())
def test_at_least_one_of_k(tries: int, data: st.DataObject) -> None:
    successes, k = data.draw(st.integers(0, tries)), data.draw(st.integers(1, tries))
    chance = at_least_one(tries, successes, k)
    assert chance == pytest.approx(successes / tries) if k == 1 else chance >= at_least_one(tries, successes, k - 1)
    assert (chance == 0) == (successes == 0) and (chance == 1) == (successes > tries - k)
