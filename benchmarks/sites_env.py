"""Sites, measured: does the solver do everything, how fast do episodes run, and what do policies get that know nothing?

    python benchmarks/sites_env.py make --seeds 0:150                # can every episode be made? without a browser
    python benchmarks/sites_env.py solver --seeds 100:105            # every template, five seeds: must be 100 %
    python benchmarks/sites_env.py solver --seeds 100:105 --split heldout --viewport phone
    python benchmarks/sites_env.py solver --noise 0.3                # a third of the steps at random, then carry on
    python benchmarks/sites_env.py speed --sessions 16 --seconds 60  # environment steps per second, resets included
    python benchmarks/sites_env.py floors --seeds 100:110            # policies that know nothing

Seeds below 200,000 only: those from there on are for evaluation.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from _process_tree import busy_seconds, cpu_seconds, memory_gb

from holotron.sites.environment import SitesEnvironment, SitesPool, make_episode
from holotron.sites.solver import PageView, SitesSolver
from holotron.sites.solver.view import SCRIPT
from holotron.sites.tasks import STEPS, find_template, sites_tasks
from holotron.types import Action, Answer, Click, GoBack, Observation, PressKeys, Scroll, Task, Write

MOST_STEPS = {"short": 15, "medium": 30, "long": 60}
Act = Callable[[SitesEnvironment, Observation, int, random.Random], Awaitable[Action | None]]


async def solver(
    environment: SitesEnvironment, observation: Observation, step: int, dice: random.Random
) -> Action | None:
    return await SitesSolver()(environment, observation, step)


def anything(observation: Observation, dice: random.Random) -> Action:
    width, height = observation.viewport
    x, y = dice.random() * width, dice.random() * height
    choices: list[Action] = [Click(x, y)] * 4
    choices += [Scroll("down"), Scroll("up"), GoBack(), Write("hello", x, y), PressKeys(("Enter",))]
    return dice.choice(choices)


async def at_random(environment: SitesEnvironment, observation: Observation, step: int, dice: random.Random) -> Action:
    return anything(observation, dice)


async def goal_blind(environment: SitesEnvironment, observation: Observation, step: int, dice: random.Random) -> Action:
    """Uses what is on the page as somebody would who has not been told what for."""
    view = PageView(await environment.evaluate(SCRIPT), environment.episode)
    usable = [e for e in view.elements.values() if e.point is not None and not e.disabled]
    if not usable or dice.random() < 0.1:
        return Scroll(dice.choice(("down", "up")))
    chosen = dice.choice(usable)
    assert chosen.point is not None
    if chosen.name.startswith(("field:", "search", "quantity:")) and dice.random() < 0.5:
        return Write(dice.choice(("2", "lamp", "Anna Example", "12345")), *chosen.point)
    return Click(*chosen.point)


async def first_link(environment: SitesEnvironment, observation: Observation, step: int, dice: random.Random) -> Action:
    """The first thing in the page's content that can be clicked."""
    place = await environment.evaluate(
        "(() => { for (const e of document.querySelectorAll('main a, main button')) {"
        " const r = e.getBoundingClientRect();"
        " if (r.width && r.top >= 0 && r.bottom < innerHeight) return [r.left + r.width / 2, r.top + r.height / 2]; }"
        " return null; })()"
    )
    return Click(*place) if place else GoBack()


async def impossible(environment: SitesEnvironment, observation: Observation, step: int, dice: random.Random) -> Action:
    return Answer("impossible")


FLOORS: dict[str, Act] = {
    "random": at_random,
    "goal-blind": goal_blind,
    "first-link": first_link,
    "impossible": impossible,
}


async def play(environment: SitesEnvironment, task: Task, act: Act, noise: float = 0.0) -> dict[str, Any]:
    dice = random.Random(task.id)
    observation = await environment.reset(task)
    most = MOST_STEPS[find_template(task.name).length] * (2 if noise else 1)
    for step in range(most):
        action = await act(environment, observation, step, dice)
        if noise and step < most // 2 and dice.random() < noise:
            action = anything(observation, dice)
        if action is None:
            break
        result = await environment.step(action)
        observation = result.observation
        if result.done:
            return {"steps": step + 1, "success": bool(result.success), **result.info}
    return {"steps": most, "success": False, "reason": "out of steps", "partial": environment.episode.verdict().partial}


async def play_all(tasks: list[Task], act: Act, sessions: int, noise: float = 0.0) -> dict[str, list[dict[str, Any]]]:
    pool, results = SitesPool(sessions=sessions), defaultdict(list)
    queue = list(reversed(tasks))

    async def worker() -> None:
        environment = await pool.acquire()
        while queue:
            task = queue.pop()
            result = await play(environment, task, act, noise)
            results[task.name].append({"seed": task.seed, **result})
        await pool.release(environment)

    await asyncio.gather(*(worker() for _ in range(sessions)))
    await pool.close()
    return results


def show(results: dict[str, list[dict[str, Any]]]) -> None:
    for name, played in sorted(results.items()):
        won = sum(one["success"] for one in played)
        steps = sorted(one["steps"] for one in played)
        low, high = STEPS[find_template(name).length]
        print(f"{name:24} {won:3}/{len(played):<3} steps {steps[0]}-{steps[-1]} (class {low}-{high})")
        for one in played:
            if not one["success"]:
                print(f"    seed {one['seed']}: {one['reason']}")


async def speed(arguments: argparse.Namespace) -> dict[str, Any]:
    pool = SitesPool(sessions=arguments.sessions, browsers=arguments.browsers)
    counts, took = Counter(), []
    names = ["short", "medium", "long"]
    end = 0.0

    async def worker(index: int) -> None:
        environment, seed = await pool.acquire(), 1000 * index
        while time.monotonic() < end:
            for task in sites_tasks(names[(index + seed) % 3], [seed], viewport="laptop"):
                observation = await environment.reset(task)
                counts["resets"] += 1
                for step in range(60):
                    if time.monotonic() >= end:
                        return
                    action = await SitesSolver()(environment, observation, step)
                    if action is None:
                        break
                    began = time.monotonic()
                    result = await environment.step(action)
                    took.append(time.monotonic() - began)
                    observation = result.observation
                    if result.done:
                        break
            seed += 1

    warm = await pool.acquire()
    await warm.reset(sites_tasks("short", [0])[0])
    await pool.release(warm)
    cpu, machine, began = cpu_seconds(), busy_seconds(), time.monotonic()
    end = began + arguments.seconds
    await asyncio.gather(*(worker(index) for index in range(arguments.sessions)))
    seconds, used, all_used = time.monotonic() - began, cpu_seconds() - cpu, busy_seconds() - machine
    memory = memory_gb()
    await pool.close()
    took.sort()
    return {
        "sessions": arguments.sessions,
        "steps_per_second": round(len(took) / seconds, 1),
        "step_p50_ms": round(1000 * took[len(took) // 2]),
        "step_p95_ms": round(1000 * took[int(len(took) * 0.95)]),
        "resets": counts["resets"],
        "cores_used": round(used / seconds, 2),
        "cores_used_by_others": round((all_used - used) / seconds, 2),  # should be near 0, or the rate is too low
        "memory_gb": round(memory, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "solver", "speed", "floors"))
    parser.add_argument("--tasks", default="all")
    parser.add_argument("--seeds", default="100:105")
    parser.add_argument("--split", default="train")
    parser.add_argument("--viewport")
    parser.add_argument("--policies", default=",".join(FLOORS), help="of the floors")
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--sessions", type=int, default=16)
    parser.add_argument("--browsers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    if arguments.what == "speed":
        print(json.dumps(asyncio.run(speed(arguments)), indent=2))
        return
    first, last = map(int, arguments.seeds.split(":"))
    tasks = sites_tasks(arguments.tasks, range(first, last), split=arguments.split, viewport=arguments.viewport)
    if arguments.what == "make":
        for task in tasks:
            make_episode(task).close()
        print(f"{len(tasks)} episodes made")
        return
    if arguments.what == "solver":
        show(asyncio.run(play_all(tasks, solver, arguments.sessions, arguments.noise)))
        return
    for name in arguments.policies.split(","):
        results = asyncio.run(play_all(tasks, FLOORS[name], arguments.sessions))
        won = [one["success"] for played in results.values() for one in played]
        where = {
            task: f"{sum(o['success'] for o in p)}/{len(p)}"
            for task, p in results.items()
            if any(o["success"] for o in p)
        }
        print(f"{name:12} {sum(won)}/{len(won)} = {sum(won) / len(won):.1%}  {where}")


if __name__ == "__main__":
    main()
