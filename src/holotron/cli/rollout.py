"""`holotron rollout`: many episodes at once, every step on record."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from holotron.cli import agent_options as shared

app = typer.Typer()


@app.command()
def rollout(
    policy: shared.Policy,
    out: Annotated[Path, typer.Option(help="Run directory; an interrupted run there is resumed.")],
    suite: Annotated[str, typer.Option(help="miniwob, or a JSON-lines file with url and goal.")] = "miniwob",
    tasks: Annotated[str, typer.Option(help="MiniWoB++ tasks: all, or names with commas.")] = "all",
    seeds: Annotated[str, typer.Option(help="A:B (B left out), or one number.")] = "0:1",
    repeats: Annotated[int, typer.Option(min=1, help="Episodes of each task and seed.")] = 1,
    sessions: Annotated[int, typer.Option(min=1, help="Episodes at once.")] = 8,
    label: Annotated[
        str | None, typer.Option(help="A second policy (scripted) that says at every step what it would have done.")
    ] = None,
    scale: shared.Scale = None,
    crop: shared.Crop = None,
    png: shared.Png = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Most steps of an episode.", show_default="suite's")] = None,
    seconds: Annotated[float | None, typer.Option(help="Most seconds of an episode.", show_default="suite's")] = None,
    attempts: Annotated[int, typer.Option(min=1, help="Attempts when the environment fails.")] = 3,
    cut_stragglers: Annotated[
        float | None, typer.Option(help="At the end, cut episodes slower than so many times the 95th centile.")
    ] = None,
    retry_errors: Annotated[bool, typer.Option("--retry-errors", help="Play recorded errors again.")] = False,
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
    """Play a suite with a policy, many episodes at once, and record every step."""
    from rich.console import Console

    from holotron.agent.policies.choice import PolicyChoice, make_policy, miniwob_view
    from holotron.agent.policies.labelled import LabelledPolicy
    from holotron.rollouts.runner import Settings
    from holotron.rollouts.runner import rollout as play
    from holotron.suites.base import find_suite

    who = shared.choice(
        policy, model, dialect, frame, history, temperature, max_tokens, sample_seed, constrained, thinking, device
    )
    chosen = find_suite(suite, tasks, seeds, **miniwob_view(who, scale, crop, png)).limited(steps, seconds)
    settings = Settings(sessions, attempts, straggler_factor=cut_stragglers, retry_errors=retry_errors)
    console = Console(stderr=True)

    async def main() -> None:
        actor = await make_policy(who, chosen.actions)
        if label is not None:
            actor = LabelledPolicy(actor, await make_policy(PolicyChoice(label), chosen.actions))
        pool = chosen.open(sessions)
        try:
            with shared.live_progress(console, chosen.name) as show:
                progress = await play(
                    chosen.tasks,
                    actor,
                    pool,
                    out,
                    settings=settings,
                    limits=chosen.limits,
                    repeats=repeats,
                    environment=chosen.describe,
                    on_progress=show,
                )
        finally:
            await pool.close()
            await actor.close()
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(progress.outcomes.items()))
        print(f"{out}  ({progress.done} episodes: {outcomes}; {shared.describe(progress)})")

    asyncio.run(main())
