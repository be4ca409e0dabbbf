"""Where settings come from: file, environment, flags; put on top of each other and checked as one.

Each layer is a dictionary of dotted keys, every value remembered with the place it was written in, so that a complaint
can say "HOLOTRON_SERVER__PORT" rather than "somewhere".
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from holotron.errors import ConfigError
from holotron.server.keys import KEY_SETTINGS, api_keys
from holotron.server.settings import Settings

PREFIX = "HOLOTRON_"


@dataclass(frozen=True)
class Value:
    value: Any
    origin: str


Layer = dict[str, Value]  # by dotted key


@dataclass(frozen=True)
class Resolved:
    settings: Settings
    origins: dict[str, str]  # by dotted key, of everything that is not a default


def resolve(*layers: Layer) -> Resolved:
    """Later layers win."""
    merged: Layer = {}
    for layer in layers:
        merged |= layer
    _refuse_unknown(merged)
    tree: dict[str, Any] = {}
    for key, value in merged.items():
        section, _, name = key.partition(".")
        tree.setdefault(section, {})[name] = value.value
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        raise ConfigError("\n".join(_complaint(problem, merged) for problem in error.errors())) from None
    api_keys(settings.server, said=bool(KEY_SETTINGS & merged.keys()))  # a mistake there shows now
    return Resolved(settings, {key: value.origin for key, value in merged.items()})


def from_file(path: Path) -> Layer:
    try:
        tree = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"cannot read the settings file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    layer: Layer = {}
    for section, entries in tree.items():
        if not isinstance(entries, dict):
            raise ConfigError(f"{path}: {section!r} stands outside a section; write it below [server], [model], ...")
        for name, value in entries.items():
            layer[f"{section}.{name}"] = Value(value, str(path))
    return layer


def from_environment(environment: Mapping[str, str]) -> Layer:
    """HOLOTRON_<SECTION>__<KEY>. Names without the double underscore belong to other parts of the package."""
    layer: Layer = {}
    for name, text in environment.items():
        section, separator, key = name.removeprefix(PREFIX).partition("__")
        if name.startswith(PREFIX) and separator:
            layer[f"{section.lower()}.{key.lower()}"] = Value(_written(text), name)
    return layer


def from_flags(words: Sequence[str]) -> tuple[Layer, list[str]]:
    """`--section.key value` or `--section.key=value`, dashes in a key being underscores; a switch may stand alone.
    Returns the words that belong to no flag, too."""
    layer: Layer = {}
    others: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            others.append(word)
            continue
        name, equals, text = word.partition("=")
        key = name.removeprefix("--").replace("-", "_")
        if "." not in key:
            raise ConfigError(f"{word!r} is not a flag of this command; settings are written --section.key value")
        if not equals and _is_switch(key) and (not rest or rest[0].lower() not in _SWITCHED):
            text = "true"
        elif not equals:
            if not rest:
                raise ConfigError(f"{word} needs a value")
            text = rest.pop(0)
        layer[key] = Value(_written(text), name)
    return layer, others


_SWITCHED = ("true", "false", "yes", "no", "on", "off", "1", "0")


def _is_switch(key: str) -> bool:
    section, _, name = key.partition(".")
    field = Settings.model_fields.get(section)
    if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
        return False
    leaf = field.annotation.model_fields.get(name)
    return leaf is not None and leaf.annotation in (bool, bool | None)


def _written(text: str) -> Any:
    return None if text.lower() == "none" else text


def known_keys() -> Iterator[str]:
    for section, field in Settings.model_fields.items():
        assert isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        yield from (f"{section}.{name}" for name in field.annotation.model_fields)


def _refuse_unknown(merged: Layer) -> None:
    known = list(known_keys())
    problems = []
    for key in [key for key in merged if key not in known]:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]}?" if near else "`holotron serve --dry-run` lists all there are"
        problems.append(f"{merged[key].origin}: there is no setting {key}; {hint}")
    if problems:
        raise ConfigError("\n".join(problems))


def _complaint(problem: Any, merged: Layer) -> str:
    key = ".".join(str(part) for part in problem["loc"][:2])
    origin = merged[key].origin if key in merged else "settings"
    return f"{origin}: {key}: {problem['msg']}"
