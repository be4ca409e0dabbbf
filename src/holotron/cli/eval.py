"""`holotron eval`: score a policy on a suite."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from holotron.cli.agent_options import with_policy, with_view
from holotron.cli.judge_options import JudgeOptions, judge_run, with_judge

if TYPE_CHECKING:
    from holotron.agent.policies.base import Policy as Actor
    from holotron.agent.policies.registry import PolicyRequest
    from holotron.evals.evaluate import Evaluation
    from holotron.evals.grounding import GroundingFigures
    from holotron.view import View

T = TypeVar("T")


class SuiteGroup(TyperGroup):
    """`holotron eval NAME`: what is no command of its own is the name of a suite."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # typer brings a click of its own, or not
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            return "suite", self.commands["suite"], args
        return super().resolve_command(ctx, args)


app = typer.Typer(no_args_is_help=True, cls=SuiteGroup)


def _list(wanted: bool) -> None:
    if wanted:
        from holotron.suites.base import suites

        for name in suites.names():
            print(f"{name:18} {(inspect.getdoc(suites.get(name)) or '').partition(chr(10))[0]}")
        raise typer.Exit


@app.callback()
def about(
    list_suites: Annotated[
        bool, typer.Option("--list", callback=_list, is_eager=True, help="Say which suites there are, and stop.")
    ] = False,
) -> None:
    """Score a policy on a suite of tasks: [bold]holotron eval miniwob --policy holotron-mini[/bold]

    A suite is a name (--list), a JSON-lines file of web tasks, a folder of pages, or a function of your own
    (module:function or file.py:function).
    """


@app.command()
@with_policy()
@with_view
@with_judge(required=False)
def suite(
    name: Annotated[str, typer.Argument(metavar="SUITE", help="miniwob, a file, a folder, or module:function.")],
    who: PolicyRequest,
    view: View,
    by: JudgeOptions | None,
    tasks: Annotated[str, typer.Option(help="all, or names with commas.")] = "all",
    seeds: Annotated[str, typer.Option(help="A:B (B not included), or one number.")] = "200000:200005",
    json: Annotated[Path | None, typer.Option(help="Also write the result here.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run directory; resumed if it is there.", show_default="runs/eval-DATE")
    ] = None,
    sessions: Annotated[int, typer.Option(min=1, help="Episodes at once.")] = 8,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of an episode, at most.", show_default="suite's")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="Seconds of an episode, at most.", show_default="suite's")
    ] = None,
    retry_errors: Annotated[bool, typer.Option("--retry-errors", help="Play recorded errors again.")] = False,
    report: Annotated[bool, typer.Option(help="Write the HTML report.")] = True,
) -> None:
    """The suite that is named: mean success over tasks, with intervals; environment errors apart.

    holotron eval miniwob --policy holotron-mini --tasks click-test-2,enter-text
    holotron eval tasks.jsonl --policy http://localhost:8000/v1 --out runs/mine
    """
    from rich.console import Console

    from holotron.cli.progress import live_progress
    from holotron.evals.evaluate import evaluate
    from holotron.evals.report import write_report
    from holotron.rollouts.runner import RolloutSettings
    from holotron.rollouts.suite import opened
    from holotron.suites.base import parse_seeds

    folder = out or Path("runs") / time.strftime("eval-%Y%m%d-%H%M%S")
    console = Console(stderr=True)
    wanted = parse_seeds(seeds)
    if by is not None:
        by.check()

    async def main() -> Evaluation:
        async with opened(who, name, tasks=tasks, seeds=wanted, view=view, steps=steps, seconds=seconds) as (
            actor,
            chosen,
        ):
            with live_progress(console, chosen.name) as show:
                settings = RolloutSettings(sessions, retry_errors=retry_errors)
                return await evaluate(actor, chosen, folder, settings=settings, on_progress=show)

    result = asyncio.run(main())
    found = result.to_json()
    if (figures := _grounding(folder)) is not None:
        _show_grounding(figures)
        found["grounding"] = figures.to_json()
    else:
        show_scores(result)
    _store(json, found)
    if report:
        with console.status("writing the report"):
            made = write_report(folder)
        print(f"report: {made.path}")
    if by is not None:
        _store(json, {**result.to_json(), "judged": judge_run(folder, by).to_json()})


@app.command()
@with_policy(only=("model", "dialect", "frame", "constrained", "device"))
def localisation(
    pages: Annotated[Path, typer.Argument(help="A set of pages with instructions, as of `holotron data heldout`.")],
    who: PolicyRequest,
    json: Annotated[Path | None, typer.Option(help="Also write the result here.")] = None,
    sessions: Annotated[int, typer.Option(min=1, help="Questions at once.")] = 8,
    most: Annotated[int | None, typer.Option(min=1, help="Only the first so many.", show_default="all")] = None,
) -> None:
    """One instruction, one click: the share that lands inside the element's box.

    holotron eval localisation data/heldout --policy holotron-mini
    """
    from holotron.evals.localisation import Localisation, evaluate_localisation
    from holotron.suites.asked import ACTIONS

    def ask(actor: Actor, say: Callable[[str], None]) -> Awaitable[Localisation]:
        def show(asked: int, hits: int) -> None:
            say(f"{asked} asked, {hits} hit")

        return evaluate_localisation(actor, pages, sessions=sessions, most=most, on_progress=show)

    result = _questioned(who, ACTIONS, ask)
    for kind, hits in result.by.items():
        print(f"{kind:12} {100 * hits.rate:5.1f} %  of {hits.asked}")
    low, high = result.overall.interval
    print(
        f"accuracy {result.overall.rate:.4f} of {result.overall.asked} ({100 * low:.1f} – {100 * high:.1f} %)", end=""
    )
    print(f"; {result.errors} errors; set {result.hash}")
    _store(json, result.to_json())


@app.command()
@with_policy(only=("model", "dialect", "frame", "constrained", "device"))
def reading(
    who: PolicyRequest,
    json: Annotated[Path | None, typer.Option(help="Also write the result here.")] = None,
    each: Annotated[int, typer.Option(min=1, help="Pages for each size of type.")] = 40,
    seed: Annotated[int, typer.Option(help="Of the strings.")] = 0,
    sessions: Annotated[int, typer.Option(min=1, help="Pages at once.")] = 8,
) -> None:
    """Random strings at MiniWoB++'s sizes of type: can the policy read them, and find them?

    holotron eval reading --policy holotron-mini
    """
    from dataclasses import asdict

    from holotron.evals.reading import ACTIONS, SIZES, Reading, probe_reading

    def ask(actor: Actor, say: Callable[[str], None]) -> Awaitable[dict[str, Reading]]:
        def show(asked: int) -> None:
            say(f"{asked} of {each * len(SIZES)} pages")

        return probe_reading(actor, each=each, seed=seed, sessions=sessions, on_progress=show)

    result = _questioned(who, ACTIONS, ask)
    for size, row in result.items():
        print(f"{size:9} characters {row.characters:.3f}  exact {row.exact:.3f}  found {row.found:.3f}  of {row.asked}")
    _store(json, {size: asdict(row) for size, row in result.items()})


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(help="A run directory (`--out` of an evaluation).")],
    after: Annotated[Path, typer.Argument(help="Another one, with the same tasks and seeds.")],
) -> None:
    """Two runs on the same episodes: what was won, what was lost, and whether that can be luck."""
    from holotron.evals.paired import compare as pair
    from holotron.evals.paired import differences_beside_the_policy
    from holotron.rollouts.store import RunReader

    first, second = RunReader(before), RunReader(after)
    result = pair(first.episodes(), second.episodes())
    for name, task in sorted(result.tasks.items(), key=lambda item: item[1].difference):
        if task.won or task.lost:
            print(f"{name:32} {100 * task.before:3.0f} -> {100 * task.after:3.0f} %  {task.won} won, {task.lost} lost")
    whole = result.overall
    print(f"{100 * whole.before:.1f} -> {100 * whole.after:.1f} % of {whole.episodes} episodes:", end=" ")
    print(f"{100 * whole.difference:+.1f} points ({100 * result.low:+.1f} to {100 * result.high:+.1f}),", end=" ")
    print(f"{whole.won} won, {whole.lost} lost, chance {whole.chance:.3f}", end="")
    print(f"; {result.unpaired} episodes in one run only" if result.unpaired else "")
    if also := differences_beside_the_policy(first.manifest, second.manifest):
        print("The two runs differ in more than the policy:")
        print("\n".join(f"  {line}" for line in also))


def _questioned(
    who: PolicyRequest, actions: Sequence[str], ask: Callable[[Actor, Callable[[str], None]], Awaitable[T]]
) -> T:
    """Let a policy be asked, with a line on the terminal that says how far it is."""
    from dataclasses import replace

    from rich.console import Console

    from holotron.agent.policies.registry import make_policy

    async def main() -> T:
        actor = await make_policy(replace(who, actions=tuple(actions)))
        try:
            with Console(stderr=True).status("asking") as status:
                return await ask(actor, status.update)
        finally:
            await actor.close()

    return asyncio.run(main())


def _grounding(run: Path) -> GroundingFigures | None:
    """The figures of a grounding benchmark, if the run is one."""
    from holotron.evals.grounding import grounding_figures
    from holotron.rollouts.store import RunReader
    from holotron.suites.base import GROUNDING

    reader = RunReader(run)
    return grounding_figures(reader) if reader.manifest["kind"].removeprefix("eval ") in GROUNDING else None


def _show_grounding(figures: GroundingFigures) -> None:
    for name, one in {**figures.by, "all": figures.overall}.items():
        low, high = one.interval
        kinds = "".join(
            f"  {kind} {100 * share:.1f} %" for kind, share in (("text", one.text), ("icon", one.icon))
            if share is not None
        )  # fmt: skip
        print(f"{name:44} {100 * one.accuracy:5.1f} % of {one.items:5d} ({100 * low:.1f} – {100 * high:.1f}){kinds}")
    if figures.overall.items < figures.published:
        print(f"a subset: {figures.overall.items:,} of {figures.published:,} published items")
    print(
        f"{figures.overall.wrong_format} replies in a wrong format (they count as wrong); {figures.spoiled} not asked"
    )


def _store(path: Path | None, result: dict[str, Any]) -> None:
    from holotron.storage.files import replace_json

    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_json(path, result)


def show_scores(result: Evaluation) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("task", "success", "95 % interval", "n", "steps", "env. errors"):
        table.add_column(heading, justify="left" if heading == "task" else "right")
    for row in result.scores.tasks:
        rate = "–" if row.success is None else f"{100 * row.success:.0f} %"
        interval = f"{100 * row.low:.0f} – {100 * row.high:.0f}"
        table.add_row(
            row.task, rate, interval, str(row.scored), f"{row.mean_steps:.1f}", str(row.environment_errors or "")
        )
    console = Console()
    console.print(table)
    overall, mean = result.scores.overall, result.scores.mean_success
    print(f"mean_success {'–' if mean is None else f'{mean:.4f}'} over {len(result.scores.tasks)} tasks", end="")
    print(f", {overall.scored} episodes ({100 * overall.low:.1f} – {100 * overall.high:.1f} %)", end="")
    print(f"; {overall.environment_errors} environment errors, {result.progress.retries} retries", end="")
    print(f", {result.progress.steps_per_second:.1f} steps/s")
    print(f"run: {result.run}")
