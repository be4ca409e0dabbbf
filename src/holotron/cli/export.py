"""`holotron export`: trajectories as training data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    out: Annotated[Path, typer.Argument(help="The JSON-lines file to write.")],
    dialect: Annotated[str, typer.Option(help="holotron, surfer, tools or compact.")] = "holotron",
    frame: Annotated[str | None, typer.Option(help="Coordinate frame.", show_default="the dialect's")] = None,
    history: Annotated[str, typer.Option(help="append, epoch:TURNS,KEEP or window:IMAGES.")] = "append",
    failures: Annotated[bool, typer.Option("--failures", help="Also episodes that did not succeed.")] = False,
) -> None:
    """Write recorded trajectories as chat-formatted SFT data, every reply once, in the words of the chosen dialect."""
    from rich.console import Console

    from holotron.agent.dialects import make_dialect
    from holotron.agent.history import parse_history
    from holotron.rollouts.export import export_sft

    console = Console(stderr=True)
    with console.status("exporting") as status:
        made = export_sft(
            run,
            out,
            make_dialect(dialect, frame=frame),
            parse_history(history),
            where=lambda row: failures or bool(row["success"]),
            on_episode=lambda done: status.update(f"{done} episodes"),
        )
    print(f"{out}  ({made.lines} conversations, {made.replies} replies, {made.episodes} episodes)")
    for episode, why in list(made.skipped.items())[:5]:
        console.print(f"left out {episode}: {why}", style="yellow", highlight=False)
    if len(made.skipped) > 5:
        console.print(f"... and {len(made.skipped) - 5} more", style="yellow")
