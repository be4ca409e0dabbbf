"""`holotron sites`: open a web app as a person, and see which tasks there are."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

app = typer.Typer(no_args_is_help=True, help="Open the package's web apps, and list their tasks.")


@app.command("list")
def list_tasks() -> None:
    """The apps and their tasks.

    holotron sites list
    """
    from rich.console import Console
    from rich.table import Table

    from holotron.sites.tasks import STEPS, templates
    from holotron.sites.transfer import NAMES, find_application

    table = Table("task", "length", "steps", "about")
    for template in templates():
        low, high = STEPS[template.length]
        table.add_row(template.name, template.length, f"{low}-{high}", ", ".join(sorted(template.about)))
    for name in NAMES:
        for task in find_application(name).tasks:
            low, high = STEPS[task.length]
            table.add_row(f"{name}-{task.name}", task.length, f"{low}-{high}", "transfer: by others, never trained on")
    Console().print(table)


@app.command()
def serve(
    name: Annotated[
        str, typer.Argument(help="An app (its first task is taken) or a task; trac and oscar, too.")
    ] = "shop",
    seed: Annotated[int, typer.Option(help="Which data, look and goal.")] = 0,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8900,
    split: Annotated[str, typer.Option(help="train or heldout: which themes and layouts.")] = "train",
    viewport: Annotated[str | None, typer.Option(help="laptop or phone; by seed if not given.")] = None,
) -> None:
    """Open an app in your own browser, with a task to do; the terminal says how it stands and takes answers.

    holotron sites serve shop
    holotron sites serve admin-role --seed 7 --port 0
    """
    from rich.console import Console

    from holotron.sites.transfer import NAMES

    console = Console()
    if name.partition("-")[0] in NAMES:
        server, episode, title = _open_transfer(console, *name.partition("-")[::2], seed, port)
    else:
        server, episode, title = _open_site(name, seed, port, split, viewport)
    console.print(f"[bold]http://127.0.0.1:{server.port}{episode.assignment.start}[/bold]")
    console.print(f"Task {title}: {episode.goal}", highlight=False)
    console.print("Where it asks for an answer, or cannot be done, write that here.")
    told = None
    try:
        for answer in _typed():
            verdict = episode.verdict(answer or None)
            if answer:
                console.print(f"{'right' if verdict.success else 'wrong'}: {verdict.reason}", highlight=False)
            elif verdict != told:
                told = verdict
                console.print(f"{'done' if verdict.success else 'not yet'}: {verdict.reason}", highlight=False)
    finally:
        server.close()


def _typed() -> Iterator[str]:
    """Twice a second what has been typed since, as a line or as nothing."""
    sources = [sys.stdin] if sys.stdin is not None else []
    while True:
        ready = select.select(sources, [], [], 0.5)[0]
        line = sys.stdin.readline() if ready else ""
        if ready and not line:
            sources = []  # it has been closed
        yield line.strip()


def _open_site(name: str, seed: int, port: int, split: str, viewport: str | None) -> tuple[Any, Any, str]:
    from holotron.errors import ConfigError
    from holotron.sites.environment import make_episode
    from holotron.sites.server import SitesServer
    from holotron.sites.tasks import sites_tasks

    task = sites_tasks(name, [seed], split=split, viewport=viewport)[0]  # type: ignore[arg-type]
    episode = make_episode(task)
    try:
        server = SitesServer(port=port)
    except OSError as error:
        raise ConfigError(f"port {port} cannot be used: {error.strerror}; choose another with --port") from None
    server.open(episode, default=True)
    return server, episode, task.id


def _open_transfer(console: Any, name: str, task: str, seed: int, port: int) -> tuple[Any, Any, str]:
    from holotron.sites.transfer import find_application
    from holotron.sites.transfer.application import HostServer, TransferEpisode, prepared

    app = find_application(name)
    chosen = app.tasks.find(task or app.tasks.names[0])
    with console.status(f"installing {app.title}, once"):
        prepared(app)
    episode, server = TransferEpisode(app, chosen.name, seed), HostServer(app, port=port, default=True)
    server.open(episode)
    return server, episode, f"{name}/{chosen.name}/{seed}"
