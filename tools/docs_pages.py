"""Pages of the documentation site that are made when it is built, so that nothing is written twice.

The front page is README.md; contributing and changelog are the files of the repository; the command line is what
`--help` says. mkdocs calls `on_files` (mkdocs.yml, `hooks`).
"""

from __future__ import annotations

import importlib
import inspect
import io
import os
import re
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from holotron.cli.overview import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
_OWN = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


os.environ["COLUMNS"] = "92"  # what fits beside the navigation


def on_files(files: Files, config: MkDocsConfig) -> Files:
    made = {"index.md": moved("README.md", config), "reference/cli.md": command_line()}
    made |= {name: moved(source, config) for source, name in _OWN.items()}
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def moved(source: str, config: MkDocsConfig) -> str:
    """A file of the repository as a page: links into docs/ stay inside the site, others go to the repository."""

    def link(found: re.Match[str]) -> str:
        target = found[2]
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        if target.startswith("docs/"):
            return f"{found[1]}({target.removeprefix('docs/')})"
        if (page := _OWN.get(target)) is not None:
            return f"{found[1]}({page})"
        return f"{found[1]}({config.extra['repository']}/blob/main/{target})"

    return re.sub(r"(\])\(([^)\s]+)\)", link, (ROOT / source).read_text())


def command_line() -> str:
    """What `holotron COMMAND --help` says, for every command."""
    lines = [
        "# Command line",
        "",
        "`holotron COMMAND --help` prints the same. Errors that are meant for you are one line on stderr, with an exit",
        "status that says what kind they are:",
        "",
        *exit_codes(),
        "",
    ]
    for name, (module, summary) in COMMANDS.items():
        lines += [f"## holotron {name}", "", summary, ""]
        for title, text in helps(name, importlib.import_module(module).app):
            if title != name:
                lines += [f"### holotron {title}", ""]
            lines += ["```text", text, "```", ""]
    return "\n".join(lines)


def exit_codes() -> list[str]:
    from holotron import errors

    kinds = {
        kind.exit_code: kind
        for _, kind in sorted(inspect.getmembers(errors, inspect.isclass), reverse=True)
        if kind.__module__ == errors.__name__ and "exit_code" in vars(kind)
    }
    del kinds[errors.HolotronError.exit_code]
    rows = [f"| {code} | {(inspect.getdoc(kind) or '').splitlines()[0]} |" for code, kind in sorted(kinds.items())]
    return ["| status | means |", "|---|---|", "| 0 | Done. |", "| 1 | Any other error. |", *rows]


def helps(name: str, app: typer.Typer) -> list[tuple[str, str]]:
    """(title, text) of a command and of its sub-commands."""
    if name == "bench":  # speaks argparse
        from holotron.bench.command import main

        return [(title, printed(lambda words=words: main(words))) for title, words in BENCH.items()]
    app._add_completion = False  # the whole program's options, which a part would list again
    command: Any = typer.main.get_command(app)

    def shown(path: list[str]) -> str:
        words = [*path, "--help"]
        text = printed(lambda: command.main(words, prog_name=f"holotron {name}", standalone_mode=False))
        return "\n".join(line.rstrip() for line in text.splitlines())

    return [(" ".join([name, *path]), shown(path)) for path in paths(command)]


BENCH = {"bench": ["--help"], "bench sessions": ["sessions", "--help"]}


def paths(command: Any) -> list[list[str]]:
    """A command and all its sub-commands, as words behind its name."""
    inner = getattr(command, "commands", {})
    return [[], *([name, *path] for name, below in inner.items() for path in paths(below))]


def printed(call: Any) -> str:
    with redirect_stdout(io.StringIO()) as out, suppress(SystemExit):
        call()
    return out.getvalue().strip()
