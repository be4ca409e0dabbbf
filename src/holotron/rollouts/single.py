"""One task, once, on record if somebody says where: what `holotron run` does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holotron.agent.approval import Approval
from holotron.agent.events import Listener
from holotron.agent.loop import Limits
from holotron.agent.policies.base import Policy
from holotron.agent.steered import Steer, episode_of
from holotron.envs.base import EnvironmentPool
from holotron.errors import ConfigError
from holotron.rollouts.store import RunWriter
from holotron.storage.manifest import describe_run
from holotron.types import Outcome, Task, Trajectory


async def run_once(
    task: Task,
    policy: Policy,
    pool: EnvironmentPool[Any],
    out: Path | None,
    *,
    limits: Limits = Limits(),
    environment: Mapping[str, Any] | None = None,
    approval: Approval | None = None,
    listeners: Sequence[Listener] = (),
    steer: Steer | None = None,
) -> Trajectory:
    """Play one episode, and record it in `out`. Cancelled, what was done up to there is told (`Ended`) and recorded."""

    async def play(record: Callable[[Trajectory], None]) -> Trajectory:
        place = await pool.acquire()
        episode = episode_of(
            place, policy, task, limits=limits, approval=approval, listeners=listeners,
            steering=None if steer is None else steer(task.id),
        )  # fmt: skip
        try:
            trajectory = await episode.run()
        except asyncio.CancelledError:
            record(episode.end(Outcome.EXHAUSTED, "interrupted"))
            raise
        finally:
            await pool.release(place, broken=True)
        record(trajectory)
        return trajectory

    if out is None:
        return await play(lambda trajectory: None)
    manifest = describe_run("run", policy=policy.describe(), limits=limits.describe(), environment=environment)
    with RunWriter(out, manifest) as writer:
        if task.id in writer.finished:
            raise ConfigError(f"{out} holds a run already, and one task is not resumed; choose another folder")
        return await play(writer.append)
