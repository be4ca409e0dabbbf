"""The same store in an object store: a real S3 server, and for what takes hundreds of tries a store in memory."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holotron.errors import ConfigError, StorageError
from holotron.storage import leases
from holotron.storage.files import (
    append_line,
    entries,
    exists,
    growing_file,
    is_folder,
    move_file,
    numbered_files,
    read_file,
    remove_file,
    replace_file,
)
from holotron.storage.journal import to_line
from holotron.storage.leases import Lease
from holotron.storage.locks import LOCK, lock_folder
from holotron.storage.objects import Objects, shown
from holotron.storage.store import ShardedStore, read_records
from holotron.storage.verify import quarantine, verify
from tests.storage.object_store import RUNS, s3_server
from tests.storage.records import TABLES, fill, open_store, record

_number = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    with s3_server() as settings:
        yield settings


@pytest.fixture
def folder(server: dict[str, str]) -> Path:
    return RUNS / f"run-{next(_number)}"


def test_files_that_are_whole_and_files_that_grow(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_file(folder / "none")
    replace_file(folder / "a.json", b"1")
    replace_file(folder / "a.json", b"22")
    assert read_file(folder / "a.json") == b"22" and exists(folder / "a.json")
    grown = growing_file(folder / "journal" / "000003.jsonl")
    for line in range(12):
        grown.append(f"line {line}\n".encode())
    assert read_file(folder / "journal" / "000003.jsonl").decode().split("\n")[:-1] == [f"line {n}" for n in range(12)]
    assert numbered_files(folder / "journal", ".jsonl") == [3]
    append_line(folder / "log", b"one")
    append_line(folder / "log", b"two")
    assert read_file(folder / "log") == b"one\ntwo\n"
    move_file(folder / "a.json", folder / "b" / "a.json")
    assert entries(folder) == ["b", "journal", "log"]
    remove_file(folder / "journal" / "000003.jsonl")
    assert not exists(folder / "journal" / "000003.jsonl") and not is_folder(folder / "journal")
    growing_file(folder / "twice").append(b"x")
    with pytest.raises(StorageError, match="another process writes"):
        growing_file(folder / "twice").append(b"x")
    assert shown(folder).startswith("s3://runs/run-")


def test_what_the_store_refuses_is_one_sentence(server: dict[str, str]) -> None:
    with pytest.raises(StorageError, match=r"cannot write s3://nowhere/x: there is no such bucket"):
        replace_file(Path("s3://nowhere/x"), b"")
    with pytest.raises(StorageError, match=r"nonsense:// is no kind of store"):
        replace_file(Path("nonsense://x/y"), b"")


def test_a_store_of_records(folder: Path) -> None:
    fill(folder, 5)
    assert list(read_records(folder, TABLES)) == [record(number) for number in range(5)]
    with open_store(folder) as store:
        store.forget(["r1"])
        store.append(*record(7))
    assert {row["id"] for row, _ in read_records(folder, TABLES)} == {"r0", "r2", "r3", "r4", "r7"}
    assert verify(folder, TABLES).findings == []
    replace_file(folder / "heads" / "000000.parquet", b"damaged")
    report, _ = quarantine(folder, TABLES)
    assert [finding.file for finding in report.findings] == ["heads/000000.parquet"]
    assert {row["id"] for row, _ in read_records(folder, TABLES)} == {"r2", "r3", "r4", "r7"}


# ------------------------------------------------------------------------------------------------------------- leases


def test_one_writer_at_a_time_and_the_next_one_when_it_was_killed(
    folder: Path, server: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE_SECONDS", 6.0)
    code = (
        "import time; from pathlib import Path; from tests.storage.records import open_store, record\n"
        "from holotron.storage import leases; leases.LEASE_SECONDS = 6.0\n"
        f"store = open_store(Path({str(folder)!r}), shard_records=9); store.append(*record(0))\n"
        "print('there', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=os.environ | server)
    try:
        assert process.stdout is not None and process.stdout.readline()
        with pytest.raises(ConfigError, match="another process is writing to s3://runs/run-"):
            open_store(folder)  # it has seen the other one count
        process.send_signal(signal.SIGKILL)
        process.wait()
        with open_store(folder, shard_records=9) as store:  # at once: it was a process of this machine
            assert list(store.finished) == ["r0"]
            store.append(*record(1))
    finally:
        process.kill()
    assert list(read_records(folder, TABLES)) == [record(0), record(1)]
    lock_folder(folder).close()  # given back


def test_a_holder_that_cannot_renew_is_taken_over_and_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "LEASE_SECONDS", 1.0)
    place = Path(f"memory://leases-{next(_number)}")
    first = Lease(place, place / LOCK)
    with pytest.raises(ConfigError, match="another process is writing"):
        Lease(place, place / LOCK)
    first._end.set()  # it hangs, or its network is gone: no more counting
    first.check()
    takers: list[Lease | str] = []

    def take() -> None:
        try:
            takers.append(Lease(place, place / LOCK))
        except ConfigError as error:
            takers.append(str(error))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (second,) = [one for one in takers if isinstance(one, Lease)]
    second.check()
    with pytest.raises(StorageError, match="taken it over"):
        first.check()
    first.close()
    second.check()
    second.close()
    Lease(place, place / LOCK).close()


def test_cut_off_before_any_call_nothing_is_lost_or_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer is cut off before its n-th call, for every n; another one completes what it began."""

    class CutOff(BaseException):
        pass

    calls, limit = 0, 0

    def counted(name: str) -> None:
        real = getattr(Objects, name)

        def call(self: Objects, *arguments: object) -> object:
            nonlocal calls
            if threading.current_thread().name != "holotron-lease":
                calls += 1
                if calls == limit:
                    raise CutOff
            return real(self, *arguments)

        monkeypatch.setattr(Objects, name, call)

    for name in ("write", "create", "remove"):
        counted(name)
    for number in range(1, 200):
        place = Path(f"memory://cut-{next(_number)}/run")
        calls, limit = 0, number
        sure: list[str] = []
        store: ShardedStore[str] | None = None
        made: list[Lease] = []

        def lease(*given: Path, made: list[Lease] = made) -> Lease:
            made.append(Lease(*given))
            return made[0]

        monkeypatch.setattr("holotron.storage.locks.Lease", lease)
        try:
            store = open_store(place)
            for n in range(5):
                store.append(*record(n))
                sure.append(f"r{n}")
            store.close()
        except CutOff:
            for lease in made:
                lease._end.set()
        cut = calls >= limit
        limit = 0
        monkeypatch.setattr("holotron.storage.locks.Lease", Lease)
        before = [row["id"] for row, _ in read_records(place, TABLES)] if exists(place / "manifest.json") else []
        assert len(before) == len(set(before)) and set(sure) <= set(before)
        with monkeypatch.context() as hurried:  # nobody waits long for one that is dead; who writes has all the time
            hurried.setattr(leases, "LEASE_SECONDS", 0.02)
            again = open_store(place)
        with again:
            assert set(sure) <= set(again.finished) and len(set(again.finished) - set(sure)) <= 1
            for n in range(5):
                if f"r{n}" not in again.finished:
                    again.append(*record(n))
        found = {row["id"]: (row, parts) for row, parts in read_records(place, TABLES)}
        assert found == {f"r{n}": record(n) for n in range(5)}
        report = verify(place, TABLES)
        assert report.findings == [] and report.records == 5
        if not cut:
            break
    assert number > 15


def test_a_record_that_came_late_is_not_doubled() -> None:
    """Of a writer that had been taken over without knowing it."""
    place = Path(f"memory://late-{next(_number)}/run")
    fill(place, 3, shard_records=1)
    line = growing_file(place / "journal" / "000009.jsonl")
    line.append(to_line(*record(1)))
    line.append(to_line(*record(5)))
    with open_store(place) as store:
        assert sorted(store.finished) == ["r0", "r1", "r2", "r5"]
    assert sorted(row["id"] for row, _ in read_records(place, TABLES)) == ["r0", "r1", "r2", "r5"]
