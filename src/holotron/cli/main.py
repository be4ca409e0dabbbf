"""`holotron`: the commands, each in a file of its own and imported only when it is asked for."""

from __future__ import annotations

import importlib
import sys

import click
import typer
from typer.core import TyperGroup

from holotron import __version__
from holotron.errors import HolotronError

# name -> (module, what it says in the overview). Order is the order of a first visit.
COMMANDS = {
    "doctor": ("holotron.cli.doctor", "Check browser, clicks, fonts, GPU, model and disk."),
    "run": ("holotron.cli.run", "Give the agent one task in a real browser and watch it."),
    "serve": ("holotron.cli.serve", "Serve a model: OpenAI-compatible API with sessions."),
    "plan": ("holotron.cli.plan", "Say what fits on a GPU before anything runs."),
    "bench": ("holotron.cli.bench", "Measure agent sessions: steps per second, latency, memory."),
    "rollout": ("holotron.cli.rollout", "Run many episodes at once and record every step."),
    "eval": ("holotron.cli.eval", "Score a policy on a suite of tasks."),
    "report": ("holotron.cli.report", "Turn a run into one HTML page to look at."),
    "export": ("holotron.cli.export", "Turn recorded trajectories into training data."),
    "data": ("holotron.cli.data", "Generate labelled pages."),
    "model": ("holotron.cli.model", "Look at a checkpoint: shape, parameters, memory."),
}


class LazyCommands(TyperGroup):
    """`holotron --help` must be instant, so a command's module is imported only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, (module, _) in COMMANDS.items() if importlib.util.find_spec(module)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS or importlib.util.find_spec(COMMANDS[name][0]) is None:
            return None
        module, summary = COMMANDS[name]
        if ctx.invoked_subcommand is None and "--help" in sys.argv and name not in sys.argv:
            return click.Command(name, help=summary)
        command = typer.main.get_command(importlib.import_module(module).app)
        command.name = name
        return command


app = typer.Typer(
    cls=LazyCommands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Serve, run, measure and train computer-use policies of the Holotron family.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
        app()
    except HolotronError as error:
        print(f"holotron: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("holotron: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)


if __name__ == "__main__":
    main()
