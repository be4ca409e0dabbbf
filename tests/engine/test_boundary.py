"""Other rooms use the engine through its public face: `holotron.engine`, and never what the loop's thread owns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import holotron

ROOT = Path(holotron.__file__).parent
# Sizes before anything runs, which tokens are never sampled, grammars and schemas: functions without state.
OPEN = {"api", "engine", "plan", "reasoning", "recommend", "sampler", "schema", "sizes"}
INSIDE = {path.stem for path in (ROOT / "engine").glob("*.py")} - OPEN - {"__init__"}
# `bench` takes the loop apart to measure it.
OTHERS = [path for path in sorted(ROOT.rglob("*.py")) if path.relative_to(ROOT).parts[0] not in ("engine", "bench")]
LOOP = {"on_loop", "core", "_core", "_sequence"}


def reaches(source: str) -> Iterator[str]:
    """Where a program goes behind the engine's face."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            room, _, module = node.module.partition("holotron.engine.")
            if not room and module.split(".")[0] in INSIDE:
                yield f"line {node.lineno}: {node.module}"
            if node.module == "holotron.engine":
                yield from (f"line {node.lineno}: {name.name}" for name in node.names if name.name in INSIDE)
        elif isinstance(node, ast.Import):
            modules = [name.name.removeprefix("holotron.engine.") for name in node.names]
            yield from (f"line {node.lineno}: {module}" for module in modules if module in INSIDE)
        elif isinstance(node, ast.Attribute) and node.attr in LOOP and not _is_self(node.value):
            yield f"line {node.lineno}: .{node.attr}"


def _is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id == "self"


def test_nobody_reaches_behind_the_engine() -> None:
    found = {str(path.relative_to(ROOT)): list(reaches(path.read_text())) for path in OTHERS}
    assert {path: places for path, places in found.items() if places} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from holotron.engine.core import Core",
        "from holotron.engine.sequence import Sequence as Stream",
        "from holotron.engine import log",
        "import holotron.engine.scheduler",
        "def f(engine):\n    return engine.core.version",
        "session._sequence.log",
    ],
)
def test_a_reach_is_seen(source: str) -> None:
    assert list(reaches(source))
