"""A policy and a suite that fit each other, and the playing of one by the other.

    async with opened(PolicyRequest("http://localhost:8000/v1"), "miniwob", seeds=range(20)) as (policy, suite):
        await play(suite, policy, Path("runs/x"), settings=Settings(sessions=8))

What the model declares of itself (`agent.json`, or a server's `/v1/models`) decides how the suite is shown to it, so
the same weights see the same pictures in this process and behind an address.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from holotron.agent.events import Listener
from holotron.agent.policies.base import Policy
from holotron.agent.policies.labelled import LabelledPolicy
from holotron.agent.policies.registry import PolicyRequest, ask_profile, make_policy
from holotron.agent.steered import Steer
from holotron.envs.network import NetworkPolicy
from holotron.rollouts.crew import Crew
from holotron.rollouts.progress import Progress
from holotron.rollouts.runner import RolloutSettings, rollout
from holotron.suites.base import Suite, find_suite, refuse_held_out
from holotron.types import Trajectory
from holotron.view import View


@asynccontextmanager
async def opened(
    request: PolicyRequest | Policy,
    spec: str,
    *,
    tasks: str | Sequence[str] = "all",
    seeds: range = range(1),
    view: View = View(),
    steps: int | None = None,
    seconds: float | None = None,
    label: PolicyRequest | None = None,
    network: NetworkPolicy | None = None,
) -> AsyncIterator[tuple[Policy, Suite]]:
    """The suite as this policy wants to be shown it, and the policy with the suite's actions. `label` is a second
    policy that says at every step what it would have done, `network` where a suite of web tasks may go. A policy that
    is given as an object is used as it is, and stays open."""
    asked = await ask_profile(request) if isinstance(request, PolicyRequest) else None
    views = asked.profile.views if asked is not None else {}
    suite = find_suite(spec, tasks=tasks, seeds=seeds, view=view, declared=views, network=network)
    suite = suite.limited(steps, seconds)
    async with AsyncExitStack() as ours:

        async def made(wanted: PolicyRequest) -> Policy:
            policy = await make_policy(replace(wanted, actions=suite.actions, solver=suite.solver))
            ours.push_async_callback(policy.close)
            return policy

        policy = request if not isinstance(request, PolicyRequest) else await made(asked or request)
        if label is not None:
            refuse_held_out("labels are there to be learnt", suite)
            policy = LabelledPolicy(policy, await made(label))
        yield policy, suite


async def play(
    suite: Suite,
    policy: Policy,
    out: Path,
    *,
    crew: Crew | None = None,
    settings: RolloutSettings = RolloutSettings(),
    repeats: int = 1,
    kind: str = "rollout",
    on_progress: Callable[[Progress], None] | None = None,
    on_episode: Callable[[Trajectory], None] | None = None,
    listeners: Sequence[Listener] = (),
    steer: Steer | None = None,
    complete: bool = False,
) -> Progress:
    """Play all tasks of the suite and record them in `out`, or go on with what is there; see `rollout`. `crew`: who
    plays, if not this event loop."""
    pool = suite.open(settings.sessions) if crew is None else None
    try:
        return await rollout(
            suite.tasks,
            policy,
            pool,
            out,
            crew=crew,
            settings=settings,
            limits=suite.limits,
            repeats=repeats,
            environment=suite.describe(),
            judge=suite.judge if suite.scored else None,
            kind=kind,
            on_progress=on_progress,
            on_episode=on_episode,
            listeners=listeners,
            steer=steer,
            complete=complete,
        )
    finally:
        if pool is not None:
            await pool.close()
