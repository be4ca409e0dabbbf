"""`holotron eval`: score a policy on a suite."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from holotron.cli.agent_options import ALLOW, PRIVATE, SECONDS, STEPS, with_policy, with_view
from holotron.cli.crew_options import CrewOptions, with_crew
from holotron.cli.eval_offline import offline
from holotron.cli.eval_results import PRICES, card, compare, list_suites, prices_of
from holotron.cli.judge_options import JudgeOptions, judge_run, with_judge
from holotron.cli.watching import WATCH, WATCH_AT, shown_to, watching

if TYPE_CHECKING:
    from holotron.agent.policies.base import Policy as Actor
    from holotron.agent.policies.registry import PolicyRequest
    from holotron.console.live import LiveRun
    from holotron.evals.evaluate import Evaluation
    from holotron.evals.grounding import GroundingFigures
    from holotron.evals.injection import InjectionFigures
    from holotron.view import View

T = TypeVar("T")


class SuiteGroup(TyperGroup):
    """`holotron eval NAME`: what is no command of its own is the name of a suite."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # typer brings a click of its own, or not
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            return "suite", self.commands["suite"], args
        return super().resolve_command(ctx, args)


app = typer.Typer(no_args_is_help=True, cls=SuiteGroup)


@app.callback()
def about(
    listed: Annotated[
        bool,
        typer.Option(
            "--list", callback=list_suites, is_eager=True, help="What there is, what it needs, how long it takes."
        ),
    ] = False,
) -> None:
    """Score a policy on a suite of tasks: [bold]holotron eval miniwob --policy holotron-mini[/bold]

    Everything that needs no open web, in one report: [bold]holotron eval offline --out runs/offline[/bold]

    A suite is a name (--list), a JSON-lines file of web tasks, a folder of pages, or a function of your own
    (module:function or file.py:function).
    """


@app.command()
@with_policy()
@with_view
@with_crew
@with_judge(required=False)
def suite(
    name: Annotated[str, typer.Argument(metavar="SUITE", help="miniwob, a file, a folder, or module:function.")],
    who: PolicyRequest,
    view: View,
    crew: CrewOptions,
    by: JudgeOptions | None,
    tasks: Annotated[str, typer.Option(help="all, or names with commas.")] = "all",
    seeds: Annotated[str, typer.Option(help="A:B (B not included), or one number.")] = "200000:200005",
    json: Annotated[Path | None, typer.Option(help="Also write the result here.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Run directory, or s3://BUCKET/FOLDER; resumed if it is there.", show_default="runs/eval-DATE"
        ),
    ] = None,
    sessions: Annotated[int, typer.Option(min=1, help="Episodes at once.")] = 8,
    repeats: Annotated[int, typer.Option(min=1, help="Tries of each task and seed, for pass@k.")] = 1,
    steps: Annotated[int | None, STEPS] = None,
    seconds: Annotated[float | None, SECONDS] = None,
    allow: Annotated[list[str] | None, ALLOW] = None,
    private: Annotated[bool, PRIVATE] = False,
    retry_errors: Annotated[bool, typer.Option("--retry-errors", help="Play recorded errors again.")] = False,
    prices: Annotated[Path | None, PRICES] = None,
    report: Annotated[bool, typer.Option(help="Write the HTML report.")] = True,
    watch: Annotated[bool, WATCH] = False,
    watch_at: Annotated[str, WATCH_AT] = "127.0.0.1:0",
) -> None:
    """The suite that is named: mean success over tasks, with intervals; environment errors apart.

    holotron eval miniwob --policy holotron-mini --tasks click-test-2,enter-text
    holotron eval tasks.jsonl --policy http://localhost:8000/v1 --out runs/mine
    """
    from rich.console import Console

    from holotron.cli.progress import live_progress
    from holotron.envs.network import NetworkPolicy
    from holotron.evals.evaluate import evaluate
    from holotron.evals.report import write_report
    from holotron.evals.unreadable import unreadable
    from holotron.rollouts.runner import RolloutSettings
    from holotron.rollouts.spread import Playing
    from holotron.rollouts.store import RunReader
    from holotron.storage.objects import shown
    from holotron.suites.base import parse_seeds

    folder = out or Path("runs") / time.strftime("eval-%Y%m%d-%H%M%S")
    console = Console(stderr=True)
    wanted, table = parse_seeds(seeds), prices_of(prices)
    network = NetworkPolicy(tuple(allow or ()), private) if allow or private else None
    if by is not None:
        by.check()

    async def main(live: LiveRun | None) -> Evaluation:
        playing = Playing(who, name, tasks, wanted, view, steps, seconds, network=network)
        async with playing.opened() as (actor, chosen):
            if live is not None:
                live.describe(actor.describe(), chosen.name)
            with live_progress(console, chosen.name) as show:
                settings = RolloutSettings(sessions, retry_errors=retry_errors)
                return await evaluate(
                    actor, chosen, folder, crew=crew.make(playing), settings=settings, repeats=repeats, prices=table,
                    on_progress=shown_to(show, live), listeners=() if live is None else (live.hear,),
                    steer=None if live is None else live.steer,
                )  # fmt: skip

    crew.check(watch)
    with watching(watch, watch_at, console, folder, title=f"eval {name}", prices=table) as live:
        result = asyncio.run(main(live))
        if result.result.grounding is not None:
            _show_grounding(result.result.grounding)
            print(f"run: {shown(folder)}")
        else:
            show_scores(result)
        if (unread := unreadable(RunReader(folder))) is not None:
            print(unread)
        if result.result.injection is not None:
            _show_injection(result.result.injection, folder)
        _store(json, result.to_json())
        if report:
            with console.status("writing the report"):
                made = write_report(folder, prices=table)
            print(f"report: {shown(made.path)}")
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


app.command()(compare)
app.command()(card)
app.command()(offline)


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


def _show_grounding(figures: GroundingFigures) -> None:
    for name, one in {**figures.by, "all": figures.overall}.items():
        low, high = one.interval
        kinds = "".join(
            f"  {kind} {100 * share:.1f} %" for kind, share in (("text", one.text), ("icon", one.icon))
            if share is not None
        )  # fmt: skip
        rate = "    –" if one.accuracy is None else f"{100 * one.accuracy:5.1f}"
        print(f"{name:44} {rate} % of {one.items:5d} ({100 * low:.1f} – {100 * high:.1f}){kinds}")
    if figures.overall.items < figures.published:
        print(f"a subset: {figures.overall.items:,} of {figures.published:,} published items")
    if figures.mean_distance is not None:
        print(f"mean distance from the middle of the box: {figures.mean_distance:.1f} pixels")
    print(
        f"{figures.overall.wrong_format} replies in a wrong format, {figures.overall.no_reply} items without a reply "
        f"(context or time ran out): they count as wrong; {figures.spoiled} could not be asked and are in no figure"
    )


def _show_injection(figures: InjectionFigures, folder: Path) -> None:
    from holotron.storage.files import replace_file

    table = figures.markdown()
    replace_file(folder / "injection.md", table.encode())
    print(f"\n{table}")
    if figures.overall.attack_at_10.rate is None:
        print("attack at 10 needs ten tries of each attack where the clean task succeeds: ten seeds, or --repeats")
    print(f"table: {folder / 'injection.md'}")


def _store(path: Path | None, result: dict[str, Any]) -> None:
    from holotron.storage.files import replace_json

    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_json(path, result)


def show_scores(result: Evaluation) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from holotron.storage.objects import shown

    table = Table(box=None, pad_edge=False)
    for heading in ("task", "success", "95 % interval", "n", "steps", "errors"):
        table.add_column(heading, justify="left" if heading == "task" else "right")
    for row in result.scores.tasks:
        rate = "–" if row.success is None else f"{100 * row.success:.0f} %"
        interval = f"{100 * row.low:.0f} – {100 * row.high:.0f}"
        table.add_row(
            escape(row.task), rate, interval, str(row.scored), f"{row.mean_steps:.1f}",
            str(row.environment_errors + row.policy_errors or ""),
        )  # fmt: skip
    console = Console()
    console.print(table)
    scores, overall, cost = result.scores, result.scores.overall, result.result.cost
    mean = "–" if scores.mean_success is None else f"{scores.mean_success:.4f}"
    print(f"mean_success {mean} over {len(scores.tasks)} tasks, {overall.scored} episodes", end="")
    print(f" ({100 * scores.low:.1f} – {100 * scores.high:.1f} % for tasks like these", end="")
    print(f", {100 * overall.low:.1f} – {100 * overall.high:.1f} % for these)", end="")
    print(f"; {overall.environment_errors} environment errors, {result.progress.retries} retries", end="")
    print(f", {result.progress.steps_per_second:.1f} steps/s")
    if result.result.errors and overall.at_least is not None:
        broken = f"{result.result.errors} episodes broke and are in no rate"
        print(f"{broken}; had all of them failed: {100 * overall.at_least:.1f} % of {overall.episodes} episodes")
    if overall.unscored:
        print(f"{overall.unscored} episodes ended with nobody to say whether the task was done; they are in no rate")
    if overall.assisted:
        print(f"a person had a hand in {overall.assisted} episodes, which are in no rate")
    sampling = result.manifest["config"]["policy"].get("sampling") or {}
    if len(result.result.repeats) > 1 and (sampling.get("temperature") == 0 or sampling.get("seed") is not None):
        print("tries differ by the environment alone: give a --temperature above 0 and no --sample-seed")
    if len(result.result.repeats) > 1:
        print(", ".join(f"pass@{one.k} {one.any_of:.4f}" for one in result.result.repeats), end="; ")
        print(f"pass^{result.result.repeats[-1].k} {result.result.repeats[-1].all_of:.4f}")
    if (seconds := cost.per_solved("seconds")) is not None:
        tokens, money = cost.per_solved("generated_tokens"), cost.per_solved("money")
        print(f"per solved task: {seconds:.1f} s", end="")
        print("" if tokens is None else f", {tokens:,.0f} tokens generated", end="")
        print("" if money is None else f", {money:.4f} {cost.currency}")
    if cost.no_money:
        print(f"no cost in money: {cost.no_money}")
    print(f"run: {shown(result.run)}")
