"""Suites from Python: score a policy, or record what it does.

    result = evaluate("miniwob", policy="holotron-mini", tasks="click-test-2,enter-text", seeds=range(200_000, 200_010))
    print(result.scores.mean_success)

    rollout("tasks.jsonl", policy="http://localhost:8000/v1", out="runs/x", sessions=16)

A run directory holds every screenshot and reply; the same call with the same directory goes on where it was. In a
program with an event loop: `evaluate_async`, `rollout_async`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from holotron.agent.events import Listener
from holotron.agent.policies.base import Policy
from holotron.agent.policies.function import Act, as_policy
from holotron.agent.policies.registry import PolicyRequest
from holotron.api.blocking import blocking
from holotron.envs.network import NetworkPolicy
from holotron.errors import ConfigError
from holotron.evals.evaluate import Evaluation
from holotron.evals.evaluate import evaluate as score
from holotron.model.bundled import BUNDLED
from holotron.rollouts.progress import Progress
from holotron.rollouts.runner import RolloutSettings
from holotron.rollouts.suite import opened, play
from holotron.suites.base import Suite
from holotron.view import View


async def evaluate_async(
    suite: str,
    *,
    policy: str | PolicyRequest | Policy | Act = BUNDLED,
    out: str | Path,
    tasks: str | Sequence[str] = "all",
    seeds: range = range(1),
    sessions: int = 8,
    repeats: int = 1,
    view: View = View(),
    allow: Sequence[str] = (),
    private: bool = False,
    steps: int | None = None,
    seconds: float | None = None,
    listeners: Sequence[Listener] = (),
) -> Evaluation:
    """Play a suite with a policy and score it. `suite`: a name (`holotron eval --list` shows them), a file of web
    tasks, or your own as module:function. `allow` and `private`: where web tasks may go, as for `run`. `repeats`: tries
    of each task and seed, for pass@k. `steps` and `seconds`: limits of an episode other than the suite's."""
    async with _opened(policy, suite, tasks, seeds, view, allow, private, steps, seconds) as (who, what):
        settings = RolloutSettings(sessions=sessions)
        return await score(who, what, Path(out), settings=settings, repeats=repeats, listeners=listeners)


evaluate = blocking(evaluate_async)


async def rollout_async(
    suite: str,
    *,
    policy: str | PolicyRequest | Policy | Act = BUNDLED,
    out: str | Path,
    tasks: str | Sequence[str] = "all",
    seeds: range = range(1),
    sessions: int = 8,
    repeats: int = 1,
    view: View = View(),
    allow: Sequence[str] = (),
    private: bool = False,
    steps: int | None = None,
    seconds: float | None = None,
    listeners: Sequence[Listener] = (),
) -> Progress:
    """Play a suite and record every step. `holotron.rollouts.store.RunReader(out)` reads it."""
    settings = RolloutSettings(sessions=sessions)
    async with _opened(policy, suite, tasks, seeds, view, allow, private, steps, seconds) as (who, what):
        return await play(what, who, Path(out), settings=settings, repeats=repeats, listeners=listeners)


rollout = blocking(rollout_async)


def _opened(
    policy: str | PolicyRequest | Policy | Act,
    suite: str,
    tasks: str | Sequence[str],
    seeds: range,
    view: View,
    allow: Sequence[str],
    private: bool,
    steps: int | None,
    seconds: float | None,
) -> AbstractAsyncContextManager[tuple[Policy, Suite]]:
    request = PolicyRequest(policy) if isinstance(policy, str) else policy
    if not isinstance(request, PolicyRequest):
        request = as_policy(request)
    if isinstance(seeds, int) or not len(seeds):
        raise ConfigError(f"seeds is a range that is not empty, such as range(3); not {seeds!r}")
    hosts = (allow,) if isinstance(allow, str) else tuple(allow)
    network = NetworkPolicy(hosts, private) if hosts or private else None
    return opened(
        request, suite, tasks=tasks, seeds=seeds, view=view, steps=steps, seconds=seconds, network=network
    )  # fmt: skip
