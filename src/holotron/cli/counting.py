"""A bar for work that counts: how many, how fast, how long still. In a log file there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def counting(total: int, things: str) -> Iterator[Callable[[int, float], None]]:
    """Call what it gives with how many are done, and how many per second are being done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate = TextColumn(f"{{task.fields[rate]:.1f}} {things}/s")
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total, rate=0.0)
        yield lambda done, per_second: bar.update(task, completed=done, rate=per_second)
