"""Folders for one user alone, also where others write: what lies in them is what clients said."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def private_folder(folder: Path, *below: str) -> Path:
    """The folder, and those `below` it, one in the other: made, where they are not there, for this user alone.
    `OSError`: it cannot be; also where somebody else was first, in a place where everybody writes (/dev/shm, /tmp)."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    shared = stat.S_ISVTX | stat.S_IWOTH
    if folder.stat().st_uid not in (0, os.getuid()) and folder.parent.stat().st_mode & shared == shared:
        raise PermissionError(errno.EPERM, "another user made it, and could read what lies there; name another folder")
    for name in below:  # `parents` would make those between with other rights
        folder = folder / name
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder
