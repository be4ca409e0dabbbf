"""`--help` teaches: every command shows an example, and every example is a command line that works."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

import holotron
from holotron.cli.main import COMMANDS, command_line
from tests.cli.calling import call


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that can be run, by its whole name."""
    for name in COMMANDS:
        found = typer.main.get_command(command_line([name])).commands[name]  # type: ignore[attr-defined]
        inner = getattr(found, "commands", None)
        if inner is None:
            yield name, found
        else:
            yield from ((f"{name} {below}", command) for below, command in inner.items())


def examples(text: str) -> list[str]:
    """What stands behind a $, without a remark behind it and without the shell's part."""
    return [re.split(r" {2,}| > ", line[2:])[0] for line in text.splitlines() if line.startswith("$ ")]


def test_every_command_shows_an_example_of_itself():
    for name, command in commands():
        own = f"holotron {name.removesuffix(' suite').removesuffix(' RUN')}"  # named by what they are given
        shown = any(line.startswith(own) for line in examples(command.help))
        assert shown, f"holotron {name} --help shows no example"


def test_every_example_can_be_parsed():
    for _, command in commands():
        for line in examples(command.help):
            words = shlex.split(line)
            if words[0] == "holotron":
                parse(words[1:])
    for name in COMMANDS:
        group = typer.main.get_command(command_line([name])).commands[name]  # type: ignore[attr-defined]
        for line in examples(group.help or ""):
            parse(shlex.split(line)[1:])


def parse(words: list[str]) -> None:
    """As the command line does, up to the point where the command would be called."""
    command: Any = typer.main.get_command(command_line(words))
    try:
        context = command.make_context("holotron", list(words))
        while hasattr(context.command, "resolve_command"):
            rest = [*getattr(context, "_protected_args", ()), *context.args]
            name, below, rest = context.command.resolve_command(context, rest)
            context = below.make_context(name, rest, parent=context)
    except typer.Exit:
        pass  # --list and the like


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_name_of_the_overview_has_help(name: str):
    shown = call(name, "--help")
    assert shown.status == 0 and f"holotron {name}" in shown.out


def test_nothing_and_the_version():
    bare, asked = call(), call("--help")
    assert bare.status == 2 and asked.status == 0
    assert all(name in bare.out and name in asked.out for name in COMMANDS)
    assert call("--version").out == f"holotron {holotron.__version__}\n"


def test_defaults_are_shown():
    """`[default: 8000]` in a help text is markup to Rich, and vanishes."""
    assert "8000" in call("serve", "--help").out
    assert "holo2-8b" in call("plan", "--help").out


def test_recipes_are_listed_and_shown():
    listed = call("train", "--list").out
    assert re.search(r"^rl +holotron-mini/4-rl ", listed, re.M) and re.search(r"^sft +holotron-12b/1-", listed, re.M)
    shown = call("train", "show", "holotron-mini/4-rl").out
    assert 'name = "holotron-mini-rl"' in shown and shown.startswith("#")
    assert '"seed":3' in call("train", "sft", "recipes/holotron-mini/3-dagger.toml", "--dry-run").out.replace(" ", "")
