"""A suite as a benchmark: one call, one number, and everything needed to get that number again.

    async with opened(PolicyRequest("holotron-mini"), "miniwob", seeds=range(200_000, 200_020)) as (policy, suite):
        result = await evaluate(policy, suite, Path("runs/eval"))
    result.scores.mean_success

The mean is over tasks. Episodes that the browser spoiled are tried again, and if they stay spoiled they are reported
beside the score, never in it. The run directory holds every screenshot and reply behind the number; calling again with
the same settings resumes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from holotron.agent.events import Listener
from holotron.agent.policies.base import Policy
from holotron.evals.curve import curve
from holotron.evals.statistics import Scoreboard, scoreboard
from holotron.rollouts.progress import Progress
from holotron.rollouts.runner import RolloutSettings
from holotron.rollouts.store import RunReader
from holotron.rollouts.suite import play
from holotron.suites.base import Suite
from holotron.types import Trajectory


@dataclass(frozen=True, slots=True)
class Evaluation:
    scores: Scoreboard
    progress: Progress  # of this process; a resumed evaluation has made fewer steps than are on record
    manifest: dict[str, Any]
    run: Path
    seeds: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """What `--json` writes."""
        manifest = {key: value for key, value in self.manifest.items() if key != "episodes"}
        return {
            "mean_success": self.scores.mean_success,
            "environment_errors": self.scores.overall.environment_errors,
            "retries": self.progress.retries,
            "steps_per_second": self.progress.steps_per_second if self.progress.steps else None,
            "seconds": self.progress.seconds,
            "episodes": self.scores.overall.episodes,
            "overall": self.scores.to_json()["overall"],
            "tasks": self.scores.to_json()["tasks"],
            "curve": [asdict(point) for point in curve(self.manifest, self.scores)],  # of suites that have an axis
            "seeds": list(self.seeds),
            "manifest": manifest,
        }


async def evaluate(
    policy: Policy,
    suite: Suite,
    out: Path,
    *,
    settings: RolloutSettings = RolloutSettings(),
    on_progress: Callable[[Progress], None] | None = None,
    on_episode: Callable[[Trajectory], None] | None = None,
    listeners: Sequence[Listener] = (),
) -> Evaluation:
    """Play the suite with this policy and score it."""
    progress = await play(
        suite,
        policy,
        out,
        settings=settings,
        kind=f"eval {suite.name}",
        on_progress=on_progress,
        on_episode=on_episode,
        listeners=listeners,
        complete=True,  # the score is that of a set of episodes: another set is another run
    )
    reader = RunReader(out)
    wanted = {task.id for task in suite.tasks}
    rows = [row for row in reader.episodes() if row["id"] in wanted]
    seeds = tuple(sorted({task.seed for task in suite.tasks}))
    return Evaluation(scoreboard(rows), progress, reader.manifest, out, seeds)
