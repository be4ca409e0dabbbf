"""`holotron rollout`: many episodes at once, every step on record."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holotron.cli.agent_options import ALLOW, PRIVATE, SECONDS, STEPS, with_policy, with_view
from holotron.cli.crew_options import CrewOptions, with_crew
from holotron.cli.eval_results import PRICES, prices_of
from holotron.cli.watching import WATCH, WATCH_AT, shown_to, watching

if TYPE_CHECKING:
    from holotron.agent.policies.registry import PolicyRequest
    from holotron.console.live import LiveRun
    from holotron.types import Trajectory
    from holotron.view import View

app = typer.Typer()


@app.command()
@with_policy()
@with_view
@with_crew
def rollout(
    who: PolicyRequest,
    view: View,
    crew: CrewOptions,
    out: Annotated[
        Path, typer.Option(help="Run directory, or s3://BUCKET/FOLDER; an interrupted run there is resumed.")
    ],
    suite: Annotated[
        str, typer.Option(help="As for `holotron eval`: miniwob, a file of web tasks, or your own as module:function.")
    ] = "miniwob",
    tasks: Annotated[str, typer.Option(help="all, or names with commas.")] = "all",
    seeds: Annotated[str, typer.Option(help="A:B (B not included), or one number.")] = "0:1",
    shuffled: Annotated[
        bool,
        typer.Option(
            "--shuffled", help="Tasks in random order (by the first seed): stopped early, it has some of all."
        ),
    ] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Episodes of each task and seed.")] = 1,
    sessions: Annotated[int, typer.Option(min=1, help="Episodes at once.")] = 8,
    label: Annotated[
        str | None, typer.Option(help="A second policy (scripted) that says at every step what it would have done.")
    ] = None,
    allow: Annotated[list[str] | None, ALLOW] = None,
    private: Annotated[bool, PRIVATE] = False,
    steps: Annotated[int | None, STEPS] = None,
    seconds: Annotated[float | None, SECONDS] = None,
    attempts: Annotated[int, typer.Option(min=1, help="Attempts when the environment fails.")] = 3,
    cut_stragglers: Annotated[
        float | None, typer.Option(min=1, help="At the end, cut episodes slower than so many times the 95th centile.")
    ] = None,
    retry_errors: Annotated[bool, typer.Option("--retry-errors", help="Play recorded errors again.")] = False,
    prices: Annotated[Path | None, PRICES] = None,
    watch: Annotated[bool, WATCH] = False,
    watch_at: Annotated[str, WATCH_AT] = "127.0.0.1:0",
) -> None:
    """Play a suite with a policy, many episodes at once, and record every step. The same command again resumes.

    holotron rollout --policy scripted --tasks click-test,click-link --seeds 0:25 --out runs/demos
    holotron rollout --policy http://localhost:8000/v1 --suite tasks.jsonl --allow example.com --out runs/web
    holotron rollout --policy http://localhost:8000/v1 --sessions 64 --ray auto --out s3://runs/demos
    """
    from rich.console import Console

    from holotron.agent.policies.registry import PolicyRequest
    from holotron.cli.progress import describe, live_progress
    from holotron.envs.network import NetworkPolicy
    from holotron.rollouts.runner import RolloutSettings
    from holotron.rollouts.spread import Playing
    from holotron.rollouts.suite import play
    from holotron.storage.objects import shown
    from holotron.suites.base import parse_seeds
    from holotron.types import Outcome

    settings = RolloutSettings(sessions, attempts, straggler_factor=cut_stragglers, retry_errors=retry_errors)
    console = Console(stderr=True)
    teacher = PolicyRequest(label) if label is not None else None
    wanted = parse_seeds(seeds)
    network = NetworkPolicy(tuple(allow or ()), private) if allow or private else None

    errors: list[str] = []

    def note(trajectory: Trajectory) -> None:
        if trajectory.outcome in (Outcome.ENVIRONMENT_ERROR, Outcome.POLICY_ERROR):
            errors.append(f"{trajectory.task.id}: {trajectory.error}")

    async def main(live: LiveRun | None) -> None:
        playing = Playing(who, suite, tasks, wanted, view, steps, seconds, teacher, network)
        async with playing.opened() as (actor, chosen):
            if shuffled:
                chosen = chosen.shuffled(wanted.start)
            if live is not None:
                live.describe(actor.describe(), chosen.name)
            with live_progress(console, chosen.name) as show:
                progress = await play(
                    chosen, actor, out, crew=crew.make(playing), settings=settings, repeats=repeats,
                    on_progress=shown_to(show, live), on_episode=note,
                    listeners=() if live is None else (live.hear,), steer=None if live is None else live.steer,
                )  # fmt: skip
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(progress.outcomes.items()))
        print(f"{shown(out)}  ({progress.done} episodes: {outcomes}; {describe(progress)})")

    crew.check(watch)
    with watching(watch, watch_at, console, out, title=f"rollout {suite}", prices=prices_of(prices)) as live:
        asyncio.run(main(live))
        if errors:
            console.print(f"{len(errors)} episodes broke; the first: {errors[0]}", style="yellow", markup=False)
