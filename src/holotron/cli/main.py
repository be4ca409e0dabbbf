"""`holotron`: the commands, each in a file of its own and imported only when it is asked for."""

from __future__ import annotations

import importlib
import sys

import typer

from holotron import __version__
from holotron.errors import HolotronError

# name -> (module, what it says in the overview). Order is the order of a first visit.
COMMANDS = {
    "demo": ("holotron.cli.demo", "Watch the bundled policy act in a real browser."),
    "doctor": ("holotron.cli.doctor", "Check browser, clicks, fonts, GPU, model and disk."),
    "run": ("holotron.cli.run", "Give the agent one task in a real browser and watch it."),
    "serve": ("holotron.cli.serve", "Serve a model: OpenAI-compatible API with sessions."),
    "plan": ("holotron.cli.plan", "Say what fits on a GPU before anything runs."),
    "bench": ("holotron.cli.bench", "Measure agent sessions: steps per second, latency, memory."),
    "rollout": ("holotron.cli.rollout", "Run many episodes at once and record every step."),
    "eval": ("holotron.cli.eval", "Score a policy on a suite of tasks."),
    "judge": ("holotron.cli.judge", "Say how far the verdicts of a judge can be trusted."),
    "report": ("holotron.cli.report", "Turn a run into one HTML page to look at."),
    "export": ("holotron.cli.export", "Turn recorded trajectories into training data."),
    "exchange": ("holotron.cli.exchange", "Write suites for other frameworks: Harbor, verifiers."),
    "data": ("holotron.cli.data", "Generate labelled pages, or label screenshots."),
    "sites": ("holotron.cli.sites", "Open the package's web apps, and list their tasks."),
    "train": ("holotron.cli.train", "Train a model from a recipe."),
    "model": ("holotron.cli.model", "Look at a checkpoint: shape, parameters, memory."),
}


app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Serve, run, measure and train computer-use policies of the Holotron family.",
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
