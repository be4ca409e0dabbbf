"""`holotron eval offline`: one policy, everything that needs no open web, one report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holotron.cli.agent_options import with_policy
from holotron.cli.eval_results import PRICES, prices_of

if TYPE_CHECKING:
    from holotron.agent.policies.registry import PolicyRequest
    from holotron.evals.offline import OfflineResult, Part
    from holotron.rollouts.progress import Progress


@with_policy(default="holotron-mini")
def offline(
    who: PolicyRequest,
    out: Annotated[Path, typer.Option(help="Folder for runs and report; interrupted, the same command goes on there.")],
    size: Annotated[str, typer.Option(help="full, or small: a few of everything, to see that it works.")] = "full",
    parts: Annotated[
        str, typer.Option(help="all, or some of miniwob, sites-short, sites-medium, sites-long, trac, oscar, recall.")
    ] = "all",
    grounding: Annotated[
        list[str] | None, typer.Option(help="A grounding benchmark whose files you have, NAME:FOLDER. Repeatable.")
    ] = None,
    sessions: Annotated[int, typer.Option(min=1, help="Episodes at once.")] = 4,
    retry_errors: Annotated[bool, typer.Option("--retry-errors", help="Play recorded errors again.")] = False,
    prices: Annotated[Path | None, PRICES] = None,
) -> None:
    """Everything that needs no open web, in one report: MiniWoB++, web apps, transfer, recall, grounding.

    Writes report.html, card.md (a table for a model card) and results.json. Applications by others are installed on
    first use.

    holotron eval offline --out runs/offline --size small
    """
    from rich.console import Console

    from holotron.cli.progress import duration
    from holotron.errors import ConfigError
    from holotron.evals.card import model_card
    from holotron.evals.offline import offline_parts, play_offline, select
    from holotron.evals.report import report_of
    from holotron.rollouts.runner import RolloutSettings
    from holotron.storage.files import replace_file, replace_json

    if size not in ("full", "small"):
        raise ConfigError(f"--size {size}: there are full and small")
    paid = prices_of(prices)
    chosen = select(offline_parts("full" if size == "full" else "small", grounding or ()), parts)
    console = Console(stderr=True)
    with ExitStack() as bars:
        played = asyncio.run(
            play_offline(
                chosen,
                who,
                out,
                settings=RolloutSettings(sessions, retry_errors=retry_errors),
                prices=paid,
                on_part=_follow(console, bars, len(chosen)),
            )
        )
    if not played.results:
        raise ConfigError("nothing could be played: " + "; ".join(played.skipped.values()))
    minutes = sum(one.cost.seconds for one in played.results) / 60
    notes = [f"{name} was {why}." for name, why in played.skipped.items()]
    table = "\n".join([model_card(played.results), *notes, f"Played in {minutes:.1f} minutes in all."])
    replace_file(out / "card.md", f"{table}\n".encode())
    replace_json(
        out / "results.json",
        {"parts": [one.to_json() for one in played.results], "skipped": played.skipped, "minutes": minutes},
    )
    made = report_of(played.results, out / "report.html", title=f"{who.spec} · offline report", notes=notes)
    _show(played)
    print(f"played in {minutes:.1f} minutes in all; this call took {duration(played.seconds)}")
    print(f"report: {made.path}, table: {out / 'card.md'}")


def _follow(console: object, bars: ExitStack, count: int) -> Callable[[Part, int], Callable[[Progress], None]]:
    """A bar for each part; the one before it ends when the next begins."""
    from rich.console import Console

    from holotron.cli.progress import live_progress

    assert isinstance(console, Console)

    def begin(part: Part, number: int) -> Callable[[Progress], None]:
        bars.close()
        if not console.is_terminal:
            console.print(f"{number}/{count} {part.name}: {part.about}", highlight=False)
        return bars.enter_context(live_progress(console, f"{number}/{count} {part.name}"))

    return begin


def _show(played: OfflineResult) -> None:
    for one in played.results:
        scores = one.scores
        rate = "nothing scored" if scores.mean_success is None else f"{100 * scores.mean_success:5.1f} %"
        interval = f"({100 * scores.low:.1f} – {100 * scores.high:.1f})"
        broken = f", {one.errors} without a verdict" if one.errors else ""
        print(f"{one.name:18} {rate} {interval} of {scores.overall.scored} episodes, {len(scores.tasks)} tasks{broken}")
    for name, why in played.skipped.items():
        print(f"{name:18} {why}")
