"""Options that `run`, `rollout` and `eval` share, and the display they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from holotron.agent.policies.choice import PolicyChoice
    from holotron.rollouts.progress import Progress

_POLICY = "random[:SEED], scripted, the address of an OpenAI-compatible server, or a model (folder, hub id, preset)."

Policy = Annotated[str, typer.Option(help=_POLICY)]
Model = Annotated[str | None, typer.Option(help="Which of the server's models.", rich_help_panel="Policy")]
Dialect = Annotated[
    str | None,
    typer.Option(help="holotron, surfer, tools or compact.", rich_help_panel="Policy", show_default="model's"),
]
Frame = Annotated[
    str | None, typer.Option(help="pixels, thousand, cells or unit.", rich_help_panel="Policy", show_default="model's")
]
History = Annotated[
    str | None,
    typer.Option(help="append, epoch:TURNS,KEEP or window:IMAGES.", rich_help_panel="Policy", show_default="model's"),
]
Temperature = Annotated[float | None, typer.Option(min=0.0, rich_help_panel="Policy", show_default="model's, or 0")]
MaxTokens = Annotated[
    int | None,
    typer.Option(min=1, help="Tokens of one reply.", rich_help_panel="Policy"),
]
SampleSeed = Annotated[int | None, typer.Option(help="Seed of the sampling.", rich_help_panel="Policy")]
Constrained = Annotated[
    bool, typer.Option(help="Hold replies to the dialect's schema while decoding.", rich_help_panel="Policy")
]
Thinking = Annotated[
    bool | None,
    typer.Option(help="Let the model reason before it replies.", rich_help_panel="Policy"),
]
Scale = Annotated[
    float | None, typer.Option(help="Pixels drawn per CSS pixel of MiniWoB++.", show_default="model's, or 3")
]
Crop = Annotated[
    bool | None,
    typer.Option("--crop/--no-crop", help="Without MiniWoB++'s instruction bar.", show_default="model's, or whole"),
]
Png = Annotated[
    bool | None,
    typer.Option("--png/--jpeg", help="MiniWoB++'s pictures without loss.", show_default="model's, or JPEG"),
]
Device = Annotated[str | None, typer.Option(help="For an in-process model: cuda, cpu.", rich_help_panel="Policy")]


def choice(
    policy: str,
    model: str | None,
    dialect: str | None,
    frame: str | None,
    history: str | None,
    temperature: float | None,
    max_tokens: int | None,
    sample_seed: int | None,
    constrained: bool,
    thinking: bool | None,
    device: str | None,
) -> PolicyChoice:
    from holotron.agent.policies.choice import PolicyChoice

    return PolicyChoice(
        policy, model, dialect, frame, history, temperature, max_tokens, sample_seed, constrained, thinking, device
    )


@contextmanager
def live_progress(console: Console, what: str) -> Iterator[Callable[[Progress], None]]:
    """A bar with rate and remaining time in a terminal; a line every half minute in a log file."""
    import time

    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bars

    if not console.is_terminal:
        last = time.monotonic()

        def line(progress: Progress) -> None:
            nonlocal last
            if time.monotonic() - last >= 30:
                last = time.monotonic()
                console.print(f"{what}: {progress.done}/{progress.total} {describe(progress)}", highlight=False)

        yield line
        return
    with Bars(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        console=console,
        refresh_per_second=4,
    ) as bars:
        bar = bars.add_task(what, total=None, state="")

        def move(progress: Progress) -> None:
            bars.update(bar, total=progress.total, completed=progress.done, state=describe(progress))

        yield move


def describe(progress: Progress) -> str:
    """One line: how it goes, how fast, how long still."""
    parts = []
    if progress.scored:
        parts.append(f"{100 * progress.successes / progress.scored:.1f} % success")
    parts.append(f"{progress.steps_per_second:.1f} steps/s")
    if progress.remaining_seconds:
        parts.append(f"{duration(progress.remaining_seconds)} left")
    if progress.retries:
        parts.append(f"{progress.retries} retries")
    if progress.environment_errors:
        parts.append(f"{progress.environment_errors} environment errors")
    if progress.failing:
        parts.append(f"failing: {progress.failing[:80]}")
    return " · ".join(parts)


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
