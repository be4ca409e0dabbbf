"""What is wrong with a recipe, in words that say which key was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

Place = tuple[int | str, ...]


def complaints(recipe: type[BaseModel], error: ValidationError) -> list[str]:
    """One line for every problem, `key: what is wrong`."""
    found = error.errors()
    # A list with a bad entry is reported once more, as too short.
    inner = {problem["loc"][:1] for problem in found if len(problem["loc"]) > 1}
    return [_complaint(recipe, problem) for problem in found if problem["loc"] not in inner]


def _complaint(recipe: type[BaseModel], problem: ErrorDetails) -> str:
    if problem["type"] != "extra_forbidden":
        said = "is missing" if problem["type"] == "missing" else problem["msg"]
        return f"{'.'.join(_walk(recipe, problem['loc'])[0]) or '(top)'}: {said}"
    *table, key = problem["loc"]
    steps, tables = _walk(recipe, tuple(table))
    known = sorted({name for part in tables for name in part.model_fields})
    close = difflib.get_close_matches(str(key), known, n=1, cutoff=0.7)
    meant = [".".join([*steps, *close])] if close else [p for p in _paths(recipe) if p.rpartition(".")[2] == key]
    if meant:
        advice = f"did you mean {meant[0]}?"
    else:
        advice = f"{'.'.join(steps) or 'a recipe'} has {', '.join(known)}"
    return f"{'.'.join([*steps, str(key)])}: there is no such key; {advice}"


def _walk(recipe: type[BaseModel], where: Place) -> tuple[list[str], list[type[BaseModel]]]:
    """A place as it is written, and the tables that may stand there. Pydantic puts the kind of a source behind its
    number, which nobody writes."""
    steps, tables = [], [recipe]
    for step in map(str, where):
        if inside := [part for table in tables if step in table.model_fields for part in _parts(table, step)]:
            tables = inside
        elif chosen := [t for t in tables if "kind" in t.model_fields and step in get_args(_type(t, "kind"))]:
            tables = chosen
            continue
        steps.append(step)
    return steps, tables


def _paths(recipe: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every key of a recipe and of its tables, but not of those in lists."""
    for name in recipe.model_fields:
        yield prefix + name
        parts = _parts(recipe, name)
        if len(parts) == 1 and "kind" not in parts[0].model_fields:
            yield from _paths(parts[0], f"{prefix}{name}.")


def _parts(table: type[BaseModel], field: str) -> list[type[BaseModel]]:
    def within(kind: Any) -> Iterator[type[BaseModel]]:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield kind
        for inner in get_args(kind):
            yield from within(inner)

    return list(within(_type(table, field)))


def _type(table: type[BaseModel], field: str) -> Any:
    return table.model_fields[field].annotation
