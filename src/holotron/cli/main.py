"""`holotron`: the commands, each in a file of its own and imported only when it is asked for."""

from __future__ import annotations

import importlib
import sys

import typer

from holotron import __version__
from holotron.cli.overview import ABOUT, COMMANDS
from holotron.errors import HolotronError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help=ABOUT,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _register(wanted: str | None) -> None:
    """`holotron --help` must be instant, so only the command that was asked for is imported; the others are there for
    the overview. A command's module offers a Typer `app`: one function is the command itself, several are its
    sub-commands."""
    for name, (module, summary) in COMMANDS.items():
        if name != wanted:
            app.command(name, help=summary)(lambda: None)
            continue
        offered: typer.Typer = importlib.import_module(module).app
        if len(offered.registered_commands) == 1 and not offered.registered_groups and not offered.registered_callback:
            only = offered.registered_commands[0]
            assert only.callback is not None
            app.command(name, help=only.help, context_settings=only.context_settings)(only.callback)
        else:
            app.add_typer(offered, name=name)  # with the help of its own callback


def _version(wanted: bool) -> None:
    if wanted:
        print(f"holotron {__version__}")
        raise typer.Exit


@app.callback()
def holotron(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main() -> None:
    """Run, and turn the errors we raise on purpose into one line and a stable exit code."""
    try:
        _register(next((word for word in sys.argv[1:] if not word.startswith("-")), None))
        app()
    except HolotronError as error:
        print(f"holotron: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("holotron: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        from holotron.storage.files import refusal

        if (refused := refusal(error)) is None:
            raise
        print(f"holotron: {refused}", file=sys.stderr)
        sys.exit(refused.exit_code)


if __name__ == "__main__":
    main()
