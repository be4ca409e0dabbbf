"""What happens on a disk that fails: `python -m tests.storage.disks full|read-only|limited|scratch FOLDER`.

The disk is a real one (a small tmpfs that the test has mounted) or a real limit of the system; every line that is
printed is a fact for the test to look at.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from holotron.errors import HolotronError
from holotron.rollouts.orphans import Scratch
from holotron.storage.store import read_records
from tests.storage.records import TABLES, open_store, record


def until_it_fails(folder: Path, make_room: object = None) -> None:
    """Append until the disk refuses, make room, and go on with the same store."""
    store = open_store(folder, shard_records=4)
    done = 0
    try:
        while done < 1000:
            store.append(*record(done, text="x" * 5000))
            done += 1
        say(failed=False)
    except HolotronError as error:
        say(error=str(error), kind=type(error).__name__, done=len(store.finished))
    read = [row["id"] for row, _ in read_records(folder, TABLES)]
    say(read=len(read), same=read == list(store.finished))
    assert callable(make_room)
    make_room()
    for number in range(1000, 1003):
        store.append(*record(number))
    store.close()
    with open_store(folder) as again:
        records = list(read_records(folder, TABLES))
        say(after=len(again.finished), whole=all(len(parts) == row["size"] for row, parts in records))


def full(folder: Path) -> None:
    (folder / "ballast").write_bytes(bytes(100_000))
    until_it_fails(folder / "store", (folder / "ballast").unlink)


def limited(folder: Path) -> None:
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, most))
    until_it_fails(folder / "store", lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))


def read_only(folder: Path) -> None:
    store = open_store(folder / "store")
    store.append(*record(0))
    store.close()
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    for name in ("store", "new"):
        try:
            open_store(folder / name)
        except HolotronError as error:
            say(error=str(error), kind=type(error).__name__)
    say(read=len(list(read_records(folder / "store", TABLES))))


def scratch(folder: Path) -> None:
    """A player begins while the disk for temporary files is full."""
    os.environ["TMPDIR"] = str(folder)
    with (folder / "ballast").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(1 << 16)):
            pass
    with Scratch() as player:
        say(scratch=str(player.folder.parent), inside=tempfile.gettempdir() == str(player.folder))
        there = player.folder
    say(left=there.exists(), after=tempfile.gettempdir() == str(there))


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    {"full": full, "limited": limited, "read-only": read_only, "scratch": scratch}[sys.argv[1]](Path(sys.argv[2]))
