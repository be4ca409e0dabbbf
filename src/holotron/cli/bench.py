"""`holotron bench`: measure agent sessions. The command itself is `holotron.bench.command`, which needs no typer."""

from __future__ import annotations

import typer

app = typer.Typer()


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def bench(context: typer.Context) -> None:
    """Measure agent sessions: steps per second, latency, memory."""
    from holotron.bench.command import main

    raise typer.Exit(main(context.args))
