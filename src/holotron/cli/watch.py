"""`holotron watch`: a run, going on or finished, in a browser."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from holotron.cli.eval_results import PRICES, prices_of
from holotron.errors import ConfigError

app = typer.Typer()


@app.command()
def watch(
    target: Annotated[str, typer.Argument(metavar="RUN|URL", help="A run directory, or the address of a live page.")],
    at: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to listen.", show_default="this machine only, a free port")
    ] = "127.0.0.1:0",
    prices: Annotated[Path | None, PRICES] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in your browser.")] = False,
) -> None:
    """Look at a run in a browser: every screen, thought and action. One that goes on with --watch can be steered.

    holotron watch runs/eval
    holotron watch runs/web --open

    A run that goes on without --watch is shown as its episodes come in. Ctrl-C ends it."""
    from holotron.console.recorded import RecordedRun
    from holotron.console.serving import answers, find_live, parse_place, serving

    if target.startswith(("http://", "https://")):
        if not answers(target):
            raise ConfigError(f"there is no live page at {target}; has the run ended? Its folder opens as well.")
        _show(target, open_it)
        return
    folder = Path(target)
    if (url := find_live(folder)) is not None:
        _show(url, open_it)
        return
    run = RecordedRun(folder, prices=prices_of(prices))
    with serving(run, *parse_place(at)) as page:
        _show(page.url, open_it)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            pass


def _show(url: str, open_it: bool) -> None:
    print(url, flush=True)
    if open_it:
        import webbrowser

        webbrowser.open(url)
