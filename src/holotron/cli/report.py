"""`holotron report`: a run as one HTML page, or one of its episodes as a GIF."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holotron.cli.eval_results import PRICES, prices_of
from holotron.errors import ConfigError

app = typer.Typer()


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="A run directory, or several for one page; those need --out.")],
    out: Annotated[
        Path | None, typer.Option(help="The page to write, or a .gif.", show_default="RUN/report.html")
    ] = None,
    episodes: Annotated[int, typer.Option(min=0, help="Episodes that can be played on the page.")] = 300,
    megabytes: Annotated[float, typer.Option(min=0, help="Room for screenshots.")] = 12.0,
    prices: Annotated[Path | None, PRICES] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    episode: Annotated[
        str, typer.Option(help="For a .gif: its id, or how that begins.", show_default="the longest that succeeded")
    ] = "",
    width: Annotated[int, typer.Option(min=160, max=1920, help="For a .gif: pixels.")] = 640,
) -> None:
    """Turn runs into one self-contained HTML page: scores with intervals, plots, cost, a player for trajectories.

    If OUT ends in .gif, one episode becomes a picture that plays: what was seen, where it acted, in which words.

      holotron report runs/eval --out page.html
      holotron report runs/eval --out episode.gif --episode sites/shop-add
    """
    from rich.console import Console

    if out is not None and out.suffix.lower() == ".gif":
        from holotron.evals.gif import write_gif

        if len(runs) > 1:
            raise ConfigError("a GIF shows an episode of one run; name one run")
        film = write_gif(runs[0], out, episode=episode, width=width)
        print(f"{film.path}  ({film.episode}, {film.frames} frames, {film.bytes / 1e6:.1f} MB)")
        return
    if episode:
        raise ConfigError("--episode is for a GIF: --out episode.gif")

    from holotron.evals.report import ReportLimits, write_report
    from holotron.storage.objects import shown

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
    print(f"{shown(made.path)}  ({made.episodes} episodes, {made.playable} to play, {made.bytes / 1e6:.1f} MB)")
