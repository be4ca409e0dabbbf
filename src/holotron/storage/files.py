"""Every call of the store to the file system: files that are whole or absent, files that only grow. (Locks: `locks`.)

Everybody who keeps runs reaches disks through this module alone. A path may also be the address of an object store
(`s3://bucket/run`, see `objects`): the same functions, with the same promises. There, files that grow are folders of
parts, and the lock is a lease that has to be renewed (`leases`).

What the file system refuses is one sentence (`StorageError`): what happened, where, what to do.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from holotron.errors import InputError, StorageError
from holotron.storage.objects import Objects, is_remote, shown

TEMPORARY = ".tmp"

_WHY = {
    errno.ENOSPC: ("the disk is full", "Free some space"),
    errno.EDQUOT: ("the disk quota is used up", "Free some space"),
    errno.EFBIG: ("the file would be larger than the system allows", "Raise the limit (ulimit -f)"),
    errno.EROFS: ("the disk is read-only", "Make it writable"),
    errno.EACCES: ("permission is denied", "Change the permissions"),
    errno.EPERM: ("permission is denied", "Change the permissions"),
    errno.EIO: ("the disk fails (input/output error)", "Check the disk"),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "Name another path"),
    errno.EEXIST: ("a file is in the way", "Name another path"),
    errno.ENAMETOOLONG: ("the path is too long", "Name another path"),
    errno.ENOLCK: ("its file system keeps no locks", "Mount it with locks (NFS 4, Lustre -o flock)"),
    errno.EOPNOTSUPP: ("its file system cannot do that", "Use another one, or an object store (s3://...)"),
    errno.EMFILE: ("the process has too many files open", "Raise the limit (ulimit -n)"),
}


def _refused(verb: str, path: Path, error: OSError) -> StorageError:
    """The sentence for what the file system said when we wanted to read or write."""
    why, remedy = _WHY.get(error.errno or 0, (str(error.strerror or error), "Put that right"))
    kept = "What was stored before is unharmed. " if verb == "write" else ""
    return StorageError(f"cannot {verb} {path}: {why}. {kept}{remedy} and start the same command again.")


def refusal(error: BaseException | None) -> StorageError | None:
    """The sentence for an error that some other library got from the file system, if it is one: for whoever catches
    everything at the end. Libraries in Rust say it in words ("... (os error 28)")."""
    while error is not None:
        said = re.search(r"\(os error (\d+)\)", str(error))
        number = error.errno if isinstance(error, OSError) else int(said[1]) if said else None
        if number in _WHY:
            why, remedy = _WHY[number]
            where = f" ({error.filename})" if isinstance(error, OSError) and error.filename else ""
            return StorageError(f"{why}{where}. What was stored before is unharmed. {remedy} and try again.")
        error = error.__cause__ or error.__context__
    return None


class Damaged(InputError):
    """A file of a store (folder/table/000007.parquet) is missing or cannot be read."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        folder = path.parent.parent
        super().__init__(
            f"{path} {problem}. `holotron data verify {folder} --quarantine` moves aside what is damaged; "
            "the rest can be used and completed."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.problem)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _refused("write", path, error) from error


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(str(path)) from error
    except OSError as error:
        raise _refused("read", path, error) from error


# ------------------------------------------------------------------------------------------------------------- reading


def read_file(path: Path) -> bytes:
    """FileNotFoundError if it is not there; what else goes wrong is a StorageError."""
    if is_remote(path):
        return Objects(path).read()
    with _reading(path):
        return path.read_bytes()


def exists(path: Path) -> bool:
    if is_remote(path):
        return Objects(path).exists()
    with _reading(path):
        return path.exists()


def is_folder(path: Path) -> bool:
    return bool(Objects(path).entries()) if is_remote(path) else path.is_dir()


def entries(folder: Path) -> list[str]:
    """Names of what is in a folder."""
    if is_remote(folder):
        return Objects(folder).entries()
    with _reading(folder):
        return sorted(os.listdir(folder))


def numbered_files(folder: Path, suffix: str) -> list[int]:
    """The numbers of files such as 000007.parquet in a folder that may be missing."""
    names = Objects(folder).entries() if is_remote(folder) else [path.name for path in folder.glob(f"*{suffix}")]
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if stem.isdigit())


# ------------------------------------------------------------------------------------------------------------- writing


def make_folder(folder: Path) -> None:
    if is_remote(folder):
        return  # there are none, only names with slashes
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


class NewFile:
    """A file that takes its place when it is complete: a reader, or a crash, sees the old file or the new one and
    nothing between. `durable` also survives a power cut; `private` is for its owner's eyes only.

    with NewFile(path) as file:
        file.write(data)
    """

    def __init__(self, path: Path, *, durable: bool = False, private: bool = False) -> None:
        self._path, self._durable = path, durable
        self._temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}{TEMPORARY}")
        with writing(path):
            mode = 0o600 if private else 0o666
            self._file = os.fdopen(os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb")

    def write(self, data: bytes) -> None:
        with writing(self._path):
            self._file.write(data)

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                with writing(self._path):
                    self._complete()
        finally:
            with suppress(OSError):  # where it is complete, there is nothing to remove
                self._file.close()
            with suppress(OSError):
                self._temporary.unlink(missing_ok=True)

    def _complete(self) -> None:
        self._file.flush()
        if self._durable:
            os.fsync(self._file.fileno())
        self._file.close()
        self._temporary.replace(self._path)
        if self._durable:
            _sync_folder(self._path.parent)


def replace_file(path: Path, data: bytes, *, durable: bool = False, private: bool = False) -> None:
    if is_remote(path):
        Objects(path).write(data)
        return
    with NewFile(path, durable=durable, private=private) as file:
        file.write(data)


def replace_json(path: Path, value: Any) -> None:
    replace_file(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode(), durable=True)


def append_line(path: Path, line: bytes) -> None:
    """Add a line to a log that nothing depends on: a crash may tear or lose the last one."""
    if is_remote(path):
        Objects(path / f"{time.time_ns()}-{uuid.uuid4().hex[:8]}").write(line + b"\n")
        return
    with writing(path), path.open("ab") as file:
        file.write(line + b"\n")


class Growing(Protocol):
    """A new file that only grows. What was appended survives a power cut; what could not be leaves no trace."""

    def append(self, data: bytes) -> None: ...

    def close(self) -> None: ...


def growing_file(path: Path) -> Growing:
    return _Parts(path) if is_remote(path) else AppendFile(path)


class _Parts:
    """In an object store: every piece an object of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0

    def append(self, data: bytes) -> None:
        part = self._path / f"{self._count:09d}"
        if not Objects(part).create(data):
            raise StorageError(f"{shown(part)} is there already: another process writes to the same folder")
        self._count += 1

    def close(self) -> None:
        pass


class AppendFile:
    """On a disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._length = 0
        self._torn = False
        make_folder(path.parent)
        with writing(path):
            self._file = path.open("xb", buffering=0)
            _sync_folder(path.parent)

    def append(self, data: bytes) -> None:
        with writing(self._path):
            if self._torn:
                self._cut()
            self._torn = True
            try:
                rest = memoryview(data)
                while rest:  # a disk that is almost full takes a part first, and fails then
                    rest = rest[self._file.write(rest) :]
                os.fsync(self._file.fileno())
            except BaseException:
                with suppress(OSError):
                    self._cut()
                raise
            self._torn = False
            self._length += len(data)

    def _cut(self) -> None:
        self._file.truncate(self._length)
        self._file.seek(self._length)
        self._torn = False

    def close(self) -> None:
        self._file.close()


def remove_file(path: Path) -> None:
    """Remove a file that may be gone already."""
    if is_remote(path):
        Objects(path).remove()
        return
    with writing(path):
        path.unlink(missing_ok=True)


def move_file(path: Path, to: Path) -> None:
    if is_remote(path):
        copy_file(path, to)
        remove_file(path)
        return
    make_folder(to.parent)
    with writing(to):
        path.replace(to)


def copy_file(path: Path, to: Path) -> None:
    if is_remote(path):
        Objects(to).write(Objects(path).read())
        return
    make_folder(to.parent)
    with writing(to):
        shutil.copy2(path, to)


def sweep_temporaries(folder: Path) -> None:
    """Remove what a killed writer left behind."""
    if is_remote(folder):
        return  # an object comes into being whole
    for path in folder.glob(f"*{TEMPORARY}"):
        remove_file(path)


def _sync_folder(folder: Path) -> None:
    """Names, too, have to be on disk before a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot do it
            raise
    finally:
        os.close(descriptor)
