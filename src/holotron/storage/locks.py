"""One writer of a folder at a time: a file lock on disks, a lease in object stores."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Protocol

from holotron.errors import ConfigError
from holotron.storage.files import writing
from holotron.storage.leases import Lease
from holotron.storage.objects import is_remote

LOCK = ".lock"


class Lock(Protocol):
    """One writer of a folder. Closed, or when its process dies, however it dies, another may come."""

    @property
    def closed(self) -> bool: ...

    def check(self) -> None:
        """Before writing. Raises if the folder has been taken over: where there are no locks that can happen."""

    def close(self) -> None: ...


def lock_folder(folder: Path) -> Lock:
    if is_remote(folder):
        return Lease(folder, folder / LOCK)
    return _FileLock(folder)


class _FileLock:
    """The system releases it when the process dies."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        with writing(path):
            self._file = path.open("a+")
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._file.close()
                raise ConfigError(
                    f"another process is writing to {folder}; wait for it or choose another folder"
                ) from None
            except BaseException:
                self._file.close()
                raise
            self._file.truncate(0)
            self._file.write(str(os.getpid()))
            self._file.flush()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def check(self) -> None:
        pass

    def close(self) -> None:
        self._file.close()
