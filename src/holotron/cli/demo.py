"""`holotron demo`: the bundled policy acts in a real Chromium on a dozen kinds of tasks, then a page to look at."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holotron.cli.eval import show_scores

if TYPE_CHECKING:
    from rich.console import Console

    from holotron.evals.evaluate import Evaluation

app = typer.Typer()

# One of each kind: where to click, what to read, what to type, choose, drag, and several steps in a row.
TASKS = (
    "click-test-2", "click-button", "click-link", "click-color", "click-checkboxes", "click-tab-2", "choose-list",
    "enter-text", "login-user", "search-engine", "navigate-tree", "drag-box", "email-inbox-noscroll",
)  # fmt: skip

NEXT = """[bold]What next[/bold]
  look at it                 open {report}
  score it on all tasks      holotron eval miniwob --policy holotron-mini
  give an agent a task       holotron run "Find the newest release" --url https://www.python.org --policy SERVER
  serve a model              holotron serve Hcompany/Holotron-12B     (without a name: the small one)
  what fits on your GPU      holotron plan holotron-12b --gpu H100
  train a policy             holotron train sft holotron-mini/2-navigation --dry-run
  make training data         holotron data synth --help"""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Run directory; a new demo replaces the old one.")] = Path("runs/demo"),
    seeds: Annotated[int, typer.Option(min=1, help="Episodes of each task.")] = 8,
    sessions: Annotated[int, typer.Option(min=1, help="Browser sessions at once.")] = 4,
) -> None:
    """Watch a policy act in a real browser: a dozen task kinds, a table of successes, a report to look at.

    holotron demo --seeds 2
    """
    from rich.console import Console

    from holotron.evals.report import write_report

    console = Console()
    if (out / "manifest.json").exists():
        shutil.rmtree(out)
    started = time.monotonic()
    result = asyncio.run(_play(out, seeds, sessions, console))
    show_scores(result)
    made = write_report(out, title="holotron demo")
    console.print(f"{time.monotonic() - started:.0f} s in all\n")
    console.print(NEXT.format(report=made.path), highlight=False)


async def _play(out: Path, seeds: int, sessions: int, console: Console) -> Evaluation:
    from holotron.agent.policies.registry import PolicyRequest
    from holotron.cli.progress import live_progress
    from holotron.evals.evaluate import evaluate
    from holotron.model.bundled import BUNDLED
    from holotron.rollouts.runner import RolloutSettings
    from holotron.rollouts.suite import opened

    console.print(f"Policy: [bold]{BUNDLED}[/bold], from pixels and the goal's text alone, on this machine's CPU.")
    unseen = range(200_000, 200_000 + seeds)  # of the evaluation's range: nothing was ever trained on them
    async with opened(PolicyRequest(BUNDLED), "miniwob", tasks=TASKS, seeds=unseen) as (policy, suite):
        with live_progress(console, "demo") as show:
            return await evaluate(policy, suite, out, settings=RolloutSettings(sessions), on_progress=show)
