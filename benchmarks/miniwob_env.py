"""How many MiniWoB++ environment steps per second this machine gives, screenshots included.

    python benchmarks/miniwob_env.py --sessions 16 --scale 3 --seconds 30

Every session plays episodes of its share of the tasks with clicks on what is there, as fast as it can: no policy, so
this is the ceiling for rollouts. Resets are part of the time, but only steps are counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time

from _process_tree import cpu_seconds, memory_gb

from holotron.envs.miniwob import MiniWobEnvironment, MiniWobPool, task_names
from holotron.types import Click, Task

EPISODE = 10  # steps at most
EPISODES_PER_TASK = 8  # a rollout runs a task for several seeds in a row


async def play(environment: MiniWobEnvironment, names: list[str], end: float, steps: list[float]) -> int:
    resets = 0
    while True:
        for name in names:
            for _ in range(EPISODES_PER_TASK):
                resets += 1
                rng = random.Random(resets)
                await environment.reset(Task("miniwob", name, seed=resets))
                for _ in range(EPISODE):
                    if time.monotonic() > end:
                        return resets
                    began = time.monotonic()
                    result = await environment.step(Click(rng.uniform(0, 160), rng.uniform(50, 210)))
                    steps.append(time.monotonic() - began)
                    if result.done:
                        break


async def measure(arguments: argparse.Namespace) -> dict[str, float | int]:
    pool = MiniWobPool(
        sessions=arguments.sessions,
        browsers=arguments.browsers,
        scale=arguments.scale,
        crop=arguments.crop,
        format=arguments.format,
    )
    names = task_names()
    random.Random(0).shuffle(names)
    environments = [await pool.acquire() for _ in range(arguments.sessions)]
    await asyncio.gather(*(e.reset(Task("miniwob", "click-test", seed=0)) for e in environments))
    cpu, began, steps = cpu_seconds(), time.monotonic(), []
    end = began + arguments.seconds
    shares = (names[index :: arguments.sessions] for index in range(arguments.sessions))
    resets = await asyncio.gather(*(play(e, share, end, steps) for e, share in zip(environments, shares, strict=True)))
    seconds = time.monotonic() - began
    cpu = cpu_seconds() - cpu
    result = {
        "sessions": arguments.sessions,
        "scale": arguments.scale,
        "steps_per_second": round(len(steps) / seconds, 1),
        "resets_per_second": round(sum(resets) / seconds, 1),
        "step_p50_ms": round(1000 * statistics.median(steps), 1),
        "step_p95_ms": round(1000 * statistics.quantiles(steps, n=20)[-1], 1),
        "cores_busy": round(cpu / seconds, 2),
        "cpu_ms_per_step": round(1000 * cpu / len(steps), 1),
        "memory_gb": round(memory_gb(), 2),
    }
    await pool.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=16)
    parser.add_argument("--browsers", type=int, default=2)
    parser.add_argument("--scale", type=float, default=3)
    parser.add_argument("--format", choices=["jpeg", "png"], default="jpeg")
    parser.add_argument("--crop", action="store_true", help="observe the 160x160 below the instruction bar")
    parser.add_argument("--seconds", type=float, default=30)
    print(json.dumps(asyncio.run(measure(parser.parse_args())), indent=2))


if __name__ == "__main__":
    main()
