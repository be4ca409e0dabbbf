"""`holotron`: the commands, each in a file of its own and imported only when it is asked for.

    main()                                  # the command line of this process
    main(["plan", "holotron-12b"])          # another one; it ends in SystemExit, as the process would

Whatever is wrong with what was typed, or with the machine, is one line on stderr and a stable exit status. A traceback
is a bug of ours, and says so.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NoReturn, TextIO

import typer
from typer.core import TyperGroup

from holotron import __version__
from holotron.cli.overview import ABOUT, COMMANDS, EPILOG
from holotron.errors import HolotronError

BOXES = 80  # columns: in a narrower terminal they would cut off the names of options
BUGS = "https://github.com/holotron/holotron/issues"
# Typer has a click of its own in some versions and the installed one in others.
UsageProblem: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class Interrupted(HolotronError):
    """Ctrl-C, and the command had nothing to say about it."""

    exit_code = 130


class Commands(TyperGroup):
    """Typer would turn two things into exit statuses that say nothing, or the wrong thing."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _told_apart():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _told_apart():
            return super().invoke(ctx)


@contextmanager
def _told_apart() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted") from None
    except BrokenPipeError:
        raise typer.Exit(reader_left()) from None


def command_line(words: Sequence[str]) -> typer.Typer:
    """`holotron --help` must be instant, so only the command that was asked for is imported; the others are there for
    the overview. A command's module offers a Typer `app`: one function is the command itself, several are its
    sub-commands."""
    wanted = next((word for word in words if not word.startswith("-")), None)
    width = shutil.get_terminal_size().columns
    markup: Literal["rich"] | None = "rich" if width >= BOXES else None
    app = typer.Typer(
        cls=Commands,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=markup,
        help=ABOUT,
        epilog=EPILOG,
        context_settings={"help_option_names": ["-h", "--help"], "terminal_width": max(width, 20) - 1},
    )
    app.callback()(holotron)
    for name, (module, summary) in COMMANDS.items():
        if name != wanted:
            app.command(name, help=summary)(lambda: None)
            continue
        offered: typer.Typer = importlib.import_module(module).app
        offered.rich_markup_mode = markup
        _unwrap_help(offered, alone="\n" if markup else "\n\n")
        if len(offered.registered_commands) == 1 and not offered.registered_groups and not offered.registered_callback:
            only = offered.registered_commands[0]
            assert only.callback is not None
            app.command(name, help=only.help, epilog=only.epilog, context_settings=only.context_settings)(only.callback)
        else:
            app.add_typer(offered, name=name)  # with the help of its own callback
    return app


def _unwrap_help(offered: typer.Typer, alone: str) -> None:
    """Docstrings are wrapped for the source; a terminal wraps them for itself. Examples and tables stay lines; `alone`
    is what keeps two of them apart."""
    for info in (*offered.registered_commands, offered.registered_callback):
        if info is not None and (text := info.help or inspect.getdoc(info.callback)):
            info.help = "\n\n".join(_unwrapped(part, alone) for part in re.split(r"\n\s*\n", text))


def _unwrapped(paragraph: str, alone: str) -> str:
    lines = [line.strip().removeprefix("$ ") for line in paragraph.splitlines()]
    if all(line.startswith(("holotron ", "torchrun ")) for line in lines):
        return alone.join(f"$ {line}" for line in lines)
    return alone.join(lines) if all("  " in line for line in lines) else " ".join(lines)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"holotron {__version__}")
        raise typer.Exit


def holotron(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run, and turn what went wrong into one line and a stable exit code."""
    for stream in (sys.stdout, sys.stderr):
        _print_anything(stream)
    try:
        status = _run(sys.argv[1:] if words is None else words)
        sys.stdout.flush()
    except OSError as error:
        status = not_written(error)
    sys.exit(status)


def _run(words: Sequence[str]) -> int:
    try:
        command = typer.main.get_command(command_line(words))
        status = command.main(_with_address(words), prog_name="holotron", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except HolotronError as error:
        return _say(str(error), error.exit_code)
    except UsageProblem as problem:
        return _misused(problem)
    except (typer.Abort, KeyboardInterrupt):
        return _say("interrupted", Interrupted.exit_code)
    except BrokenPipeError:
        raise
    except Exception as error:
        from holotron.cli.machine import explained

        if (reason := explained(error, words)) is not None:
            return _say(str(reason), reason.exit_code)
        import traceback

        traceback.print_exc()
        return _say(f"this is a bug of holotron, not yours. Please send the lines above to {BUGS}", 1)


def _with_address(words: Sequence[str]) -> list[str]:
    """`--ray` may stand without an address, which typer cannot say."""
    bare = [
        n for n, word in enumerate(words) if word == "--ray" and (n + 1 == len(words) or words[n + 1].startswith("-"))
    ]
    return [part for n, word in enumerate(words) for part in ((word, "auto") if n in bare else (word,))]


def _say(problem: str, status: int) -> int:
    print(f"holotron: {problem}", file=sys.stderr)
    return status


def _misused(problem: Any) -> int:
    """What was typed is no command line of ours: say what, and where help is."""
    if type(problem).__name__ == "NoArgsIsHelpError":  # `holotron`, `holotron train`: the help is printed already
        return int(problem.exit_code)
    text = " ".join(problem.format_message().replace("Value error, ", "").split())
    text = re.sub(r" \(Possible options: (.*)\)", r". Did you mean \1?", text)
    text = text.replace("Input should be greater than or equal to", "at least").replace(
        "Input should be less than or equal to", "at most"
    )
    end = "" if text.endswith(("?", ".")) else "."
    context = getattr(problem, "ctx", None)
    where = context.command_path if context is not None else "holotron"
    return _say(f"{text[:1].lower()}{text[1:]}{end} See: {where} --help", problem.exit_code)


def _print_anything(stream: TextIO) -> None:
    """A terminal that knows fewer characters than we use shows another one in their place; it is no reason to stop."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")


def not_written(error: OSError) -> int:
    """What was to be printed cannot be: nobody reads on, or the disk that it goes to is full."""
    status = reader_left()
    if isinstance(error, BrokenPipeError):
        return status
    return _say(f"cannot write the output: {error.strerror}", 9)


def reader_left() -> int:
    """As `holotron ... | head`: nobody reads on, so that is the end, without a word. The status is that of SIGPIPE."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + 13


if __name__ == "__main__":
    main()
