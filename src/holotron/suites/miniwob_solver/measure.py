"""How well the solver solves: every task, many seeds, the real environment; writes the table of docs/miniwob-solver.md.

python -m holotron.suites.miniwob_solver --seeds 0:20 --out docs/miniwob-solver.md
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from holotron.envs.miniwob import SUCCESS, SUITE, MiniWobEnvironment, MiniWobPool
from holotron.errors import PolicyError
from holotron.suites.miniwob_solver.limits import SOMETIMES, UNSOLVED
from holotron.suites.miniwob_solver.policy import SolverPolicy
from holotron.suites.miniwob_solver.registry import SOLVERS
from holotron.types import Task

STEPS = 80


@dataclass(frozen=True, slots=True)
class MeasuredEpisode:
    reward: float
    steps: int
    problem: str = ""  # why it ended without the page's verdict

    @property
    def solved(self) -> bool:
        return self.reward >= SUCCESS


@dataclass(slots=True)
class TaskResult:
    name: str
    episodes: list[MeasuredEpisode] = field(default_factory=list)

    @property
    def success(self) -> float:
        return sum(e.solved for e in self.episodes) / len(self.episodes) if self.episodes else 0.0

    @property
    def reward(self) -> float:
        return sum(e.reward for e in self.episodes) / len(self.episodes) if self.episodes else 0.0

    @property
    def steps(self) -> float:
        return sum(e.steps for e in self.episodes) / len(self.episodes) if self.episodes else 0.0


async def run_episode(environment: MiniWobEnvironment, name: str, seed: int) -> MeasuredEpisode:
    """One demonstration, from reset to the page's verdict."""
    observation = await environment.reset(Task(SUITE, name, seed=seed))
    session = await SolverPolicy().start(environment.task, environment)
    for step in range(1, STEPS + 1):
        try:
            reply = await session.act(observation)
        except PolicyError as error:
            return MeasuredEpisode(0.0, step, str(error))
        assert reply.action is not None
        result = await environment.step(reply.action)
        if result.done:
            return MeasuredEpisode(result.reward, step)
        observation = result.observation
    return MeasuredEpisode(0.0, STEPS, f"not done after {STEPS} steps")


async def measure(
    names: Sequence[str],
    seeds: Iterable[int],
    *,
    sessions: int = 4,
    crop: bool = False,
    on_task: Callable[[TaskResult], None] = lambda result: None,
) -> list[TaskResult]:
    """Run every solvable task of `names` on every seed; results in the order of `names`."""
    seeds = list(seeds)
    results = {name: TaskResult(name) for name in names}
    waiting = [name for name in names if name in SOLVERS]
    pool = MiniWobPool(sessions=sessions, browsers=1, scale=1, crop=crop)

    async def work() -> None:
        environment = await pool.acquire()
        while waiting:
            result = results[waiting.pop(0)]
            for seed in seeds:
                result.episodes.append(await run_episode(environment, result.name, seed))
            on_task(result)

    try:
        await asyncio.gather(*(work() for _ in range(sessions)))
    finally:
        await pool.close()
    return list(results.values())


def table(results: Sequence[TaskResult]) -> str:
    lines = ["| task | solved | mean reward | mean steps | note |", "|---|---|---|---|---|"]
    for r in results:
        note = UNSOLVED.get(r.name) or SOMETIMES.get(r.name) or ""
        if r.episodes:
            solved = f"{sum(e.solved for e in r.episodes)}/{len(r.episodes)}"
            lines.append(f"| {r.name} | {solved} | {r.reward:.2f} | {r.steps:.1f} | {note} |")
        else:
            lines.append(f"| {r.name} | - | - | - | not attempted: {note} |")
    return "\n".join(lines)


def summary(results: Sequence[TaskResult], threshold: float = 0.95) -> str:
    good = sum(r.success >= threshold for r in results)
    episodes = [e for r in results for e in r.episodes]
    mean = sum(r.success for r in results) / len(results)
    steps = sum(e.steps for e in episodes) / max(len(episodes), 1)
    return (
        f"**{good} of {len(results)} tasks solved on at least {threshold:.0%} of the seeds**; mean over all tasks "
        f"{mean:.1%}; {len(episodes)} episodes, {steps:.1f} actions on average."
    )
