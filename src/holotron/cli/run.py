"""`holotron run`: one task, one browser, watched live."""

from __future__ import annotations

import asyncio
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holotron.cli import agent_options as shared
from holotron.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from holotron.types import Step, Trajectory

app = typer.Typer()


class Confirm(StrEnum):
    never = "never"
    critical = "critical"
    always = "always"


@app.command()
def run(
    goal: Annotated[str, typer.Argument(help="What the agent is to do.")],
    url: Annotated[str, typer.Option(help="Where it starts.")],
    policy: shared.Policy = "holotron-mini",
    headed: Annotated[bool, typer.Option("--headed", help="Show the browser window.")] = False,
    confirm: Annotated[
        Confirm,
        typer.Option(
            help="Ask you before every action, before what cannot be taken back (pay, send, delete, log in), or never."
        ),
    ] = Confirm.critical,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VARIABLE@HOST",
            help="A password the agent may use on that site and never sees: it writes <secret:NAME>, the value comes "
            "from the environment variable. May be given again.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="A site it may visit (may be given again); all public ones if none is.")
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Also sites on this machine and its network.")] = False,
    steps: Annotated[int, typer.Option(min=1, help="Most steps.")] = 30,
    seconds: Annotated[float, typer.Option(help="Most seconds.")] = 600.0,
    tokens: Annotated[int | None, typer.Option(help="Most tokens, prompt (not cached) and reply.")] = None,
    width: Annotated[
        int | None, typer.Option(help="Width of the page in CSS pixels.", show_default="model's, or 1280")
    ] = None,
    height: Annotated[int | None, typer.Option(help="And its height.", show_default="model's, or 720")] = None,
    scale: Annotated[
        float | None, typer.Option(help="Pixels drawn per CSS pixel.", show_default="model's, or 1")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run directory.", show_default="runs/run-DATE")] = None,
    model: shared.Model = None,
    dialect: shared.Dialect = None,
    frame: shared.Frame = None,
    history: shared.History = None,
    temperature: shared.Temperature = None,
    max_tokens: shared.MaxTokens = None,
    sample_seed: shared.SampleSeed = None,
    constrained: shared.Constrained = True,
    thinking: shared.Thinking = None,
    device: shared.Device = None,
) -> None:
    """Give the agent one task in a real browser and watch it: every thought, action and timing, then a report."""
    from rich.console import Console

    from holotron.actions import ACTIONS
    from holotron.agent.approval import Approval
    from holotron.agent.loop import Limits
    from holotron.agent.policies.choice import make_policy, web_screen
    from holotron.envs.network import NetworkPolicy
    from holotron.envs.secrets import Secrets, parse_secret
    from holotron.envs.session import SessionOptions
    from holotron.envs.tab import Display
    from holotron.envs.web import WebPool
    from holotron.evals.report import write_report
    from holotron.rollouts.single import run_once
    from holotron.types import Task

    who = shared.choice(
        policy, model, dialect, frame, history, temperature, max_tokens, sample_seed, constrained, thinking, device
    )
    options = SessionOptions(
        display=Display(*web_screen(who, width, height, scale)),
        network=NetworkPolicy(allow=tuple(allow or ()), private=private),
        secrets=tuple(map(parse_secret, secret or ())),
    )
    goal += Secrets(options.secrets).explain()
    limits = Limits(steps=steps, seconds=seconds, tokens=tokens, answer_when_over=True)
    task = Task("web", "task", goal, start_url=url, options={"today": time.strftime("%A, %Y-%m-%d")})
    folder = out or Path("runs") / time.strftime("run-%Y%m%d-%H%M%S")
    console = Console()
    ask = _ask if sys.stdin.isatty() else None
    if ask is None and confirm is not Confirm.never:
        console.print(
            f"Nobody to ask here: {confirm} actions will be refused; --confirm never allows them.", style="yellow"
        )

    async def main() -> Trajectory:
        actor = await make_policy(who, tuple(ACTIONS))
        pool = WebPool(sessions=1, browsers=1, headless=not headed, options=options)
        try:
            return await run_once(
                task,
                actor,
                pool,
                folder,
                limits=limits,
                environment={"suite": "web", "viewport": [width, height], "scale": scale},
                approve=Approval(confirm.value, ask),
                on_step=lambda step: _show(console, step),
            )
        finally:
            await pool.close()
            await actor.close()

    try:
        trajectory = asyncio.run(main())
    except ConfigError as error:
        raise ConfigError(f"{error}{_remedy(str(error))}") from None
    colour: Literal["green", "red", "yellow"] = _COLOURS.get(trajectory.outcome, "yellow")
    console.print(f"[{colour}]{trajectory.outcome}[/] after {len(trajectory.steps)} steps, {trajectory.seconds:.1f} s")
    if trajectory.error:
        console.print(trajectory.error + _remedy(trajectory.error), style="yellow", markup=False, highlight=False)
    if trajectory.answer:
        console.print(trajectory.answer, style="bold", markup=False, highlight=False)
    print(f"report: {write_report(folder).path}")


def _remedy(error: str) -> str:
    return " Add --private to allow that." if "private address" in error else ""


_COLOURS: dict[str, Literal["green", "red", "yellow"]] = {
    "success": "green",
    "unscored": "green",
    "failure": "red",
    "policy_error": "red",
    "environment_error": "red",
}


def _show(console: Console, step: Step) -> None:
    from rich.text import Text

    from holotron.agent.describe import describe

    reply = step.reply
    line = Text(f"{step.index + 1:3d}  ", style="dim")
    if reply.action is None:
        line.append(f"unusable reply: {reply.error}", style="red")
    else:
        line.append(describe(reply.action), style="bold")
    line.append(f"  {step.policy_seconds:.1f} s + {step.environment_seconds:.1f} s", style="dim")
    for text in (reply.note, reply.thought):
        if text:
            console.print(Text(f"     {' '.join(text.split())}", style="italic dim"))
    console.print(line)


async def _ask(question: str) -> bool:
    return (await asyncio.to_thread(input, f"     allow: {question}? [Y/n] ")).strip().lower() in ("", "y", "yes")
