"""Suites from Python: score a policy, or record what it does.

    result = evaluate("miniwob", policy="holotron-mini", tasks="click-test-2,enter-text", seeds=range(200_000, 200_010))
    print(result.scores.mean_success)

    rollout("tasks.jsonl", policy="http://localhost:8000/v1", out="runs/x", sessions=16)

A run directory holds every screenshot and reply; the same call with the same directory goes on where it was. In a
program with an event loop: `evaluate_async`, `rollout_async`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holotron.agent.events import Listener
from holotron.agent.policies.registry import PolicyRequest
from holotron.api.blocking import blocking
from holotron.evals.evaluate import Evaluation
from holotron.evals.evaluate import evaluate as score
from holotron.model.bundled import BUNDLED
from holotron.rollouts.progress import Progress
from holotron.rollouts.runner import RolloutSettings
from holotron.rollouts.suite import opened, play
from holotron.view import View


async def evaluate_async(
    suite: str,
    *,
    policy: str | PolicyRequest = BUNDLED,
    out: str | Path,
    tasks: str | Sequence[str] = "all",
    seeds: range = range(1),
    sessions: int = 8,
    repeats: int = 1,
    view: View = View(),
    steps: int | None = None,
    seconds: float | None = None,
    listeners: Sequence[Listener] = (),
) -> Evaluation:
    """Play a suite with a policy and score it. `suite`: a name (`holotron eval --list` shows them), a file of web
    tasks, or your own as module:function. `repeats`: tries of each task and seed, for pass@k. `steps` and `seconds`:
    limits of an episode other than the suite's."""
    request = policy if isinstance(policy, PolicyRequest) else PolicyRequest(policy)
    async with opened(request, suite, tasks=tasks, seeds=seeds, view=view, steps=steps, seconds=seconds) as (who, what):
        settings = RolloutSettings(sessions=sessions)
        return await score(who, what, Path(out), settings=settings, repeats=repeats, listeners=listeners)


evaluate = blocking(evaluate_async)


async def rollout_async(
    suite: str,
    *,
    policy: str | PolicyRequest = BUNDLED,
    out: str | Path,
    tasks: str | Sequence[str] = "all",
    seeds: range = range(1),
    sessions: int = 8,
    repeats: int = 1,
    view: View = View(),
    steps: int | None = None,
    seconds: float | None = None,
    listeners: Sequence[Listener] = (),
) -> Progress:
    """Play a suite and record every step. `holotron.rollouts.store.RunReader(out)` reads it."""
    request = policy if isinstance(policy, PolicyRequest) else PolicyRequest(policy)
    settings = RolloutSettings(sessions=sessions)
    async with opened(request, suite, tasks=tasks, seeds=seeds, view=view, steps=steps, seconds=seconds) as (who, what):
        return await play(what, who, Path(out), settings=settings, repeats=repeats, listeners=listeners)


rollout = blocking(rollout_async)
