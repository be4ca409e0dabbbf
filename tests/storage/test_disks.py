"""Full, limited and read-only disks: one sentence, nothing lost, and the same command goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# A mount namespace of our own, in which anybody may mount a small disk; it is gone with its process.
_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
_ON_A_DISK = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift && shift && exec "$@"'


def on_small_disk(folder: Path, size: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command while a tmpfs of this size is mounted on the folder, visible to the command alone."""
    try:
        subprocess.run([*_NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this system lets nobody mount a disk in a namespace: {error}")
    words = [*_NAMESPACE, "sh", "-c", _ON_A_DISK, "sh", size, str(folder), *command]
    return subprocess.run(words, capture_output=True, text=True)


def facts(done: subprocess.CompletedProcess[str]) -> list[dict]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_full_disk_is_one_sentence_and_the_store_goes_on_when_there_is_room(tmp_path: Path) -> None:
    done = on_small_disk(tmp_path, "256k", sys.executable, "-m", "tests.storage.disks", "full", str(tmp_path))
    failed, read, after = facts(done)
    assert failed["kind"] == "StorageError"
    assert "the disk is full. What was stored before is unharmed. Free some space" in failed["error"]
    assert failed["done"] > 5
    assert read == {"read": failed["done"], "same": True}
    assert after == {"after": failed["done"] + 3, "whole": True}


def test_a_limit_on_files_is_one_sentence_too(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.storage.disks", "limited", str(tmp_path)], capture_output=True, text=True
    )
    failed, read, after = facts(done)
    assert "larger than the system allows" in failed["error"]
    assert failed["done"] == 2  # of the third only a part could be written, and that is gone again
    assert read == {"read": 2, "same": True}
    assert after == {"after": 5, "whole": True}


def test_a_read_only_disk_is_one_sentence_and_can_be_read(tmp_path: Path) -> None:
    done = on_small_disk(tmp_path, "1m", sys.executable, "-m", "tests.storage.disks", "read-only", str(tmp_path))
    old, new, read = facts(done)
    for failed in (old, new):
        assert failed["kind"] == "StorageError"
        assert "the disk is read-only" in failed["error"]
    assert read == {"read": 1}


def test_temporary_files_stay_where_they_are_looked_for(tmp_path: Path) -> None:
    """`tempfile` would go to another folder when one is full, and nobody would find there what a killed player left."""
    done = on_small_disk(tmp_path, "256k", sys.executable, "-m", "tests.storage.disks", "scratch", str(tmp_path))
    begun, over = facts(done)
    assert begun == {"scratch": str(tmp_path), "inside": True}
    assert over == {"left": False, "after": False}


def test_a_command_on_a_full_disk_ends_with_one_line(tmp_path: Path) -> None:
    done = on_small_disk(
        tmp_path, "32k", sys.executable, "-m", "holotron", "data", "drawn", str(tmp_path / "x"), "--pages", "20"
    )
    assert done.returncode == 9
    assert done.stderr.count("\n") == 1 and "the disk is full" in done.stderr, done.stderr
