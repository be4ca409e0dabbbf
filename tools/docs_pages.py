"""Pages of the documentation site that are made when it is built, so that nothing is written twice.

The front page is README.md; contributing and changelog are the files of the repository; the command line is what
`--help` says. mkdocs calls `on_files` (mkdocs.yml, `hooks`).
"""

from __future__ import annotations

import importlib
import inspect
import io
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
    app.rich_markup_mode = None
    return pages_of(name, typer.main.get_command(app), None)


BENCH = {"bench": ["--help"], "bench sessions": ["sessions", "--help"]}


def pages_of(title: str, command: Any, above: Any) -> list[tuple[str, str]]:
    context = command.context_class(
        command, info_name=title.split()[-1] if above else f"holotron {title}", parent=above
    )
    context.terminal_width = context.max_content_width = 92
    text = re.sub(r"\[/?[a-z]+\]", "", command.get_help(context))
    pages = [(title, text.strip())]
    for name, inner in getattr(command, "commands", {}).items():
        pages += pages_of(f"{title} {name}", inner, context)
    return pages


def printed(call: Any) -> str:
    with redirect_stdout(io.StringIO()) as out, suppress(SystemExit):
        call()
    return out.getvalue().strip()
