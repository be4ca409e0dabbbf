"""`holotron bench`: measure agent sessions.

The options are those of `holotron.bench.command`, which needs no typer and also runs where little else is installed;
here they are shown as those of every other command are.
"""

from __future__ import annotations

import argparse
import inspect
from enum import StrEnum
from typing import Annotated, Any

import typer

from holotron.bench import command
from holotron.bench.presets import listed

app = typer.Typer(no_args_is_help=True)


@app.callback()
def about() -> None:
    """Measure agent sessions: steps per second, latency, memory.

    holotron bench sessions holotron-mini --sessions 8
    """


def sessions(**values: Any) -> None:
    plain = {name: str(value) if isinstance(value, StrEnum) else value for name, value in values.items()}
    raise typer.Exit(command.run(command.with_preset(argparse.Namespace(**plain))))


_HELP = """Many agents at once: each step shows a screenshot and gets a short reply.

holotron bench sessions holotron-12b
holotron bench sessions holotron-12b --preset window-3
holotron bench sessions --url http://127.0.0.1:8000/v1 --api sessions
holotron bench sessions holotron-12b --against holo2-8b-text --sweep 1,10,100 --plot curve.png
holotron bench sessions tiny --sessions 8 --steps 3 --screenshot 64 --system 32 --generate 16

Presets, workloads with a name:
"""


def _parameter(action: argparse.Action) -> inspect.Parameter:
    """An option of the standard library's parser, as typer wants it told."""
    text = (action.help or "").removesuffix(" (%(default)s)")
    text = text[:1].upper() + text[1:] + ("." if text and not text.endswith(".") else "")
    default: Any = action.default
    kind: Any = bool if isinstance(default, bool) else list[str] if isinstance(default, list) else action.type or str
    if action.choices is not None:
        choices: Any = StrEnum
        kind = choices(action.dest, [(str(choice).replace("-", "_"), str(choice)) for choice in action.choices])
        default = None if default is None else kind(default)
    metavar = action.metavar if isinstance(action.metavar, str) else None
    told: Any = typer.Argument(help=text)
    if action.option_strings:
        told = typer.Option(*action.option_strings, help=text, metavar=metavar)
    annotation: Any = Annotated[kind | None if default is None else kind, told]
    return inspect.Parameter(action.dest, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_OPTIONS = [_parameter(action) for action in command.options()]
sessions.__signature__ = inspect.Signature(_OPTIONS)  # type: ignore[attr-defined]
sessions.__annotations__ = {option.name: option.annotation for option in _OPTIONS}
app.command(help=f"{_HELP}\n{listed()}")(sessions)
