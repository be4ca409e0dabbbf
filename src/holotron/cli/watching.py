"""`--watch`: the options that several commands share, and the page while a command runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from holotron.console.live import LiveRun
    from holotron.evals.costs import Prices
    from holotron.rollouts.progress import Progress

WATCH = typer.Option(
    "--watch", help="Look on in a browser, and steer: a page on this machine. Its address is printed."
)  # fmt: skip
WATCH_AT = typer.Option(
    "--watch-at", metavar="HOST:PORT", help="Where that page listens.", show_default="this machine only, a free port"
)  # fmt: skip


@contextmanager
def watching(
    wanted: bool,
    at: str,
    console: Console,
    folder: Path,
    *,
    title: str,
    prices: Prices | None = None,
    attended: bool | None = None,
) -> Iterator[LiveRun | None]:
    """The live page of what is done in the block; None if nobody wants it. Where the command is attended, which it is
    at a terminal unless said otherwise, questions wait for an answer, and whoever looks on at the end may stay."""
    if not wanted:
        yield None
        return
    from holotron.console.live import ALONE_SECONDS, LiveRun
    from holotron.console.serving import parse_place, serving

    attended = sys.stdin.isatty() if attended is None else attended
    run = LiveRun(folder, title=title, prices=prices, alone_seconds=None if attended else ALONE_SECONDS)
    with serving(run, *parse_place(at)) as page:
        console.print(f"watch: {page.url}", highlight=False, soft_wrap=True, markup=False)
        if not page.private:
            console.print("Everybody who knows this address can watch and steer; it is not encrypted.", style="yellow")
        yield run
        run.over()
        if attended and run.viewers:
            console.print("The page stays while somebody looks at it; Ctrl-C closes it.", style="dim")
            while_looked_at(run)


def shown_to(show: Callable[[Progress], None], live: LiveRun | None) -> Callable[[Progress], None]:
    """Progress for the terminal, and for the page if there is one."""
    if live is None:
        return show

    def both(progress: Progress) -> None:
        show(progress)
        live.progress(progress)

    return both


def while_looked_at(run: LiveRun) -> None:
    try:
        while run.viewers:
            time.sleep(0.3)
    except KeyboardInterrupt:
        pass
