"""A rollout in a process of its own, to be killed: `python -m tests.rollouts.killable DIR EPISODES`.

Prints the id of each episode once it is on record.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.rollouts.runner import RolloutSettings, rollout
from holotron.types import Action, Observation, Task, Trajectory
from tests.agent.toy import ButtonEnvironment, ButtonPool, press_target


async def slowly(environment: ButtonEnvironment, observation: Observation, step: int) -> Action:
    await asyncio.sleep(0.01)
    return press_target(environment, observation, step)


async def main(out: Path, episodes: int) -> None:
    tasks = [Task("buttons", "press", seed=seed, options={"presses": 3}) for seed in range(episodes)]

    def tell(trajectory: Trajectory) -> None:
        print(trajectory.id, flush=True)

    settings = RolloutSettings(sessions=4)
    await rollout(tasks, ScriptedPolicy(slowly), ButtonPool(), out, settings=settings, on_episode=tell)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
