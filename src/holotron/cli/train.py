"""`holotron train`: fine-tune a model from a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holotron.cli.crew_options import PANEL, RAY

if TYPE_CHECKING:
    from holotron.training.recipe import CommonRecipe

app = typer.Typer(no_args_is_help=True)

_RANKS = typer.Option(min=1, help="Ranks of the trainer, with --ray: one for each GPU or core.", rich_help_panel=PANEL)
_RECIPE = "A TOML file, or a recipe of the package by name, such as {}: `holotron train --list`."


def _list(wanted: bool) -> None:
    if wanted:
        from holotron.training.recipes import shipped

        for recipe in shipped():
            print(f"{recipe.kind:4} {recipe.name:28} {recipe.about}")
        raise typer.Exit


@app.callback()
def train(
    list_recipes: Annotated[
        bool, typer.Option("--list", callback=_list, is_eager=True, help="Say which recipes there are, and stop.")
    ] = False,
) -> None:
    """Train a model from a recipe.

    holotron train --list                                           what comes with the package
    holotron train show holotron-mini/4-rl > mine.toml              a copy to change
    holotron train rl mine.toml --dry-run                           what it would do
    """


@app.command()
def show(recipe: Annotated[str, typer.Argument(help=_RECIPE.format("holotron-mini/4-rl"))]) -> None:
    """Print a recipe as it is written, with its comments: the beginning of one of your own.

    holotron train show holotron-mini/4-rl > mine.toml
    """
    from holotron.training.recipes import find_recipe, recipe_text

    print(recipe_text(find_recipe(recipe)), end="")


@app.command()
def sft(
    recipe: Annotated[str, typer.Argument(help=_RECIPE.format("holotron-mini/0-reading"))],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Changes to it: optimiser.lr=1e-4 data.0.fonts=fonts model.weights=")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. Run again, it resumes.")] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="Stop after this long, the learning rate decayed.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cuda or cpu; by default the GPU if there is one.")] = None,
    ray: Annotated[str | None, RAY] = None,
    ranks: Annotated[int, _RANKS] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the complete recipe and stop.")] = False,
) -> None:
    """Supervised fine-tuning. Under torchrun, or on Ray, the model is sharded over all ranks.

    holotron train sft holotron-mini/0-reading --minutes 9
    holotron train sft mine.toml optimiser.lr=1e-4 --out runs/mine
    torchrun --nproc-per-node 8 -m holotron train sft mine.toml
    holotron train sft mine.toml --ray --ranks 16 --out /shared/runs/mine
    """
    from holotron.training.recipe import read_recipe

    changes = list(overrides or [])
    if minutes is not None:
        changes.append(f"schedule.minutes={minutes}")
    wanted = read_recipe(recipe, changes)
    if dry_run:
        print(wanted.model_dump_json(indent=2))
        return

    folder = out or Path("runs") / wanted.name
    if ray is not None:
        _on_ray("sft", wanted, folder, ray, ranks, device)
        return

    from holotron.training.distributed import ranks as ranks_here
    from holotron.training.trainer import Trainer

    _alone(ranks)
    with ranks_here(device) as where:
        Trainer(wanted, folder, where).run()


@app.command()
def rl(
    recipe: Annotated[str, typer.Argument(help=_RECIPE.format("holotron-mini/4-rl"))],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Changes to it: tasks.names=click-link rollouts.sessions=8")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. Run again, it resumes.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0.01, help="Stop after this long.")] = None,
    device: Annotated[str | None, typer.Option(help="cuda or cpu; by default the GPU if there is one.")] = None,
    ray: Annotated[str | None, RAY] = None,
    ranks: Annotated[int, _RANKS] = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the complete recipe and its tasks, and stop.")
    ] = False,
) -> None:
    """Reinforcement learning on live rollouts: the policy plays, and learns from what succeeds.

    The engine plays groups of episodes of the same task and seed, all the time. The trainer takes finished groups,
    compares the episodes of each with their mean, makes one update, and hands the engine the new weights while it runs.
    Neither waits for the other.

    [bold]What to look at.[/bold] [cyan]success[/cyan] and [cyan]estimate[/cyan] should rise; [cyan]entropy[/cyan]
    should fall slowly (a collapse means too high a rate); [cyan]age[/cyan] says how many updates behind the episodes
    were; [cyan]engine/trainer[/cyan] must stay near 1.000: it is the mean factor between the probabilities that engine
    and trainer give the same token under the same weights. [cyan]solved[/cyan] and [cyan]failed[/cyan] groups teach
    nothing; if nearly all are one or the other, choose other tasks.

    [bold]What it leaves.[/bold] OUT/model (a checkpoint to serve), OUT/curve.png, OUT/metrics.jsonl, OUT/tensorboard,
    OUT/checkpoints (kill it whenever you like; the same command resumes).

    [bold]To begin.[/bold]

      holotron train rl holotron-mini/4-rl --minutes 10

    [bold]More engines.[/bold] With rollouts.processes=N that many processes play, each with an engine and browsers of
    its own: on this machine, or with --ray wherever there is room.

      holotron train rl holotron-mini/4-rl rollouts.processes=4 rollouts.sessions=96
    """
    from holotron.training.recipe import read_recipe
    from holotron.training.rl.recipe import RlRecipe

    changes = list(overrides or [])
    if minutes is not None:
        changes.append(f"schedule.minutes={minutes}")
    wanted = read_recipe(recipe, changes, RlRecipe)
    if dry_run:
        from holotron.training.rl.player import open_suites

        suite, _ = open_suites(wanted)
        print(wanted.model_dump_json(indent=2))
        names = sorted({task.name for task in suite.tasks})
        print(f"{len(names)} tasks: {' '.join(names)}")
        return

    folder = out or Path("runs") / wanted.name
    if ray is not None and ranks > 1:
        _on_ray("rl", wanted, folder, ray, ranks, device)
        return

    from holotron.errors import ConfigError
    from holotron.training.distributed import ranks as ranks_here
    from holotron.training.rl.trainer import RlTrainer

    place = None
    _alone(ranks)
    with ranks_here(device) as where:
        if ray is not None and where.first:
            if not wanted.rollouts.processes:
                raise ConfigError("--ray is for processes that play: say how many, such as rollouts.processes=4")
            from holotron.fleet.ray_place import RayPlace

            place = RayPlace(ray, gpus=float(where.device.type == "cuda"))
        RlTrainer(wanted, folder, where, place=place).run()


def _on_ray(
    kind: Literal["sft", "rl"], recipe: CommonRecipe, out: Path, ray: str, ranks: int, device: str | None
) -> None:
    from holotron.fleet.ray_train import train_on_ray

    train_on_ray(kind, recipe, out, address=ray, ranks=ranks, device=device)


def _alone(ranks: int) -> None:
    from holotron.errors import ConfigError

    if ranks > 1:
        raise ConfigError("--ranks is for --ray; on this machine: torchrun --nproc-per-node N -m holotron train ...")


@app.command()
def average(
    policies: Annotated[list[Path], typer.Argument(help="Checkpoints, or folders of runs, that began as one policy.")],
    out: Annotated[Path, typer.Option(help="Folder of the new checkpoint.")],
) -> None:
    """The mean of several policies: what their runs learnt in common, with less of the noise of each.

    For runs of `holotron train rl` from the same checkpoint with different seeds, on as many machines as there are:
    they need not know of each other. Judge the result like any other: `holotron eval compare`.

      holotron train average runs/rl-1 runs/rl-2 runs/rl-3 --out runs/mean
    """
    from holotron.training.average import average as make

    make(policies, out)
    print(f"the mean of {len(policies)} policies: {out}")
