"""`holotron export`: trajectories as training data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holotron.errors import ConfigError

app = typer.Typer()


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    out: Annotated[Path, typer.Argument(help="The JSON-lines file, or .zip, to write.")],
    dialect: Annotated[str, typer.Option(help="holotron, surfer, tools or compact.")] = "holotron",
    frame: Annotated[str | None, typer.Option(help="Coordinate frame.", show_default="the dialect's")] = None,
    history: Annotated[str, typer.Option(help="append, epoch:TURNS,KEEP or window:IMAGES.")] = "append",
    failures: Annotated[bool, typer.Option("--failures", help="Also episodes that did not succeed.")] = False,
    by: Annotated[
        str | None,
        typer.Option(metavar="agent|person", help="Learn only what one of them did.", show_default="both"),
    ] = None,
    also: Annotated[list[Path] | None, typer.Option(help="A further run, for .zip. Repeatable.")] = None,
    part_megabytes: Annotated[
        int, typer.Option(min=1, help="Size of one .zip; what is more goes into further ones.")
    ] = 60,
) -> None:
    """Write recorded trajectories as chat-formatted SFT data, every reply once, in the words of the chosen dialect.

    If OUT ends in .zip, the episodes are packed instead, as they are and without loss, to be carried to another
    machine: recipes take a packed run wherever they take a run directory.

      holotron export runs/eval sft.jsonl --dialect surfer
      holotron export runs/watched corrections.jsonl --by person --failures
      holotron export runs/demos demos.zip --also runs/more-demos
    """
    from rich.console import Console

    if by not in (None, "agent", "person"):
        raise ConfigError(f"--by is agent or person, not {by!r}")
    if out.suffix == ".zip":
        if by is not None:
            raise ConfigError("a .zip holds episodes as they are; --by is for JSON lines")
        _pack([run, *(also or [])], out, failures, part_megabytes * 1_000_000)
        return

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
            author=by,  # type: ignore[arg-type]  # checked above
            on_episode=lambda done: status.update(f"{done} episodes"),
        )
    print(f"{out}  ({made.lines} conversations, {made.replies} replies, {made.episodes} episodes)")
    for episode, why in list(made.skipped.items())[:5]:
        console.print(f"left out {episode}: {why}", style="yellow", highlight=False)
    if len(made.skipped) > 5:
        console.print(f"... and {len(made.skipped) - 5} more", style="yellow")


def _pack(runs: list[Path], out: Path, failures: bool, part_bytes: int) -> None:
    from rich.console import Console

    from holotron.rollouts.pack import pack

    with Console(stderr=True).status("packing") as status:
        parts = pack(
            runs,
            out,
            where=lambda row: failures or bool(row["success"]),
            part_bytes=part_bytes,
            on_episode=lambda done: status.update(f"{done} episodes"),
        )
    for part in parts:
        size = f"{part.bytes / 1e6:.1f} MB, {part.bytes / part.steps / 1e3:.2f} KB a step"
        print(f"{part.path}  ({part.episodes} episodes, {part.steps} steps, {part.frames} frames, {size})")
