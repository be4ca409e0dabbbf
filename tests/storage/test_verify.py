"""Damage is found wherever it is, moved aside, and what is left is used and completed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holotron.errors import ConfigError, InputError
from holotron.storage.journal import segment_path
from holotron.storage.shards import shard_path, write_rows
from holotron.storage.store import read_records
from holotron.storage.tables import Record
from holotron.storage.verify import Verification, quarantine, verify
from tests.storage.records import TABLES, fill, open_store, record


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b"\x28\xb5\x2f\xfd") + 9] ^= 4  # in the first page of values, compressed with zstd
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def swap(path: Path) -> None:
    """A shard that is whole, but another one's."""
    path.write_bytes(path.with_name("000000.parquet").read_bytes())


@pytest.mark.parametrize("table", ["heads", "parts"])
@pytest.mark.parametrize("damage", [truncate, flip, empty, swap, Path.unlink])
def test_damage_is_found_and_the_rest_is_used(tmp_path: Path, table: str, damage: Callable[[Path], None]) -> None:
    fill(tmp_path, 6)
    assert verify(tmp_path, TABLES).findings == []
    damage(tmp_path / table / "000001.parquet")
    if (table, damage) != ("heads", Path.unlink):  # a shard without its head does not count, as after a crash
        with pytest.raises(InputError, match=r"000001\.parquet .*`holotron data verify .* --quarantine`"):
            list(read_records(tmp_path, TABLES))
    report = verify(tmp_path, TABLES)
    assert report.records == 4
    assert report.findings and all("000001" in finding.file for finding in report.findings)
    _, aside = quarantine(tmp_path, TABLES)
    assert (aside / "findings.json").exists()
    assert list(aside.glob("*/000001.parquet"))
    assert verify(tmp_path, TABLES) == Verification(4, [])
    with open_store(tmp_path) as store:
        assert sorted(store.finished) == ["r0", "r1", "r4", "r5"]
        store.append(*record(2))
        store.append(*record(3))
    back = {row["id"]: (row, parts) for row, parts in read_records(tmp_path, TABLES)}
    assert back == {f"r{number}": record(number) for number in range(6)}


@pytest.mark.parametrize("damage", [truncate, empty, Path.unlink])
def test_parts_that_are_gone_are_noticed_when_a_store_is_taken_up(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    fill(tmp_path, 4)
    damage(tmp_path / "parts" / "000001.parquet")
    with pytest.raises(InputError, match=r"parts/000001\.parquet"):
        open_store(tmp_path)


def test_no_flipped_bit_goes_unseen(tmp_path: Path) -> None:
    """It is found, or it changes nothing: some bytes of a Parquet file mean nothing to a reader."""
    fill(tmp_path, 2)
    sound = list(read_records(tmp_path, TABLES))
    rng = random.Random(0)
    found = 0
    for path in (tmp_path / "heads" / "000000.parquet", tmp_path / "parts" / "000000.parquet"):
        whole = path.read_bytes()
        for _ in range(150):
            damaged = bytearray(whole)
            damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
            path.write_bytes(damaged)
            if verify(tmp_path, TABLES).findings:
                found += 1
            else:
                assert list(read_records(tmp_path, TABLES)) == sound
        path.write_bytes(whole)
    assert found > 100


def test_only_the_records_that_are_bad_are_taken_off(tmp_path: Path) -> None:
    fill(tmp_path, 4)
    write_rows(shard_path(tmp_path, TABLES.head, 0), [record(0)[0], record(1, parts=5)[0]], TABLES.head.schema())
    (tmp_path / "picture-3").write_text("bad")

    def check(record: Record) -> list[tuple[str, str]]:
        return [("picture-3", "it is bad")] if record[0]["id"] == "r3" else []

    report, aside = quarantine(tmp_path, TABLES, check)
    assert [finding.problem for finding in report.findings] == ["r1 has 3 of 5 parts", "r3: it is bad"]
    assert (aside / "picture-3").read_text() == "bad"  # else the same bad file would be used again
    assert not (tmp_path / "picture-3").exists()
    with open_store(tmp_path) as store:
        assert sorted(store.finished) == ["r0", "r2"]
    assert verify(tmp_path, TABLES, check) == Verification(2, [])


def test_lines_of_the_journal_that_cannot_be_read(tmp_path: Path) -> None:
    store = open_store(tmp_path / "live", shard_records=9)
    for number in range(3):
        store.append(*record(number))
    shutil.copytree(tmp_path / "live", tmp_path / "dead")
    store.close()
    segment = segment_path(tmp_path / "dead", 0)
    first, second, third = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(first + second[:9] + b"\0" + second[10:] + third)
    with pytest.raises(InputError, match="damaged at line 2"):
        open_store(tmp_path / "dead")
    report, aside = quarantine(tmp_path / "dead", TABLES)
    assert (report.records, report.findings[0].file) == (2, "journal/000000.jsonl")
    assert second[:9] in (aside / "journal" / "000000.jsonl").read_bytes()
    with open_store(tmp_path / "dead") as again:
        assert list(again.finished) == ["r0", "r2"]


def test_a_damaged_manifest_cannot_be_moved_aside(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    truncate(tmp_path / "manifest.json")
    (finding,) = verify(tmp_path, TABLES).findings
    assert finding.file == "manifest.json"
    assert not finding.movable


def test_nothing_is_moved_while_somebody_writes(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.append(*record(0))
        assert verify(tmp_path, TABLES) == Verification(1, [])
        with pytest.raises(ConfigError, match="another process"):
            quarantine(tmp_path, TABLES)
