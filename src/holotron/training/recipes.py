"""The recipes that come with the package, by name.

find_recipe("holotron-mini/4-rl")                       # a name
find_recipe("recipes/holotron-mini/4-rl.toml")          # the same, as the docs write it in a source tree
find_recipe("mine.toml")                                # a file of your own goes first
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from holotron.errors import ConfigError
from holotron.registry import did_you_mean

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Listed:
    name: str
    kind: str  # sft or rl: the command that takes it
    about: str
    path: Path


def shipped() -> list[Listed]:
    """Every recipe of the package, in the order of the stages."""
    found = []
    for path in sorted(_folder().rglob("*.toml")):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        name = path.relative_to(_folder()).with_suffix("").as_posix()
        found.append(Listed(name, kind_of(data), str(data.get("about", "")), path))
    return found


def find_recipe(wanted: str | Path) -> Path:
    """A file, or else a recipe of the package by its name."""
    path = Path(wanted)
    if path.exists():
        return path
    name = path.as_posix().removeprefix("recipes/").removesuffix(".toml")
    known = {recipe.name: recipe.path for recipe in shipped()}
    if name not in known:
        hint = did_you_mean(name, known)
        raise ConfigError(f"{wanted} is neither a file nor a recipe of the package: {hint} (holotron train --list)")
    return known[name]


def recipe_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read the recipe {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


def kind_of(data: dict[str, object]) -> str:
    return "rl" if "tasks" in data else "sft"


def _folder() -> Path:
    """In the wheel they lie in the package, in a source tree beside it."""
    inside = _PACKAGE / "recipes"
    return inside if inside.is_dir() else _PACKAGE.parents[1] / "recipes"
