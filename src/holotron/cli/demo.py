"""`holotron demo`: the bundled policy acts in a real Chromium, where it is at home and where it is not; then a page to
look at."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holotron.cli.eval import show_scores
from holotron.errors import ConfigError
from holotron.storage.files import make_folder

if TYPE_CHECKING:
    from rich.console import Console

    from holotron.evals.evaluate import Evaluation

app = typer.Typer()

# One of each kind: where to click, what to read, what to type, choose, drag, and several steps in a row.
TASKS = (
    "click-test-2", "click-button", "click-link", "click-color", "click-checkboxes", "click-tab-2", "choose-list",
    "enter-text", "login-user", "search-engine", "navigate-tree", "drag-box", "email-inbox-noscroll",
)  # fmt: skip
# Two of the easiest tasks in web apps of ordinary size, unpicked: whatever comes out is shown.
SITES = ("shop-wish", "mail-star")
SITE_STEPS = 8  # the solver needs three
MARK = ".demo"  # a file in the folder of a demo

NEXT = """[bold]What next[/bold]
  look at it                 open {report}
  score it on everything     holotron eval offline --out runs/offline      (half an hour; one report)
  give an agent a task       holotron run "Find the newest release" --url https://www.python.org --policy SERVER
  serve a model              holotron serve Hcompany/Holotron-12B     (without a name: the small one)
  what fits on your GPU      holotron plan holotron-12b --gpu H100
  train a policy             holotron train sft holotron-mini/2-navigation --dry-run
  make training data         holotron data synth --help"""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder; a new demo replaces the old one.")] = Path("runs/demo"),
    seeds: Annotated[int, typer.Option(min=1, help="Episodes of each task of MiniWoB++.")] = 8,
    sessions: Annotated[int, typer.Option(min=1, help="Browser sessions at once.")] = 4,
) -> None:
    """Watch a policy act in a real browser: small web tasks, two tasks in web apps, a table, a report to look at.

    holotron demo --seeds 2
    """
    from rich.console import Console

    from holotron.evals.report import write_report

    console = Console()
    runs = [out / "miniwob", out / "sites"]
    make_room(out, runs)
    started = time.monotonic()
    small, apps = asyncio.run(_play(runs, seeds, sessions, console))
    show_scores(small)
    _show_apps(apps, console)
    made = write_report(runs, out / "report.html", title="holotron demo")
    console.print(f"{time.monotonic() - started:.0f} s in all\n")
    console.print(NEXT.format(report=made.path), highlight=False)


def make_room(out: Path, runs: list[Path]) -> None:
    """A new demo replaces the old one, and nothing else: runs that no demo made are somebody's."""
    old = [run for run in runs if run.exists()]
    if old and not (out / MARK).exists():
        raise ConfigError(f"{old[0]} is there and may not be a demo's: name another folder with --out, or delete it")
    for run in old:
        shutil.rmtree(run)
    make_folder(out)
    (out / MARK).touch()


async def _play(runs: list[Path], seeds: int, sessions: int, console: Console) -> tuple[Evaluation, Evaluation]:
    from holotron.agent.policies.registry import PolicyRequest
    from holotron.cli.progress import live_progress
    from holotron.evals.evaluate import evaluate
    from holotron.model.bundled import BUNDLED
    from holotron.rollouts.runner import RolloutSettings
    from holotron.rollouts.suite import opened

    console.print(f"Policy: [bold]{BUNDLED}[/bold], from pixels and the goal's text alone, on this machine's CPU.")
    unseen = range(200_000, 200_000 + seeds)  # of the evaluation's range: nothing was ever trained on them
    settings, who = RolloutSettings(sessions), PolicyRequest(BUNDLED)
    async with opened(who, "miniwob", tasks=TASKS, seeds=unseen) as (policy, suite):
        with live_progress(console, "small web tasks") as show:
            small = await evaluate(policy, suite, runs[0], settings=settings, on_progress=show)
    async with opened(who, "sites:laptop", tasks=SITES, seeds=unseen[:1], steps=SITE_STEPS) as (policy, suite):
        with live_progress(console, "web apps") as show:
            return small, await evaluate(policy, suite, runs[1], settings=settings, on_progress=show)


def _show_apps(apps: Evaluation, console: Console) -> None:
    from rich.markup import escape

    console.print("\n[bold]Beside it, web apps of ordinary size[/bold] (success is read off the app's database):")
    for row in apps.result.rows:
        steps = "step" if row["steps"] == 1 else "steps"
        console.print(f"  {escape(row['goal'])}\n    {row['outcome']} after {row['steps']} {steps}", highlight=False)
    if not apps.scores.overall.successes:
        console.print(
            "  It fails there, and that should be said: it was made for pages of 160 pixels, and these have 1280.\n"
            "  A model made for such pages plays the same tasks: holotron eval sites --policy SERVER",
            highlight=False,
            soft_wrap=True,
        )
