"""Object stores through fsspec: `s3://bucket/folder` wherever a folder may stand.

An address is kept as a `Path` (`Path("s3://bucket/run")`, in which two slashes become one): paths are only joined and
split by everybody else, and `files`, which alone reads and writes, recognises them by their scheme.

Such stores know whole objects, listing, and creating an object only if there is none. From these: a file that grows is
a folder of parts, each written once and for good; a file that is replaced is one object. Keys, region and endpoint
come from where the store's own tools have them (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, `~/.aws/config`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from holotron.errors import MissingDependency, StorageError

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:")
_EXTRAS = {"s3": ("s3fs", "s3"), "s3a": ("s3fs", "s3")}
T = TypeVar("T")


def is_remote(path: Path) -> bool:
    return bool(path.parts) and _SCHEME.fullmatch(path.parts[0]) is not None


def shown(path: Path) -> str:
    """As people write it."""
    return f"{path.parts[0]}//{'/'.join(path.parts[1:])}" if is_remote(path) else str(path)


@lru_cache(maxsize=8)
def _store(scheme: str) -> Any:
    package, extra = _EXTRAS.get(scheme, ("fsspec", "s3"))
    try:
        import fsspec

        return fsspec.filesystem(scheme, use_listings_cache=False)  # others write there too
    except ImportError:
        raise MissingDependency.extra(package, extra) from None
    except ValueError as error:  # a scheme that nobody knows
        raise StorageError(f"{scheme}:// is no kind of store: {error}") from None


class Objects:
    """What lies at a path."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fs = _store(path.parts[0][:-1])
        self._key = self._fs._strip_protocol(shown(path))

    def read(self) -> bytes:
        """An object, or the parts of a file that grew, in order."""
        found: bytes | None = self._try("read", lambda: _or_none(lambda: self._fs.cat_file(self._key)))
        if found is not None:
            return found
        parts = self.entries()
        if not parts:
            raise FileNotFoundError(shown(self._path))
        keys = [f"{self._key}/{name}" for name in parts]
        whole: dict[str, bytes] = self._try("read", lambda: self._fs.cat(keys))
        return b"".join(whole[key] for key in sorted(whole))

    def exists(self) -> bool:
        return bool(self._try("read", lambda: self._fs.exists(self._key)))

    def entries(self) -> list[str]:
        """Names of what is in this folder; none if there is no such folder."""
        found: list[str] | None = self._try("read", lambda: _or_none(lambda: self._fs.ls(self._key, detail=False)))
        paths = [name.rstrip("/") for name in found or ()]
        names = [path.rpartition("/")[2] for path in paths if path != self._key.rstrip("/")]
        return sorted(names)

    def write(self, data: bytes) -> None:
        self._try("write", lambda: self._fs.pipe_file(self._key, data))

    def create(self, data: bytes) -> bool:
        """Write it if nobody has; whether it was us. Of several who try, one succeeds."""

        def make() -> bool:
            try:
                self._fs.pipe_file(self._key, data, mode="create")
            except FileExistsError:
                return False
            return True

        return self._try("write", make)

    def remove(self) -> None:
        """The object, and all parts."""

        def remove() -> None:
            for name in (*(f"{self._key}/{part}" for part in self.entries()), self._key):
                _or_none(lambda name=name: self._fs.rm_file(name))  # type: ignore[misc]

        self._try("write", remove)

    def _try(self, verb: str, work: Callable[[], T]) -> T:
        try:
            return work()
        except (FileNotFoundError, StorageError):
            if verb == "read":
                raise
            where = shown(self._path)
            raise StorageError(f"cannot write {where}: there is no such bucket, or it is not ours") from None
        except Exception as error:  # every store has errors of its own
            kept = "What was stored before is unharmed. " if verb == "write" else ""
            raise StorageError(
                f"cannot {verb} {shown(self._path)}: {_first_line(error)}. {kept}"
                "Put that right and start the same command again."
            ) from error


def _or_none(work: Callable[[], T]) -> T | None:
    try:
        return work()
    except FileNotFoundError:
        return None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
