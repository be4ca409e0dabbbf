"""How a run of many episodes is shown while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from holotron.rollouts.progress import Progress


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
