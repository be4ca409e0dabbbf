"""Things that have names, and who offers them: suites, environments, policies, dialects, model families, protocols.

    suites: Registry[SuiteFactory] = Registry("suite", "holotron.suites", {"miniwob": "holotron.suites.miniwob"})

    @suites.register("miniwob")                     # inside: a decorator
    def miniwob(request): ...

    [project.entry-points."holotron.suites"]        # outside: an entry point in another package's pyproject.toml
    checkout = "my_package.suites:checkout"

    suites.get("miniwob")                           # by name
    suites.get("my_package.suites:checkout")        # by module and attribute, without any registration
    suites.get("my_suite.py:checkout")              # by file and attribute

What this package offers itself is listed by name and module, so that nothing is imported before it is asked for.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

from holotron.errors import ConfigError, HolotronError

T = TypeVar("T")


def did_you_mean(name: str, known: Iterable[str], *, shown: int | None = None) -> str:
    """The end of every sentence about a name that nobody has: those that are close, or else (the first of) all."""
    names = list(known)
    if close := difflib.get_close_matches(name, names, n=3):
        return f"did you mean {' or '.join(close)}?"
    if shown is not None and shown < len(names):
        return f"there are {', '.join(names[:shown])}, and {len(names) - shown} more"
    return f"there are {', '.join(names)}"


class Registry(Generic[T]):
    def __init__(self, kind: str, group: str, builtin: Mapping[str, str] | None = None) -> None:
        """`kind` is the word for error messages, `group` the entry points' group, `builtin` name -> module."""
        self.kind = kind
        self.group = group
        self._builtin = dict(builtin or {})
        self._known: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        def keep(offered: T) -> T:
            if self._known.get(name, offered) is not offered:
                raise ConfigError(f"the {self.kind} {name!r} is registered twice")
            self._known[name] = offered
            return offered

        return keep

    def names(self) -> list[str]:
        """Everything that can be asked for by name; entry points of other packages included."""
        return sorted({*self._known, *self._builtin, *self._entry_points()})

    def __contains__(self, name: str) -> bool:
        return name in self._known or name in self._builtin or name in self._entry_points()

    def get(self, name: str) -> T:
        """By name, or as `module:attribute` or `file.py:attribute`."""
        if name not in self._known and name in self._builtin:
            importlib.import_module(self._builtin[name])
        if name in self._known:
            return self._known[name]
        if (point := self._entry_points().get(name)) is not None:
            self._known[name] = cast(T, self._load(point))
            return self._known[name]
        where, colon, attribute = name.rpartition(":")
        if colon and where and attribute.isidentifier():
            return cast(T, _attribute(where, attribute, self.kind))
        raise ConfigError(
            f"there is no {self.kind} {name!r}: {did_you_mean(name, self.names())} "
            "(or give one of your own as module:function)"
        )

    @contextmanager
    def theirs(self, name: str) -> Iterator[None]:
        """Around a call of what `get` gave: if it is code of somebody else, an error in it is said to be theirs."""
        try:
            yield
        except HolotronError:
            raise
        except Exception as error:
            if name in self._builtin or (":" not in name and name not in self._entry_points()):
                raise
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{last.filename}, line {last.lineno}"
            raise ConfigError(f"your {self.kind} {name} raised {type(error).__name__}: {error} ({where})") from error

    def _entry_points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.group)}

    def _load(self, point: EntryPoint) -> Any:
        try:
            return point.load()
        except HolotronError:
            raise
        except Exception as error:
            raise ConfigError(
                f"the {self.kind} {point.name!r} ({point.value}) cannot be loaded: {type(error).__name__}: {error}"
            ) from error


def _attribute(where: str, attribute: str, kind: str) -> Any:
    try:
        module = _module_of_file(Path(where)) if where.endswith(".py") else _module_named(where)
    except HolotronError:
        raise
    except Exception as error:
        raise ConfigError(f"cannot load the {kind} {where}:{attribute}: {type(error).__name__}: {error}") from error
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise ConfigError(f"{where} has no {attribute!r} to be used as a {kind}") from None


def _module_named(name: str) -> ModuleType:
    """An importable module; one that lies in the current folder counts, as under `python -m`."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    return importlib.import_module(name)


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    name = f"holotron_file_{path.stem}_{abs(hash(path.resolve())):x}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses and pickles look their module up
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
