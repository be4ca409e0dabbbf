"""`holotron train`: fine-tune a model from a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Train a model from a recipe.")


@app.callback()
def train() -> None:
    """Train a model from a recipe."""


@app.command()
def sft(
    recipe: Annotated[Path, typer.Argument(help="A TOML recipe, such as recipes/holotron-mini/0-reading.toml.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Changes to it: optimiser.lr=1e-4 data.0.fonts=fonts")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. Run again, it resumes.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after this long, the learning rate decayed.")] = None,
    device: Annotated[str | None, typer.Option(help="cuda or cpu; by default the GPU if there is one.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the complete recipe and stop.")] = False,
) -> None:
    """Supervised fine-tuning. Under torchrun the model is sharded over all ranks."""
    from holotron.training.recipe import read_recipe

    changes = list(overrides or [])
    if minutes is not None:
        changes.append(f"schedule.minutes={minutes}")
    wanted = read_recipe(recipe, changes)
    if dry_run:
        print(wanted.model_dump_json(indent=2))
        return

    from holotron.training.distributed import ranks
    from holotron.training.trainer import Trainer

    with ranks(device) as where:
        Trainer(wanted, out or Path("runs") / wanted.name, where).run()
