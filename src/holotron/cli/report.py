"""`holotron report`: a run as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holotron.cli.eval_results import PRICES, prices_of

app = typer.Typer()


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="A run directory, or several for one page; those need --out.")],
    out: Annotated[Path | None, typer.Option(help="The page to write.", show_default="RUN/report.html")] = None,
    episodes: Annotated[int, typer.Option(min=0, help="Episodes that can be played on the page.")] = 300,
    megabytes: Annotated[float, typer.Option(min=0, help="Room for screenshots.")] = 12.0,
    prices: Annotated[Path | None, PRICES] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
) -> None:
    """Turn runs into one self-contained HTML page: scores with intervals, plots, cost, a player for trajectories.

    holotron report runs/eval --out page.html
    """
    from rich.console import Console

    from holotron.evals.report import ReportLimits, write_report

    limits = ReportLimits(episodes=episodes, image_bytes=int(megabytes * 1e6))
    console = Console(stderr=True)
    with console.status("reading the run") as status:
        made = write_report(
            runs[0] if len(runs) == 1 else runs,
            out,
            title=title,
            limits=limits,
            prices=prices_of(prices),
            on_episode=lambda done, total: status.update(f"episode {done}/{total}"),
        )
    print(f"{made.path}  ({made.episodes} episodes, {made.playable} to play, {made.bytes / 1e6:.1f} MB)")
