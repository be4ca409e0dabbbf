"""`holotron run`: one task, one browser, watched live."""

from __future__ import annotations

import asyncio
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holotron.cli.agent_options import with_policy, with_view
from holotron.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from holotron.agent.events import Event
    from holotron.agent.policies.registry import PolicyRequest
    from holotron.types import Trajectory
    from holotron.view import View

app = typer.Typer()


class Confirm(StrEnum):
    never = "never"
    critical = "critical"
    always = "always"


@app.command()
@with_policy("holotron-mini")
@with_view
def run(
    goal: Annotated[str, typer.Argument(help="What the agent is to do.")],
    url: Annotated[str, typer.Option(help="Where it starts.")],
    who: PolicyRequest,
    view: View,
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
            "from the environment variable. Repeatable.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="A site it may visit. Repeatable; without it, every public site.")
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Also sites on this machine and its network.")] = False,
    steps: Annotated[int, typer.Option(min=1, help="Steps, at most.")] = 30,
    seconds: Annotated[float, typer.Option(help="Seconds, at most.")] = 600.0,
    tokens: Annotated[int | None, typer.Option(help="Tokens, at most: prompt (not cached) and reply.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run directory.", show_default="runs/run-DATE")] = None,
) -> None:
    """Give the agent one task in a real browser and watch it: every thought, action and timing, then a report."""
    from rich.console import Console

    from holotron.agent.approval import Approval
    from holotron.agent.loop import Limits
    from holotron.agent.policies.registry import ask_profile, make_policy
    from holotron.envs.network import NetworkPolicy
    from holotron.envs.registry import PoolRequest, environments
    from holotron.envs.secrets import Secrets, parse_secret
    from holotron.evals.report import write_report
    from holotron.rollouts.single import run_once
    from holotron.suites.web import VIEW
    from holotron.types import Task
    from holotron.view import View

    secrets = tuple(map(parse_secret, secret or ()))
    options = {
        "network": NetworkPolicy(allow=tuple(allow or ()), private=private),
        "secrets": secrets,
        "headless": not headed,
    }
    goal += Secrets(secrets).explain()
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
        asked = await ask_profile(who)
        shown = view.over(asked.profile.views.get("web", View())).over(VIEW)
        actor = await make_policy(asked)
        pool = environments.get("web")(PoolRequest(1, shown, options))
        try:
            return await run_once(
                task,
                actor,
                pool,
                folder,
                limits=limits,
                environment={"suite": "web", "view": shown.to_json()},
                approval=Approval(confirm.value, ask),
                listeners=[lambda episode, event: _show(console, event)],
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


def _show(console: Console, event: Event) -> None:
    """One line for what was thought, one for what was done, or was not."""
    from rich.text import Text

    from holotron.agent.describe import describe
    from holotron.agent.events import Acted, Refused, Thought

    match event:
        case Thought():
            for text in (event.reply.note, event.reply.thought):
                if text:
                    console.print(Text(f"     {' '.join(text.split())}", style="italic dim"))
            line = Text(f"{event.step + 1:3d}  ", style="dim")
            if event.reply.action is None:
                line.append(f"unusable reply: {event.reply.error}", style="red")
            else:
                line.append(describe(event.reply.action), style="bold")
            line.append(f"  {event.seconds:.1f} s", style="dim")
            console.print(line)
        case Refused() if event.question:
            console.print(Text(f"     REFUSED: {event.question}", style="red bold"))
        case Acted() if event.result.observation.note:
            console.print(Text(f"     {' '.join(event.result.observation.note.split())}", style="dim"))


async def _ask(question: str) -> bool:
    return (await asyncio.to_thread(input, f"     allow: {question}? [y/N] ")).strip().lower() in ("y", "yes")
