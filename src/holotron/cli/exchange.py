"""`holotron exchange`: suites for other people's frameworks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Write a suite as Harbor task directories or as a verifiers environment.")

Spec = Annotated[str, typer.Argument(help="A suite, as for `holotron eval`.")]
Tasks = Annotated[str, typer.Option(help="all, or names with commas.")]
Seeds = Annotated[str, typer.Option(help="A:B (B not included), or one number.")]


@app.command()
def verifiers(
    suite: Spec,
    out: Annotated[Path, typer.Argument(help="A new folder for the package.")],
    tasks: Tasks = "all",
    seeds: Seeds = "0:1",
    name: Annotated[str, typer.Option(help="Of the package.", show_default="holotron-SUITE")] = "",
    dialect: Annotated[str, typer.Option(help="In which words models are asked and answer.")] = "holotron",
) -> None:
    """Write an installable verifiers environment: multi-turn, a screenshot in every turn.

    holotron exchange verifiers miniwob holotron-miniwob --tasks click-test-2,enter-text --seeds 0:20
    """
    from holotron.exchange.verifiers_package import write_package

    made = write_package(suite, out, tasks=tasks, seeds=seeds, name=name, dialect=dialect)
    print(f"{made}  (install it with: pip install {made})")


@app.command()
def harbor(
    suite: Spec,
    out: Annotated[Path, typer.Argument(help="A folder for task directories; those of other tasks in it stay.")],
    tasks: Tasks = "all",
    seeds: Seeds = "0:1",
    organisation: Annotated[str, typer.Option(help="Stands before the slash in the names of tasks.")] = "holotron",
    package: Annotated[
        str, typer.Option(help="What the images install: a requirement, or a wheel beside you.")
    ] = "holotron[agent]",
    solve: Annotated[
        bool, typer.Option("--solve/--no-solve", help="Play the suite's solver now and keep what it did as solution.")
    ] = True,
) -> None:
    """Write Harbor task directories: one for each task and seed.

    holotron exchange harbor sites harbor-tasks --tasks short --seeds 0:2
    """
    from holotron.exchange.harbor_tasks import write_tasks

    made = write_tasks(
        suite, out, tasks=tasks, seeds=seeds, organisation=organisation, package=package, solve=solve,
        on_task=lambda folder: print(folder),
    )  # fmt: skip
    print(f"{out}  ({len(made)} tasks)")
