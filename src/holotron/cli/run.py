"""`holotron run`: one task, one browser, watched live."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Coroutine
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holotron.cli.agent_options import with_policy, with_view
from holotron.cli.eval_results import PRICES, prices_of
from holotron.cli.watching import WATCH, WATCH_AT, watching
from holotron.model.bundled import BUNDLED
from holotron.types import Outcome

if TYPE_CHECKING:
    from rich.console import Console

    from holotron.agent.events import Event
    from holotron.agent.policies.registry import PolicyRequest
    from holotron.api.running import RunResult
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
            help="Ask you before every action, before anything leaves the browser that changes the world (forms, "
            "orders, messages, passwords), or never."
        ),
    ] = Confirm.critical,
    rules: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What is always sent, never sent or asked about, site by site (TOML)."),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VARIABLE@HOST",
            help="A password the agent may use on that site (https) and never sees: it writes <secret:NAME>, the value "
            "comes from the environment variable. NAME:any=VARIABLE@HOST for fields that are not for passwords. "
            "Repeatable.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="A site it may visit. Repeatable; without it, every public site.")
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Also sites on this machine and its network.")] = False,
    steps: Annotated[int, typer.Option(min=1, help="Steps, at most.")] = 30,
    seconds: Annotated[float, typer.Option(min=1, help="Seconds, at most.")] = 600.0,
    tokens: Annotated[int | None, typer.Option(min=1, help="Tokens, at most: prompt (not cached) and reply.")] = None,
    profile: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Saved log-ins: read if the file is there, written at the end."),
    ] = None,
    cdp: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Work in a browser that runs already and listens there, such as http://127.0.0.1:9222. Its requests "
            "are checked by name only.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON object, and nothing else.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Run directory.", show_default="runs/run-DATE")] = None,
    prices: Annotated[Path | None, PRICES] = None,
    watch: Annotated[bool, WATCH] = False,
    watch_at: Annotated[str, WATCH_AT] = "127.0.0.1:0",
) -> None:
    """Give the agent one task in a real browser and watch it: every thought, action and timing, then a report.

    holotron run "Find the newest release" --url https://www.python.org --policy http://localhost:8000/v1
    holotron run "Log in" --url shop.example --secret password=SHOP_PASSWORD@shop.example --profile shop.json
    holotron run "Press Save" --url http://localhost:3000 --private --json
    holotron run "Order paper" --url shop.example --watch

    Exit status: 0 answered; 10 failed; 11 out of steps, time or tokens; 12 stuck; 13 answered, but an action was
    refused on the way; 6 the browser or the site failed; 7 the policy failed; 130 and 143 interrupted."""
    from rich.console import Console

    from holotron.agent.approval import Approval
    from holotron.agent.events import Ended
    from holotron.api.running import NOT_FOR_THE_WEB, RunResult, run_async
    from holotron.cli.asking import first_of, terminal_approver
    from holotron.evals.report import write_report

    folder = out or Path("runs") / time.strftime("run-%Y%m%d-%H%M%S")
    console = Console(stderr=as_json)
    ask = terminal_approver(folder) if sys.stdin.isatty() and not as_json else None
    if ask is None and not watch and confirm is not Confirm.never:
        console.print(
            "Nobody to ask here: what would have to be asked about is refused, unless --rules allow it. With "
            '"--confirm never" nothing is asked, and all of it is done.',
            style="yellow",
        )
    if who.spec == BUNDLED and not private:
        console.print(f"{NOT_FOR_THE_WEB} --policy takes a larger model or a server's address.", style="yellow")
    ended: list[Trajectory] = []

    def hear(episode: str, event: Event) -> None:
        if isinstance(event, Ended):
            ended.append(event.trajectory)

    table = prices_of(prices)
    with watching(watch, watch_at, console, folder, title="run", prices=table, attended=ask is not None) as live:
        approvers = [one for one in (ask, live.ask if live is not None else None) if one is not None]
        work = run_async(
            goal,
            url=url,
            policy=who,
            secrets=secret or (),
            allow=allow or (),
            private=private,
            confirm=Approval(confirm.value, first_of(*approvers) if approvers else None),
            rules=rules,
            steps=steps,
            seconds=seconds,
            tokens=tokens,
            view=view,
            headed=headed,
            profile=profile,
            cdp=cdp,
            out=folder,
            listeners=[lambda episode, event: _show(console, event), hear, *([] if live is None else [live.hear])],
            steer=None if live is None else live.steer,
        )
        result, stopped_by = asyncio.run(_interruptible(work))
        if result is None:  # stopped
            if not ended:
                raise typer.Exit(128 + stopped_by)  # before there was anything to record
            result = RunResult.of(ended[0], folder)
        report = write_report(folder, prices=table).path
        if as_json:
            print(json.dumps(result.to_json() | {"report": str(report)}, ensure_ascii=False))
        else:
            _close(console, result)
            print(f"report: {report}")
        if stopped_by:
            raise typer.Exit(128 + stopped_by)
    raise typer.Exit(exit_status(result))


async def _interruptible(work: Coroutine[Any, Any, RunResult]) -> tuple[RunResult | None, int]:
    """The result, or the signal that ended it early: what was done until then is recorded all the same."""
    stopped_by = 0
    task = asyncio.ensure_future(work)

    def stop(number: int) -> None:
        nonlocal stopped_by
        stopped_by = number
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        return await task, stopped_by
    except asyncio.CancelledError:
        return None, stopped_by


EXIT_STATUS = {Outcome.FAILURE: 10, Outcome.EXHAUSTED: 11, Outcome.STUCK: 12, Outcome.ENVIRONMENT_ERROR: 6,
               Outcome.POLICY_ERROR: 7}  # fmt: skip
REFUSED = 13


def exit_status(result: RunResult) -> int:
    if result.outcome in EXIT_STATUS:
        return EXIT_STATUS[result.outcome]
    return REFUSED if result.refused else 0


def _close(console: Console, result: RunResult) -> None:
    colour: Literal["green", "red", "yellow"] = _COLOURS.get(result.outcome, "yellow")
    console.print(f"[{colour}]{result.outcome}[/] after {len(result.steps)} steps, {result.cost.seconds:.1f} s")
    for question in result.refused:
        console.print(f"REFUSED, so not done: {question}", style="red bold", markup=False, highlight=False)
    if result.error:
        console.print(result.error, style="yellow", markup=False, highlight=False)
    if result.answer:
        console.print(result.answer, style="bold", markup=False, highlight=False)


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
    from holotron.agent.events import Acted, Refused, Steered, Thought

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
        case Steered() if event.what in ("took over", "handed back", "instructed", "stopped"):
            said = "said" if event.what == "instructed" else event.what
            console.print(Text(f"     a person {said} {event.text}".rstrip(), style="magenta"))
        case Acted() if event.author == "person":
            console.print(Text(f"     a person: {describe(event.action)}", style="magenta"))
        case Refused() if event.question:
            console.print(Text(f"     REFUSED: {event.question}", style="red bold"))
        case Acted() if event.result.observation.note:
            console.print(Text(f"     {' '.join(event.result.observation.note.split())}", style="dim"))
