"""How many decisions per second a policy makes on this machine, browser time apart.

    python benchmarks/policy_cpu.py --policy holotron-mini --sessions 4

First the first screens of all MiniWoB++ tasks are taken from real Chromium, which is then closed. Then `sessions` of
them at a time ask the policy: each begins an episode, is shown three screens one after the other, all new to the
engine, and gets three actions. A decision is a screenshot encoded and an action decoded, as in `holotron eval`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time

import torch

from holotron.agent.policies.base import Policy
from holotron.agent.policies.registry import PolicyRequest, local_profile, make_policy
from holotron.envs.miniwob import open_miniwob, task_names
from holotron.envs.registry import PoolRequest
from holotron.types import Observation, Task

TURNS = 3


async def screens(policy: str, seeds: range) -> list[tuple[Task, list[Observation]]]:
    pool = open_miniwob(PoolRequest(1, local_profile(policy).views["miniwob"]))
    environment = await pool.acquire()
    found = []
    for name in task_names():
        shots = [await environment.reset(Task("miniwob", name, seed=seed)) for seed in seeds]
        found.append((environment.task, shots))
    await pool.close()
    return found


async def play(policy: Policy, episodes: list[tuple[Task, list[Observation]]], sessions: int) -> tuple[int, float]:
    waiting = iter(episodes)
    decisions = 0

    async def work() -> None:
        nonlocal decisions
        for task, shots in waiting:  # shared: each takes the next
            session = await policy.start(task)
            for shot in shots:
                await session.act(shot)
                decisions += 1
            await session.close()

    began = time.monotonic()
    await asyncio.gather(*(work() for _ in range(sessions)))
    return decisions, time.monotonic() - began


async def measure(arguments: argparse.Namespace) -> dict[str, object]:
    episodes = await screens(arguments.policy, range(200_000, 200_000 + TURNS))
    policy = await make_policy(PolicyRequest(arguments.policy))
    await play(policy, episodes[:4], arguments.sessions)  # compile and warm up; other screens than those that count
    decisions, seconds = await play(policy, episodes[4:], arguments.sessions)
    await policy.close()
    return {
        "policy": arguments.policy,
        "sessions": arguments.sessions,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "decisions": decisions,
        "decisions_per_second": round(decisions / seconds, 2),
        "load_average": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="holotron-mini")
    parser.add_argument("--sessions", type=int, default=4)
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
