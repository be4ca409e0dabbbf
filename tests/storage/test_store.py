"""The store of records: on record when `append` returns, whatever happens next; one configuration, one writer."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holotron.errors import ConfigError, InputError
from holotron.storage.journal import segment_path
from holotron.storage.manifest import agree
from holotron.storage.store import read_records
from tests.storage.records import MANIFEST, PLAIN, TABLES, fill, open_store, record


def test_records_come_back_in_order_with_their_parts(tmp_path: Path) -> None:
    fill(tmp_path, 5)
    assert list(read_records(tmp_path, TABLES)) == [record(number) for number in range(5)]
    assert [row for row, _ in read_records(tmp_path, PLAIN)] == [record(number)[0] for number in range(5)]
    with open_store(tmp_path) as store:
        assert store.finished == {f"r{number}": f"record {number}" for number in range(5)}
        with pytest.raises(InputError, match="r3 is already on record"):
            store.append(*record(3))


def test_killed_before_any_call_to_the_file_system_nothing_is_lost_doubled_or_half_forgotten(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.storage.crashing", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100  # so many places to be killed at


def test_a_shard_that_came_out_damaged_is_written_again_from_its_segment(tmp_path: Path) -> None:
    store = open_store(tmp_path / "live", shard_records=3)
    store.append(*record(0))
    line = segment_path(tmp_path / "live", 0).read_bytes()
    store.close()
    segment_path(tmp_path / "live", 0).write_bytes(line)  # killed before the segment could be removed,
    (tmp_path / "live" / "heads" / "000000.parquet").write_bytes(b"")  # and the power went
    with open_store(tmp_path / "live") as again:
        assert list(again.finished) == ["r0"]
    assert list(read_records(tmp_path / "live", TABLES)) == [record(0)]


def test_the_journal_is_what_older_versions_wrote(tmp_path: Path) -> None:
    store = open_store(tmp_path, shard_records=3)
    store.append(*record(0, parts=1))
    head = '{"id": "r0", "text": "record 0", "size": 1}'
    line = f'{{"episode": {head}, "steps": [{{"of": "r0", "index": 0, "text": "r0 part 0"}}]}}'
    assert segment_path(tmp_path, 0).read_text() == line + "\n"
    store.close()


# ------------------------------------------------------------------------------------------------- one folder, one run


def test_a_folder_keeps_its_configuration(tmp_path: Path) -> None:
    agree(tmp_path, {"format": 1, "config": {"a": {"b": 1, "c": 2}, "names": ["x", "y"]}})
    assert agree(tmp_path, {"format": 1, "config": {"a": {"b": 1, "c": 2}, "names": ["x", "y"]}, "host": "other"})
    with pytest.raises(ConfigError, match=r"another configuration \(a\.b was 1, is 5; a\.c was 2, is None\)"):
        agree(tmp_path, {"format": 1, "config": {"a": {"b": 5}, "names": ["x", "y"]}})
    with pytest.raises(ConfigError, match=r"names: 1 new \(z\), 2 left out \(x, y\)"):
        agree(tmp_path, {"format": 1, "config": {"a": {"b": 1, "c": 2}, "names": ["z"]}})
    many = {"format": 1, "config": dict.fromkeys("abcdefgh", 1)}
    with pytest.raises(ConfigError, match="and 4 more"):
        agree(tmp_path, many)


def test_a_set_of_episodes_can_be_part_of_what_must_be_equal(tmp_path: Path) -> None:
    """New seeds in an old folder would make a score of a set that nobody asked for."""
    manifest = {"format": 1, "kind": "eval", "config": {}, "episodes": [f"t/{seed}" for seed in range(22)]}
    equal = ("kind", "config", "episodes")
    agree(tmp_path, manifest, equal=equal)
    assert agree(tmp_path, manifest, equal=equal)["episodes"] == manifest["episodes"]
    more = manifest | {"episodes": [f"t/{seed}" for seed in range(20, 24)]}
    with pytest.raises(ConfigError, match=r"episodes: 2 new \(t/22, t/23\), 20 left out \(t/0, t/1, t/10, \.\.\.\)"):
        agree(tmp_path, more, equal=equal)
    assert agree(tmp_path, more)  # who may add seeds does not list them
    with pytest.raises(ConfigError, match="kind was 'eval', is 'rollout'"):
        agree(tmp_path, manifest | {"kind": "rollout"}, equal=equal)


def test_a_writer_passes_on_what_must_be_equal(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    with pytest.raises(ConfigError, match="extra was None, is 1"):
        type(open_store(tmp_path / "x"))(
            tmp_path, TABLES, MANIFEST | {"extra": 1}, shard_records=2, summary=str, equal=("config", "extra")
        )


def test_one_writer_at_a_time_and_the_lock_dies_with_it(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom tests.storage.records import open_store\n"
        "store = open_store(Path(sys.argv[1]))\nprint('open', flush=True)\ntime.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "open\n"
    with pytest.raises(ConfigError, match="another process"):
        open_store(tmp_path)
    child.kill()
    child.wait()
    open_store(tmp_path).close()


def test_a_damaged_manifest_is_one_sentence(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    (tmp_path / "manifest.json").write_text(json.dumps(["?"]))
    with pytest.raises(InputError, match=r"manifest\.json is damaged"):
        open_store(tmp_path)


def test_a_store_that_is_closed_while_a_record_arrives_stays_whole(tmp_path: Path) -> None:
    """As when a run is cancelled: its last record is written by a thread that nobody waits for."""
    for attempt in range(20):
        store = open_store(tmp_path / str(attempt), shard_records=100)

        def add(numbers: range, store: Any = store) -> None:
            for number in numbers:
                store.append(*record(number))

        add(range(5))
        with ThreadPoolExecutor(2) as threads:
            late = threads.submit(add, range(5, 9))
            threads.submit(store.close).result()
        if late.exception() is not None:
            assert isinstance(late.exception(), InputError)
        open_store(tmp_path / str(attempt)).close()  # which checks that heads and parts fit
        assert 5 <= len(list(read_records(tmp_path / str(attempt), TABLES))) <= 9
