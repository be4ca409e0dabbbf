"""The trajectory format: what goes in comes out, by our reader and by everybody else's; crashes leave it whole."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from holotron.cli.data import app
from holotron.errors import ConfigError, InputError
from holotron.rollouts.records import LONGEST_TEXT
from holotron.rollouts.store import RunReader, RunWriter
from holotron.storage.journal import segment_path
from holotron.types import (
    Answer,
    Click,
    Completion,
    Observation,
    Outcome,
    PressKeys,
    Reply,
    Step,
    Task,
    Trajectory,
    Wait,
)

MANIFEST = {"kind": "test", "config": {"policy": {"name": "p"}, "limits": {"steps": 3}}}


def observation(number: int, note: str = "") -> Observation:
    return Observation(
        b"png" + bytes([number % 7]), "image/png", (640, 480), (320, 240), "http://a/ü", "Täb 🎉", ("a", "b"), 1, note
    )


def trajectory(number: int, outcome: Outcome = Outcome.SUCCESS) -> Trajectory:
    task = Task("toy", "press", "Press it", number, "http://a", {"level": 3, "names": ["x"]})
    completion = Completion(
        text='{"a": "\\u00fc"}',
        reasoning="hm",
        prompt_tokens=120,
        cached_tokens=100,
        generated_tokens=3,
        images_sent=1,
        tokens=(1, 2, 300_000),
        logprobs=(-0.5, -0.25, -8.0),
        policy_version=4,
        finish_reason="length",
        seconds=0.5,
    )
    steps = (
        Step(0, observation(number), Reply(completion, "note", "thought", Click(10.5, 20, "é")), 0.0, False, 0.5, 0.25),
        Step(1, observation(number + 1), Reply(Completion("?"), error="no JSON"), info={"refused": True}),
        Step(2, observation(number + 1), Reply(Completion(""), action=PressKeys(("Control", "a")))),
        Step(3, observation(number + 2), Reply(Completion(""), action=Wait(60))),  # longer than models may ask for
        Step(4, observation(number + 3, "dialog"), Reply(Completion(""), action=Answer("42\n")), 1.0, True),
    )
    return Trajectory(
        f"toy/press/{number}", task, steps, outcome, 1.0, "42\n", "why", 1, 1.7e9, 2.5, observation(number + 4)
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with RunWriter(tmp_path / "run", MANIFEST, shard_episodes=4) as writer:
        for number in range(10):
            writer.append(trajectory(number, Outcome.SUCCESS if number % 2 else Outcome.FAILURE))
    return tmp_path / "run"


def test_what_goes_in_comes_out(run):
    reader = RunReader(run)
    expected = [trajectory(number, Outcome.SUCCESS if number % 2 else Outcome.FAILURE) for number in range(10)]
    assert list(reader.trajectories()) == expected
    assert reader.manifest["config"] == MANIFEST["config"]
    assert [row["success"] for row in reader.episodes()] == [bool(number % 2) for number in range(10)]
    first = next(reader.trajectories(where=lambda row: row["seed"] == 7, images=False))
    assert first.id == "toy/press/7"
    assert first.steps[0].observation.image == b""


def test_the_directory_is_what_the_documentation_says(run):
    assert sorted(path.name for path in (run / "episodes").iterdir()) == [f"00000{n}.parquet" for n in range(3)]
    assert sorted(path.name for path in (run / "steps").iterdir()) == [f"00000{n}.parquet" for n in range(3)]
    assert list((run / "journal").iterdir()) == []
    images = list((run / "images").glob("*/*.png"))
    assert len(images) == 7  # ten episodes, seven different pictures
    assert all(path.parent.name == path.stem[:2] for path in images)


def test_pyarrow_reads_it(run):
    import pyarrow.dataset

    steps = pyarrow.dataset.dataset(run / "steps").to_table()
    assert steps.num_rows == 50
    assert steps["tokens"][0].as_py() == [1, 2, 300_000]
    assert steps.schema.metadata[b"holotron.format"] == b"1"


def test_duckdb_reads_it(run):
    import duckdb

    query = f"""
        select count(*), sum(s.generated_tokens), count(distinct s.observation.image)
        from '{run}/steps/*.parquet' s join '{run}/episodes/*.parquet' e on s.episode = e.id
        where e.success and s.tool_name = 'click'
    """
    assert duckdb.sql(query).fetchall() == [(5, 15, 5)]


def test_datasets_reads_it(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    import datasets

    steps = datasets.load_dataset(
        "parquet", data_files=str(run / "steps" / "*.parquet"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert len(steps) == 50
    assert steps[0]["logprobs"] == [-0.5, -0.25, -8.0]
    assert (run / steps[0]["observation"]["image"]).is_file()


def test_an_episode_is_recorded_once(run):
    with RunWriter(run, MANIFEST) as writer, pytest.raises(InputError, match="already on record"):
        writer.append(trajectory(3))


def test_broken_unicode_from_a_page_is_storable(tmp_path):
    odd = trajectory(0)
    bad = Observation(b"x", "image/jpeg", (1, 1), (1, 1), title="half \ud83d pair")
    step = Step(0, bad, Reply(Completion("\udc00"), action=Answer("\ud800")))
    with RunWriter(tmp_path / "run", MANIFEST) as writer:
        writer.append(Trajectory(odd.id, odd.task, (step,), Outcome.FAILURE))
    (back,) = RunReader(tmp_path / "run").trajectories()
    assert back.steps[0].observation.title == "half ? pair"


# ------------------------------------------------------------------------------------------------- crashes and locks


def crashed_copy(tmp_path: Path, episodes: int) -> Path:
    """A run directory as a killed process leaves it: episodes in the journal, none moved into a shard."""
    writer = RunWriter(tmp_path / "live", MANIFEST, shard_episodes=100)
    for number in range(episodes):
        writer.append(trajectory(number))
    shutil.copytree(tmp_path / "live", tmp_path / "dead")
    writer.close()
    return tmp_path / "dead"


def test_a_live_run_can_be_read(tmp_path):
    with RunWriter(tmp_path / "run", MANIFEST, shard_episodes=2) as writer:
        for number in range(3):
            writer.append(trajectory(number))
            assert [t.id for t in RunReader(tmp_path / "run").trajectories()] == [
                f"toy/press/{n}" for n in range(number + 1)
            ]


def test_a_killed_run_loses_nothing(tmp_path):
    dead = crashed_copy(tmp_path, 3)
    with RunWriter(dead, MANIFEST) as writer:
        assert set(writer.finished) == {"toy/press/0", "toy/press/1", "toy/press/2"}
        writer.append(trajectory(3))
    assert list(RunReader(dead).trajectories()) == [trajectory(number) for number in range(4)]


@pytest.mark.parametrize("keep", [1, 50, -1, -40])
def test_a_torn_line_is_an_episode_to_run_again(tmp_path, keep):
    dead = crashed_copy(tmp_path, 2)
    journal = segment_path(dead, 0)
    first, second = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(first + second[:keep])
    assert len(RunReader(dead).episodes()) == 1
    with RunWriter(dead, MANIFEST) as writer:
        assert list(writer.finished) == ["toy/press/0"]
        writer.append(trajectory(1))
    assert list(RunReader(dead).trajectories()) == [trajectory(0), trajectory(1)]


def test_a_crash_between_shard_and_journal_doubles_nothing(tmp_path):
    dead = crashed_copy(tmp_path, 2)
    journal = segment_path(dead, 0).read_bytes()
    with RunWriter(dead, MANIFEST):
        pass
    segment_path(dead, 0).write_bytes(journal)  # the shard is in place, the segment was not removed yet
    assert len(RunReader(dead).episodes()) == 2
    with RunWriter(dead, MANIFEST) as writer:
        assert len(writer.finished) == 2
    assert not segment_path(dead, 0).exists()
    assert len(RunReader(dead).episodes()) == 2


def test_a_crash_between_steps_and_episodes_doubles_nothing(tmp_path):
    dead = crashed_copy(tmp_path, 2)
    journal = segment_path(dead, 0).read_bytes()
    with RunWriter(dead, MANIFEST):
        pass
    (dead / "episodes" / "000000.parquet").rename(dead / "episodes" / "000000.parquet.tmp")
    segment_path(dead, 0).write_bytes(journal)
    assert len(RunReader(dead).episodes()) == 2
    with RunWriter(dead, MANIFEST):
        assert not list((dead / "episodes").glob("*.tmp"))
    assert list(RunReader(dead).trajectories()) == [trajectory(0), trajectory(1)]


def test_damage_in_the_middle_is_not_passed_over(tmp_path):
    dead = crashed_copy(tmp_path, 2)
    journal = segment_path(dead, 0)
    journal.write_bytes(b"garbage\n" + journal.read_bytes())
    with pytest.raises(InputError, match="damaged at line 1"):
        RunReader(dead).episodes()


def test_one_writer_at_a_time(run):
    with RunWriter(run, MANIFEST), pytest.raises(ConfigError, match="another process"):
        RunWriter(run, MANIFEST)
    RunWriter(run, MANIFEST).close()


def test_another_experiment_does_not_mix_in(run):
    other = {"kind": "test", "config": {"policy": {"name": "q"}, "limits": {"steps": 3}}}
    with pytest.raises(ConfigError, match=r"policy\.name was 'p', is 'q'"):
        RunWriter(run, other)


def test_foreign_folders_are_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("...")
    with pytest.raises(ConfigError, match="not a run directory"):
        RunWriter(tmp_path, MANIFEST)
    with pytest.raises(InputError, match=r"no manifest\.json"):
        RunReader(tmp_path)


def test_other_formats_are_refused(run):
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(InputError, match="format 99"):
        RunReader(run)


def test_missing_pictures_are_named(run):
    shutil.rmtree(run / "images")
    with pytest.raises(InputError, match="images folder"):
        list(RunReader(run).trajectories())


def test_outcomes_can_be_forgotten_and_run_again(run):
    with RunWriter(run, MANIFEST) as writer:
        assert writer.forget([Outcome.FAILURE]) == 5
        assert writer.forget([Outcome.FAILURE]) == 0
        writer.append(trajectory(0))
    rows = RunReader(run).episodes()
    assert sorted(row["id"] for row in rows) == ["toy/press/0", *(f"toy/press/{n}" for n in (1, 3, 5, 7, 9))]
    assert sum(row["steps"] for row in rows) == 30
    import duckdb

    assert duckdb.sql(f"select count(*) from '{run}/steps/*.parquet'").fetchall() == [(30,)]


# ------------------------------------------------------------------------------------------------- damage and bounds


def command(*words: str) -> Result:
    return CliRunner().invoke(app, ["verify", *words])


def test_a_damaged_run_is_verified_put_right_and_completed(run):
    assert "all of 10 episodes are sound" in command(str(run)).stdout
    (run / "steps" / "000001.parquet").unlink()  # episodes 4 to 7
    stained = trajectory(1).steps[0].observation.image  # seen by episodes 0 and 1, and by 7 and 8
    name = next(path for path in run.glob("images/*/*") if path.read_bytes() == stained)
    name.write_bytes(b"something else")
    with pytest.raises(InputError, match=r"steps/000001\.parquet is missing"):
        list(RunReader(run).trajectories())
    found = command(str(run))
    assert isinstance(found.exception, InputError) and "--quarantine" in str(found.exception)
    assert "steps/000001.parquet: is missing" in found.stdout
    assert f"{name.relative_to(run)}: toy/press/1: it is damaged" in found.stdout
    fixed = command(str(run), "--quarantine")
    assert fixed.exit_code == 0, fixed.exception
    left = [t.id for t in RunReader(run).trajectories()]
    assert f"{len(left)} episodes are sound and stay" in fixed.stdout
    assert 0 < len(left) < 6
    with RunWriter(run, MANIFEST) as writer:
        for number in range(10):
            if f"toy/press/{number}" not in writer.finished:
                writer.append(trajectory(number))
    assert {t.id: t.steps for t in RunReader(run).trajectories()} == {
        f"toy/press/{number}": trajectory(number).steps for number in range(10)
    }
    assert "all of 10 episodes are sound" in command(str(run)).stdout


def test_there_is_something_to_verify(tmp_path):
    nothing = command(str(tmp_path))
    assert isinstance(nothing.exception, InputError) and "holds nothing to verify" in str(nothing.exception)


def test_what_a_page_says_about_itself_is_bounded(tmp_path):
    huge = "x" * 1_000_000
    seen = Observation(b"x", "image/png", (1, 1), (1, 1), f"data:,{huge}", huge, ("a", huge), 0, huge)
    short = replace(seen, url="http://a", title="a" * LONGEST_TEXT, tabs=("a", "b"), note="b")
    steps = (Step(0, seen, Reply(Completion(""))), Step(1, short, Reply(Completion(""))))
    with RunWriter(tmp_path / "run", MANIFEST) as writer:
        writer.append(Trajectory("t", Task("toy", "t"), steps, Outcome.FAILURE, error=huge, final=seen))
        assert segment_path(tmp_path / "run", 0).stat().st_size < 60_000
    (back,) = RunReader(tmp_path / "run").trajectories()
    assert back.steps[0].observation.title == "x" * LONGEST_TEXT + "… [cut: 1000000 characters]"
    assert back.steps[1].observation == short
    assert back.error.endswith("[cut: 1000000 characters]")


def test_an_evaluation_keeps_its_set_of_episodes(tmp_path):
    """With new seeds in an old folder the score would be that of a set nobody asked for."""
    equal = ("kind", "config", "episodes")
    RunWriter(tmp_path / "eval", MANIFEST | {"episodes": ["t/1", "t/2"]}, equal=equal).close()
    RunWriter(tmp_path / "eval", MANIFEST | {"episodes": ["t/1", "t/2"]}, equal=equal).close()
    with pytest.raises(ConfigError, match=r"episodes: 1 new \(t/3\), 1 left out \(t/1\)"):
        RunWriter(tmp_path / "eval", MANIFEST | {"episodes": ["t/2", "t/3"]}, equal=equal)


def test_a_torn_note_of_a_spoiled_attempt_is_passed_over(run):
    (run / "attempts.jsonl").write_bytes(b'{"episode": "a"}\n{"epis')
    with RunWriter(run, MANIFEST) as writer:
        writer.spoiled("b", 1, "torn into the line before")
        writer.spoiled("c", 1, "whole")
    assert [note["episode"] for note in RunReader(run).spoiled()] == ["a", "c"]
