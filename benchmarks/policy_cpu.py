"""How many decisions per second a policy makes on this machine, browser time apart.

    python benchmarks/policy_cpu.py --policy holotron-mini --sessions 4
    python benchmarks/policy_cpu.py --policy runs/mine/model --flows data/flows  # of `data synth --episodes 1`
    python benchmarks/policy_cpu.py --policy runs/mine/model --run runs/apps     # of `rollout --suite sites`

First the first screens of all MiniWoB++ tasks are taken from real Chromium, which is then closed. Then `sessions` of
them at a time ask the policy: each begins an episode, is shown three screens one after the other, all new to the
engine, and gets three actions. A decision is a screenshot encoded and an action decoded, as in `holotron eval`.

With `--flows` or `--run` the screens are those of stored episodes, step after step, so that what stays the same from
one screen to the next costs what it costs in use; `--fresh` shows the first screen of each alone. CPU time per decision
is given too: on a machine with other work it says more than the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import time
from pathlib import Path

import torch
from PIL import Image

from holotron.agent.policies.base import Policy
from holotron.agent.policies.registry import PolicyRequest, local_profile, make_policy
from holotron.data.shards import iter_pages
from holotron.envs.miniwob import open_miniwob, task_names
from holotron.envs.registry import PoolRequest
from holotron.rollouts.store import RunReader
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


def flows(folder: Path, fresh: bool) -> list[tuple[Task, list[Observation]]]:
    """The screens of stored episodes."""
    found: list[tuple[Task, list[Observation]]] = []
    for page in iter_pages(folder):
        if page.step and fresh:
            continue
        file = io.BytesIO()
        Image.fromarray(page.image).save(file, "PNG", compress_level=1)
        height, width = page.image.shape[:2]
        viewport = (round(page.viewport[0]), round(page.viewport[1]))
        shot = Observation(file.getvalue(), "image/png", (width, height), viewport)
        if not page.step:
            found.append((Task("flows", page.id, goal=page.goal), []))
        found[-1][1].append(shot)
    return found


def recorded(run: Path, fresh: bool) -> list[tuple[Task, list[Observation]]]:
    """The screens of a run, whatever was done on them."""
    found = [(episode.task, [step.observation for step in episode.steps]) for episode in RunReader(run).trajectories()]
    return [(task, shots[:1] if fresh else shots) for task, shots in found]


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
    if arguments.flows is not None:
        episodes = flows(arguments.flows, arguments.fresh)
    elif arguments.run is not None:
        episodes = recorded(arguments.run, arguments.fresh)
    else:
        episodes = await screens(arguments.policy, range(200_000, 200_000 + TURNS))
    policy = await make_policy(PolicyRequest(arguments.policy))
    await play(policy, episodes[:4], arguments.sessions)  # compile and warm up; other screens than those that count
    before = time.process_time()
    decisions, seconds = await play(policy, episodes[4 : 4 + arguments.episodes], arguments.sessions)
    used = time.process_time() - before
    await policy.close()
    return {
        "policy": arguments.policy,
        "sessions": arguments.sessions,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "decisions": decisions,
        "decisions_per_second": round(decisions / seconds, 2),
        "cpu_seconds_per_decision": round(used / decisions, 3),
        "load_average": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="holotron-mini")
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--flows", type=Path, help="a folder of `holotron data synth --episodes 1`")
    parser.add_argument("--run", type=Path, help="a run directory")
    parser.add_argument("--fresh", action="store_true", help="only the first screen of each of them")
    parser.add_argument("--episodes", type=int, default=10_000, help="at most so many")
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
