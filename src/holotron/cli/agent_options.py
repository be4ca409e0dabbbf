"""Options that several commands share: which policy, and how screens are shown to it.

@with_policy()                      # adds --policy, --model, --dialect ... and hands over one PolicyRequest
@with_view                          # adds --width, --height, --scale, --crop, --format and hands over one View
def rollout(who: PolicyRequest, view: View, out: Path, ...): ...
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

import typer

C = TypeVar("C", bound=Callable[..., Any])

_POLICY = (
    "random[:SEED], scripted[:MISTAKES] (the suite's own solver, with a share of mistakes), the address of an "
    "OpenAI-compatible server, a model (folder, hub id, preset), or your own as module:function."
)


def _option(*names: str, help: str, default: str | None = None, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Policy", show_default=default or True, **more)


_POLICY_OPTIONS: dict[str, tuple[Any, Any]] = {  # name -> (annotation, default)
    "model": (Annotated[str | None, _option(help="Which of the server's models.")], None),
    "dialect": (
        Annotated[
            str | None,
            _option(help="holotron, surfer, tools, compact, or your own as module:Class.", default="model's"),
        ],
        None,
    ),
    "frame": (Annotated[str | None, _option(help="pixels, thousand, cells or unit.", default="model's")], None),
    "history": (
        Annotated[str | None, _option(help="append, epoch:TURNS,KEEP or window:IMAGES.", default="model's")],
        None,
    ),
    "temperature": (Annotated[float | None, _option(help="Of the sampling.", default="model's, or 0", min=0.0)], None),
    "max_tokens": (
        Annotated[int | None, _option(help="Tokens of one reply, at most.", default="model's, or 1024", min=1)],
        None,
    ),
    "sample_seed": (Annotated[int | None, _option(help="Seed of the sampling.")], None),
    "constrained": (
        Annotated[bool, _option("--constrained/--free", help="Hold replies to the dialect's schema while decoding.")],
        True,
    ),
    "thinking": (
        Annotated[
            bool | None,
            _option("--thinking/--no-thinking", help="Let the model reason before it replies.", default="model's"),
        ],
        None,
    ),
    "device": (Annotated[str | None, _option(help="For a model in this process: cuda, cpu.")], None),
}


def _view(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="View", show_default="model's, or the suite's", **more)


_VIEW_OPTIONS: dict[str, tuple[Any, Any]] = {
    "width": (Annotated[int | None, _view(help="Width of the page, CSS pixels.", min=1)], None),
    "height": (Annotated[int | None, _view(help="Height of the page.", min=1)], None),
    "scale": (Annotated[float | None, _view(help="Image pixels drawn per CSS pixel.")], None),
    "crop": (
        Annotated[bool | None, _view("--crop/--no-crop", help="Only the part the task is played in (MiniWoB++).")],
        None,
    ),
    "format": (Annotated[str | None, _view(help="Of screenshots: png or jpeg.")], None),
}


# Of every command that plays a suite.
ALLOW = typer.Option(help="For web tasks: a site they may visit. Repeatable; without it, every public site.")
PRIVATE = typer.Option("--private", help="For web tasks: also sites on this machine and its network.")
STEPS = typer.Option(min=1, help="Steps of an episode, at most.", show_default="suite's")
SECONDS = typer.Option(min=1, help="Seconds of an episode, at most.", show_default="suite's")


def with_policy(
    default: Any = inspect.Parameter.empty, only: tuple[str, ...] = tuple(_POLICY_OPTIONS)
) -> Callable[[C], C]:
    """The command's parameter `who` is made of these options. `default` is the policy, if there is one."""
    options = {"policy": (Annotated[str, typer.Option(help=_POLICY)], default)}
    options |= {name: _POLICY_OPTIONS[name] for name in only}

    def gather(values: dict[str, Any]) -> Any:
        from holotron.agent.policies.registry import PolicyRequest

        if "sample_seed" in values:
            values["seed"] = values.pop("sample_seed")
        return PolicyRequest(values.pop("policy"), **values)

    return lambda command: replace_parameter(command, "who", options, gather)


def with_view(command: C) -> C:
    """The command's parameter `view` is made of these options."""

    def gather(values: dict[str, Any]) -> Any:
        from holotron.view import View

        return View(**values)

    return replace_parameter(command, "view", _VIEW_OPTIONS, gather)


def replace_parameter(
    command: C, name: str, options: Mapping[str, tuple[Any, Any]], gather: Callable[[dict[str, Any]], Any]
) -> C:
    """The same command, with one parameter given as several options."""
    signature = inspect.signature(command)
    kept = [_evaluated(parameter, command) for parameter in signature.parameters.values() if parameter.name != name]
    added = [
        inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for option, (annotation, default) in options.items()
    ]

    @functools.wraps(command)
    def call(**values: Any) -> Any:
        return command(**{name: gather({option: values.pop(option) for option in options})}, **values)

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in kept] + added
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del call.__wrapped__  # or its annotations would be looked up instead of ours
    return call  # type: ignore[return-value]


def _evaluated(parameter: inspect.Parameter, command: Callable[..., Any]) -> inspect.Parameter:
    """With its annotation as an object: it was written in another module than the wrapper's."""
    if not isinstance(parameter.annotation, str):
        return parameter
    try:
        return parameter.replace(annotation=eval(parameter.annotation, command.__globals__))
    except NameError:  # a parameter that another decorator replaces
        return parameter
