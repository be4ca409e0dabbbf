"""Nothing is left behind, whoever is killed.

Browsers and their driver hold pipes to the process that plays with them, and end when it does. This is for the cases in
which they do not: a browser that hangs, and the profile folders that a killed browser leaves in the temporary folder.
Each playing process has a scratch folder whose name says whose it is. All that it starts inherits the folder's name
in its environment and puts its temporary files there. `reap` looks for such folders whose process is gone, ends what
still carries their name, and removes them. It is called wherever a process begins to play, and at the end of a run.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from pathlib import Path

from holotron.envs.isolation import SCRATCH_MARK
from holotron.storage.liveness import started

_NAME = re.compile(r"holotron-player-(\d+)-(\d+)")


class Scratch:
    """This process's folder for temporary files, its own and those of all it starts; removed at the end.

    with Scratch():
        ...                            # browsers are started here
    """

    def __init__(self) -> None:
        reap()
        self._before = {name: os.environ.get(name) for name in ("TMPDIR", SCRATCH_MARK)}
        self.folder = _place() / f"holotron-player-{os.getpid()}-{started(os.getpid())}"

    def __enter__(self) -> Scratch:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.folder.chmod(0o711)  # browsers of root are users of their own, and have their profiles in it
        os.environ |= {"TMPDIR": str(self.folder), SCRATCH_MARK: str(self.folder)}
        tempfile.tempdir = str(self.folder)
        return self

    def __exit__(self, *error: object) -> None:
        for name, value in self._before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        tempfile.tempdir = None  # it remembers
        shutil.rmtree(self.folder, ignore_errors=True)


def reap(place: Path | None = None) -> list[int]:
    """End and remove what dead processes of ours left on this machine; the processes that were ended."""
    ended = []
    for folder in (place or _place()).glob("holotron-player-*"):
        found = _NAME.fullmatch(folder.name)
        if found is None or not _ours(folder) or started(int(found[1])) == int(found[2]):
            continue
        for pid in _carriers(folder):
            try:
                os.kill(pid, signal.SIGKILL)
                ended.append(pid)
            except OSError:  # it has gone by itself
                pass
        shutil.rmtree(folder, ignore_errors=True)
    return ended


def _place() -> Path:
    """Where scratch folders are. The folder that was named, also when it is full: `tempfile` would turn to another one
    then, where nobody looks for what a killed process left."""
    named = os.environ.get("TMPDIR", "")
    return Path(named) if os.path.isdir(named) else Path(tempfile.gettempdir())


def _ours(folder: Path) -> bool:
    try:
        return folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _carriers(folder: Path) -> list[int]:
    """Processes that carry the folder's name."""
    mark = f"{SCRATCH_MARK}={folder}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
