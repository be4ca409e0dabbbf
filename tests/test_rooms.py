"""The plan of the house, held: a room imports only from rooms below it (lazy imports count), and nobody reaches into
another room's private parts."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from pathlib import Path

import holotron

SOURCE = Path(holotron.__file__).parent
PLAN = Path(__file__).parent.parent / "docs" / "architecture.md"

# Top to bottom. Rooms on one line know nothing of each other.
ORDER: tuple[tuple[str, ...], ...] = (
    ("cli",),
    ("api",),
    ("fleet",),
    ("bench", "training", "console"),
    ("evals", "annotate", "exchange"),
    ("rollouts",),
    ("suites",),
    ("agent",),
    ("data", "sites"),
    ("envs", "server"),
    ("engine",),
    ("model",),
    ("kernels",),
    ("storage",),
    ("",),  # modules without a room
)
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
TOP = {"__init__", "__main__"}  # the package's own face may look at any room, lazily


def room_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else ""


@functools.cache
def parsed(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


@functools.cache
def imports(path: Path) -> list[tuple[int, str]]:
    """Every module of ours that a file imports, wherever in the file."""
    found = []
    for node in parsed(path):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return [(line, name) for line, name in found if name.split(".")[0] == "holotron"]


FILES = sorted(SOURCE.rglob("*.py"))


def test_a_room_imports_only_from_rooms_below_it():
    broken = []
    for path in FILES:
        here = room_of(path)
        if not here and path.stem in TOP:
            continue
        for line, name in imports(path):
            parts = name.split(".")
            there = parts[1] if len(parts) > 1 and (SOURCE / parts[1]).is_dir() else ""
            if there != here and LEVEL[there] <= LEVEL[here]:
                broken.append(f"{path.relative_to(SOURCE)}:{line} imports {name}")
    assert not broken, "\n".join(broken)


def test_nobody_imports_private_names_of_another_room():
    private = [
        f"{path.relative_to(SOURCE)}:{line} imports {name}"
        for path in FILES
        for line, name in imports(path)
        if name.split(".")[-1].startswith("_")
        and not name.endswith("__")
        and (name.split(".")[1] if (SOURCE / name.split(".")[1]).is_dir() else "") != room_of(path)
    ]
    assert not private, "\n".join(private)


def test_nobody_uses_private_parts_of_objects_of_another_room():
    """A private name that only another room gives to anything; libraries have a few of the same names."""
    libraries = {"_replace", "_asdict", "_version", "_parameters", "_actions"}
    given, used = defaultdict[str, set[str]](set), list[tuple[str, str, str]]()
    for path in FILES:
        for node in parsed(path):
            name = None
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = node.name
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                name = node.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                name = node.attr
            elif isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr):
                where = f"{path.relative_to(SOURCE)}:{node.lineno} uses {ast.unparse(node)}"
                used.append((room_of(path), node.attr, where))
            if name is not None:
                given[name].add(room_of(path))
    reached = [where for room, name, where in used if given[name] and room not in given[name] and name not in libraries]
    assert not reached, "\n".join(reached)


def test_every_room_is_on_the_plan_and_the_plan_is_in_the_docs():
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert rooms <= set(LEVEL), f"say where {rooms - set(LEVEL)} belongs"
    described = re.findall(r"^\| `(\w+)/`", PLAN.read_text(), re.MULTILINE)
    assert [room for room in described if room in rooms] == described
    assert set(described) == rooms
    levels = [LEVEL[room] for room in described]
    assert levels == sorted(levels), "docs/architecture.md lists the rooms from top to bottom"


def test_every_module_without_a_room_is_in_the_docs():
    plan = PLAN.read_text()
    names = [path.name for path in FILES if not room_of(path) and path.stem not in TOP]
    missing = [name for name in names if f"`{name}`" not in plan]
    assert not missing, f"say in docs/architecture.md what {missing} is for"


def test_files_hold_one_idea():
    long = {
        str(path.relative_to(SOURCE)): lines for path in FILES if (lines := len(path.read_text().splitlines())) > 400
    }
    assert not long
