"""A disk that can be filled to the last byte without harm to anybody else."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[str]:
    """A disk on the folder that can be filled without harm to others; why not, where that cannot be had."""
    options = f"size={size},mode=0755"  # browsers of root are users of their own, and must come in
    command = ["mount", "-t", "tmpfs", "-o", options, "holotron-soak", str(folder)]
    try:
        refused = subprocess.run(command, capture_output=True, text=True)
        why = refused.stderr.strip() if refused.returncode else ""
    except OSError as error:
        why = str(error)
    try:
        yield why
    finally:
        if not why:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


class Filler:
    """Takes every byte of a disk, again and again, as long as it is meant to be full."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "filler"
        self.until = 0.0
        self.times = 0

    @property
    def full(self) -> bool:
        return self.until > 0

    def fill(self) -> None:
        with suppress(OSError), self._path.open("ab", buffering=0) as file:
            while file.write(bytes(1 << 16)):  # the last write takes what is left, the next one fails
                pass

    def free(self) -> None:
        self.until = 0.0
        self._path.unlink(missing_ok=True)
