"""A store killed before each of its calls to the file system in turn: `python -m tests.storage.crashing FOLDER`.

For n = 1, 2, ... a child does the same work and is ended, with nothing cleaned up, before its n-th call; its parent
then looks at what is left. Children are forks of a process that does nothing else, so a hundred crashes take seconds.
Prints how many there were.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from holotron.storage.store import read_records
from holotron.storage.verify import verify
from tests.storage.records import TABLES, open_store, record

CALLS = {"open", "os.rename", "os.remove", "os.mkdir", "os.truncate"}


def work(folder: Path, done: Callable[[str], None]) -> None:
    with open_store(folder) as store:
        for number in range(5):
            store.append(*record(number))
            done(f"+r{number}")
        done("?")
        store.forget(["r1", "r2", "r4"])
        done("-r1 -r2 -r4")
        store.append(*record(1))
        done("+r1")
        store.update_manifest(more=[1])


def crash_before(call: int, folder: Path, log: Path) -> None:
    lines = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    calls = 0

    def count(event: str, arguments: tuple[object, ...] = ()) -> None:
        nonlocal calls
        if event in CALLS and (event != "open" or str(folder) in str(arguments[0])):
            calls += 1
            if calls == call:
                os._exit(9)

    os.fsync = lambda descriptor: count("os.truncate")
    sys.addaudithook(count)
    work(folder, lambda line: (os.write(lines, line.encode() + b"\n"), None)[1])
    os._exit(0)


def look(folder: Path, log: Path) -> None:
    said = log.read_text().split("\n")[:-1] if log.exists() else []
    sure: set[str] = set()
    for line in said:
        for word in line.split():
            if word[0] in "+-":
                (sure.add if word[0] == "+" else sure.discard)(word[1:])
    forgetting = bool(said) and said[-1] == "?"
    wanted = sure - {"r1", "r2", "r4"} if forgetting else sure
    if not (folder / "manifest.json").exists():
        assert not sure
        return
    before = [row["id"] for row, parts in read_records(folder, TABLES) if len(parts) == row["size"]]
    assert len(before) == len(set(before)), before
    assert wanted <= set(before), (wanted, before)
    with open_store(folder) as store:
        there = set(store.finished)
        assert wanted <= there and len(there - sure) <= 1, (sure, there)  # one more: recorded, not yet confirmed
        if forgetting:
            assert len(there & {"r1", "r2", "r4"}) in (0, 3), there  # all of them or none
        if "r9" not in there:
            store.append(*record(9))
    again = {row["id"]: (row, parts) for row, parts in read_records(folder, TABLES)}
    assert again == {id: record(int(id[1:])) for id in again}
    assert set(again) == there | {"r9"}
    report = verify(folder, TABLES)
    assert report.findings == [] and report.records == len(again), report
    assert not list((folder / "journal").iterdir())


def killed_before(call: int, folder: Path, log: Path) -> bool:
    child = os.fork()
    if child == 0:
        try:
            crash_before(call, folder, log)
        finally:  # only an error comes here
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9), f"the work failed before call {call}"
    return code == 9


def main(folder: Path) -> None:
    os.fsync = lambda descriptor: None  # a killed process loses nothing that the system has
    work(folder / "whole", lambda line: None)  # so that what is imported on the way is imported once
    for call in range(1, 1000):
        place, log = folder / f"{call}", folder / f"{call}.log"
        killed = killed_before(call, place, log)
        try:
            look(place, log)
        except Exception as error:
            raise AssertionError(f"killed before call {call}") from error
        if not killed:
            print(call - 1)
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
