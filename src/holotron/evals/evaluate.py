"""A suite as a benchmark: one call, one number, and everything needed to get that number again.

    async with opened(PolicyRequest("holotron-mini"), "miniwob", seeds=range(200_000, 200_020)) as (policy, suite):
        result = await evaluate(policy, suite, Path("runs/eval"))
    result.scores.mean_success

The mean is over tasks. Episodes that the environment broke are tried again, and if they stay broken they are reported
beside the score, never in it. The run directory holds every screenshot and reply behind the number; calling again with
the same settings resumes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holotron.agent.events import Listener
from holotron.agent.policies.base import Policy
from holotron.agent.steered import Steer
from holotron.evals.costs import Prices
from holotron.evals.results import RunResult, read_result
from holotron.evals.statistics import Scoreboard
from holotron.rollouts.crew import Crew
from holotron.rollouts.progress import Progress
from holotron.rollouts.runner import RolloutSettings
from holotron.rollouts.suite import play
from holotron.suites.base import Suite
from holotron.types import Trajectory


@dataclass(frozen=True, slots=True)
class Evaluation:
    result: RunResult
    progress: Progress  # of this process; a resumed evaluation has made fewer steps than are on record
    seeds: tuple[int, ...]

    @property
    def scores(self) -> Scoreboard:
        return self.result.scores

    @property
    def manifest(self) -> dict[str, Any]:
        return self.result.manifest

    @property
    def run(self) -> Path:
        return self.result.path

    def to_json(self) -> dict[str, Any]:
        """What `--json` writes."""
        return {
            **self.result.to_json(),
            "retries": self.progress.retries,
            "steps_per_second": self.progress.steps_per_second if self.progress.steps else None,
            "seconds": self.progress.seconds,
            "seeds": list(self.seeds),
        }


async def evaluate(
    policy: Policy,
    suite: Suite,
    out: Path,
    *,
    crew: Crew | None = None,
    settings: RolloutSettings = RolloutSettings(),
    repeats: int = 1,
    prices: Prices | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_episode: Callable[[Trajectory], None] | None = None,
    listeners: Sequence[Listener] = (),
    steer: Steer | None = None,
) -> Evaluation:
    """Play the suite with this policy and score it. `repeats`: tries of each task and seed, for pass@k. `crew`: who
    plays, if not this event loop."""
    progress = await play(
        suite,
        policy,
        out,
        crew=crew,
        settings=settings,
        repeats=repeats,
        kind=f"eval {suite.name}",
        on_progress=on_progress,
        on_episode=on_episode,
        listeners=listeners,
        steer=steer,
        complete=True,  # the score is that of a set of episodes: another set is another run
    )
    seeds = tuple(sorted({task.seed for task in suite.tasks}))
    return Evaluation(read_result(out, prices=prices), progress, seeds)
