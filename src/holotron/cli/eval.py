"""`holotron eval`: score a policy on a suite."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from holotron.cli import agent_options as shared

if TYPE_CHECKING:
    from holotron.agent.policies.base import Policy as Actor
    from holotron.agent.policies.choice import PolicyChoice
    from holotron.evals.miniwob import Evaluation

T = TypeVar("T")
app = typer.Typer(no_args_is_help=True)


@app.callback()
def suites() -> None:
    """Score a policy on a suite of tasks."""


@app.command()
def miniwob(
    policy: shared.Policy,
    tasks: Annotated[str, typer.Option(help="all, or names with commas.")] = "all",
    seeds: Annotated[str, typer.Option(help="A:B (B left out), or one number.")] = "200000:200005",
    json: Annotated[Path | None, typer.Option(help="Also write the result here.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run directory; resumed if it is there.", show_default="runs/eval-DATE")
    ] = None,
    sessions: Annotated[int, typer.Option(min=1, help="Episodes at once.")] = 8,
    scale: shared.Scale = None,
    crop: shared.Crop = None,
    png: shared.Png = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Most steps of an episode.", show_default="20")] = None,
    seconds: Annotated[float | None, typer.Option(help="Most seconds of an episode.", show_default="300")] = None,
    retry_errors: Annotated[bool, typer.Option("--retry-errors", help="Play recorded errors again.")] = False,
    report: Annotated[bool, typer.Option(help="Write the HTML report.")] = True,
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
    """MiniWoB++: mean success over tasks, with intervals; environment errors apart."""
    from rich.console import Console

    from holotron.agent.policies.choice import make_policy, miniwob_view
    from holotron.evals.miniwob import evaluate
    from holotron.evals.report import write_report
    from holotron.rollouts.runner import Settings
    from holotron.suites.base import miniwob_suite, parse_seeds

    who = shared.choice(
        policy, model, dialect, frame, history, temperature, max_tokens, sample_seed, constrained, thinking, device
    )
    suite = miniwob_suite(tasks, parse_seeds(seeds), **miniwob_view(who, scale, crop, png)).limited(steps, seconds)
    folder = out or Path("runs") / time.strftime("eval-%Y%m%d-%H%M%S")
    console = Console(stderr=True)

    async def main() -> Evaluation:
        actor = await make_policy(who, suite.actions)
        try:
            with shared.live_progress(console, "miniwob") as show:
                settings = Settings(sessions, retry_errors=retry_errors)
                return await evaluate(actor, suite, folder, settings=settings, on_progress=show)
        finally:
            await actor.close()

    result = asyncio.run(main())
    show_scores(result)
    _store(json, result.to_json())
    if report:
        with console.status("writing the report"):
            made = write_report(folder)
        print(f"report: {made.path}")


@app.command()
def localisation(
    pages: Annotated[Path, typer.Argument(help="A set of pages with instructions, as of `holotron data heldout`.")],
    policy: shared.Policy,
    json: Annotated[Path | None, typer.Option(help="Also write the result here.")] = None,
    sessions: Annotated[int, typer.Option(min=1, help="Questions at once.")] = 8,
    most: Annotated[int | None, typer.Option(min=1, help="Only the first so many.", show_default="all")] = None,
    model: shared.Model = None,
    dialect: shared.Dialect = None,
    frame: shared.Frame = None,
    constrained: shared.Constrained = True,
    device: shared.Device = None,
) -> None:
    """One instruction, one click: the share that lands inside the element's box."""
    from holotron.agent.policies.choice import PolicyChoice
    from holotron.evals.localisation import Localisation, evaluate_localisation
    from holotron.suites.asked import ACTIONS

    def ask(actor: Actor, say: Callable[[str], None]) -> Awaitable[Localisation]:
        def show(asked: int, hits: int) -> None:
            say(f"{asked} asked, {hits} hit")

        return evaluate_localisation(actor, pages, sessions=sessions, most=most, on_progress=show)

    who = PolicyChoice(policy, model, dialect, frame, constrained=constrained, device=device)
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
def reading(
    policy: shared.Policy,
    json: Annotated[Path | None, typer.Option(help="Also write the result here.")] = None,
    each: Annotated[int, typer.Option(min=1, help="Pages for each size of type.")] = 40,
    seed: Annotated[int, typer.Option(help="Of the strings.")] = 0,
    sessions: Annotated[int, typer.Option(min=1, help="Pages at once.")] = 8,
    model: shared.Model = None,
    dialect: shared.Dialect = None,
    frame: shared.Frame = None,
    constrained: shared.Constrained = True,
    device: shared.Device = None,
) -> None:
    """Random strings at MiniWoB++'s sizes of type: can the policy read them, and find them?"""
    from dataclasses import asdict

    from holotron.agent.policies.choice import PolicyChoice
    from holotron.evals.reading import ACTIONS, SIZES, Reading, probe_reading

    def ask(actor: Actor, say: Callable[[str], None]) -> Awaitable[dict[str, Reading]]:
        def show(asked: int) -> None:
            say(f"{asked} of {each * len(SIZES)} pages")

        return probe_reading(actor, each=each, seed=seed, sessions=sessions, on_progress=show)

    who = PolicyChoice(policy, model, dialect, frame, constrained=constrained, device=device)
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
    from holotron.rollouts.store import RunReader

    result = pair(RunReader(before).episodes(), RunReader(after).episodes())
    for name, task in sorted(result.tasks.items(), key=lambda item: item[1].difference):
        if task.won or task.lost:
            print(f"{name:32} {100 * task.before:3.0f} -> {100 * task.after:3.0f} %  {task.won} won, {task.lost} lost")
    whole = result.overall
    print(f"{100 * whole.before:.1f} -> {100 * whole.after:.1f} % of {whole.episodes} episodes:", end=" ")
    print(f"{100 * whole.difference:+.1f} points ({100 * result.low:+.1f} to {100 * result.high:+.1f}),", end=" ")
    print(f"{whole.won} won, {whole.lost} lost, chance {whole.chance:.3f}", end="")
    print(f"; {result.unpaired} episodes in one run only" if result.unpaired else "")


def _questioned(
    who: PolicyChoice, actions: Sequence[str], ask: Callable[[Actor, Callable[[str], None]], Awaitable[T]]
) -> T:
    """Let a policy be asked, with a line on the terminal that says how far it is."""
    from rich.console import Console

    from holotron.agent.policies.choice import make_policy

    async def main() -> T:
        actor = await make_policy(who, actions)
        try:
            with Console(stderr=True).status("asking") as status:
                return await ask(actor, status.update)
        finally:
            await actor.close()

    return asyncio.run(main())


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
