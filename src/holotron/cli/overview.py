"""Which commands there are. `holotron --help` is answered from here in a few milliseconds: neither the parser nor any
command is imported for it.

    holotron --help | -h | --version
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from holotron import __version__

ABOUT = "Serve, run, measure and train computer-use policies of the Holotron family."
EPILOG = "New here? holotron demo, then holotron COMMAND --help: each shows examples."

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
    "judge": ("holotron.cli.judge", "Let a model say which episodes succeeded; see how far to trust it."),
    "watch": ("holotron.cli.watch", "Look at a run in a browser, going on or finished."),
    "report": ("holotron.cli.report", "Turn a run into one HTML page to look at."),
    "export": ("holotron.cli.export", "Turn recorded trajectories into training data."),
    "exchange": ("holotron.cli.exchange", "Write suites for other frameworks: Harbor, verifiers."),
    "data": ("holotron.cli.data", "Generate labelled pages, or label screenshots."),
    "sites": ("holotron.cli.sites", "Open the package's web apps, and list their tasks."),
    "train": ("holotron.cli.train", "Train a model from a recipe."),
    "model": ("holotron.cli.model", "Look at a checkpoint: shape, parameters, memory."),
}


def overview(bold: bool = False) -> str:
    def strong(text: str) -> str:
        return f"\033[1m{text}\033[0m" if bold else text

    options = {"--version": "Print the version.", "-h, --help": "Show this message and exit."}
    rows = [(f"{name:12}", text) for name, text in options.items()]
    commands = [(f"{name:12}", summary) for name, (_, summary) in COMMANDS.items()]
    lines = [
        f"{strong('Usage:')} holotron [OPTIONS] COMMAND [ARGS]...",
        "",
        ABOUT,
        "",
        strong("Options"),
        *(f"  {strong(name)} {text}" for name, text in rows),
        "",
        strong("Commands"),
        *(f"  {strong(name)} {text}" for name, text in commands),
        "",
        EPILOG,
    ]
    return "\n".join(lines)


def main() -> None:
    """The entry point of the package."""
    _open_streams()
    answer = _at_once(sys.argv[1:])
    if answer is None:
        from holotron.cli.main import main as run

        run()
    try:
        print(answer, flush=True)
    except OSError as error:
        from holotron.cli.main import not_written

        sys.exit(not_written(error))


def _open_streams() -> None:
    """A shell may start us with streams closed (`<&-`), and then Python has none. In this order each gets its own
    number again, so that no file or connection is taken for it."""
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (it stays open)


def _at_once(words: Sequence[str]) -> str | None:
    if words in (["--help"], ["-h"]):
        return overview(sys.stdout.isatty())
    return f"holotron {__version__}" if words == ["--version"] else None
