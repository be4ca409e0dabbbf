"""Checks a command or a piece of Python without running it.

    parsed("holotron eval miniwob --policy holotron-mini")     # None, or what is wrong

`holotron` parses its own arguments (its commands have their bodies taken out), `serve` resolves its settings, `make`
must know the target, and files of this repository must be there. Python must compile, and what it imports from holotron
must exist.
"""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import subprocess
from typing import Any

import typer

from holotron.errors import HolotronError
from tests.docs.snippets import ROOT

_OURS = re.compile(r"(?:tests|src|benchmarks|recipes|tools|docs|deploy)/[\w./-]+\.\w+")


def commands(script: str) -> list[list[str]]:
    """The commands of a script that has no more than lines, comments and continuations."""
    found = []
    for line in script.replace("\\\n", " ").splitlines():
        for part in re.split(r" && | \| |; ", line.partition(" # ")[0]):
            words = shlex.split(part, comments=True)
            while words and re.fullmatch(r"\w+=.*|&|do|then", words[0]):
                words = words[1:]
            if words:
                found.append([word for word in words if word != "&"])
    return found


def wrong_in_script(script: str) -> list[str]:
    return [f"{shlex.join(words)}: {problem}" for words in commands(script) if (problem := wrong(words))]


def wrong(words: list[str]) -> str | None:
    for word in words:
        if _OURS.fullmatch(path := word.partition("::")[0]) and not (ROOT / path).exists():
            return f"there is no {path}"
    if words[0] == "make":
        done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stderr.strip() or None
    if words[:3] == ["python", "-m", "holotron"]:
        words = words[2:]
    return wrong_arguments(words[1:]) if words[0] == "holotron" else None


def wrong_arguments(words: list[str]) -> str | None:
    from holotron.cli.overview import COMMANDS

    if not words or words[0].startswith("-"):
        return None
    if words[0] not in COMMANDS:
        return f"there is no command {words[0]}"
    if "--help" in words:
        words = [word for word in words if word != "--help"]
        return None if len(words) < 3 else wrong_arguments(words)
    try:
        if words[0] == "bench":
            from holotron.bench.command import parse

            parse(words[1:])
            return None
        app: typer.Typer = importlib.import_module(COMMANDS[words[0]][0]).app
        command: Any = typer.main.get_command(app)
        if words[0] == "serve":  # settings are resolved by its body; which model it is need not be there
            words = ["serve", "tiny", *words[1 + (len(words) > 1 and not words[1].startswith("-")) :], "--dry-run"]
        else:
            _take_bodies_out(command)
        command.main(args=words[1:], prog_name=f"holotron {words[0]}", standalone_mode=False)
    except HolotronError as error:
        return str(error)
    except SystemExit as error:
        return None if error.code in (0, None) else f"exit status {error.code}"
    except Exception as error:  # the parser's own, of whichever click typer brings
        if not hasattr(error, "format_message"):
            raise
        return str(error.format_message())
    return None


def _take_bodies_out(command: Any) -> None:
    command.callback = lambda **_: None
    for inner in getattr(command, "commands", {}).values():
        _take_bodies_out(inner)


def wrong_in_python(text: str) -> list[str]:
    try:
        tree = compile(text, "snippet", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        return [str(error)]
    problems = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "holotron":
            module = importlib.import_module(node.module or "")
            problems += [f"{node.module} has no {n.name}" for n in node.names if not hasattr(module, n.name)]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "holotron":
            known = hasattr(importlib.import_module("holotron"), node.attr)
            problems += [] if known else [f"holotron has no {node.attr}"]
    return problems
