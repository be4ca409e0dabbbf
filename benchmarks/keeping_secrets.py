"""What keeping secrets costs: the scripted solver on the web apps, without a secret and with one, in turns.

    python benchmarks/keeping_secrets.py --tasks 4

Prints steps, success and milliseconds a step for both and their ratio, how much of the pictures was blanked, and what a
look at the page costs where it is large.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import statistics
import time
from typing import Any

import numpy as np
from PIL import Image

from holotron.agent.loop import Episode, Limits
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.envs.secrets import Secret
from holotron.envs.session import SessionOptions
from holotron.envs.tab import Display
from holotron.sites.environment import SitesPool
from holotron.sites.solver import SitesSolver
from holotron.sites.tasks import app_names, sites_tasks
from holotron.types import Observation, Outcome, Task

SECRETS = (Secret("password", "Kq7-meadow!Fern42", hosts=("127.0.0.1",), fields=("any",)),)


async def play(pool: SitesPool, task: Task, policy: ScriptedPolicy) -> tuple[int, bool, float]:
    environment = await pool.acquire()
    played = await Episode(environment, policy, task, limits=Limits(steps=90)).run()
    await pool.release(environment)
    acting = sum(step.environment_seconds for step in played.steps)
    return len(played.steps), played.outcome is Outcome.SUCCESS, acting


async def speed(tasks: list[Task]) -> None:
    pools = {"without": SitesPool(sessions=1), "with": SitesPool(sessions=1, options=SessionOptions(secrets=SECRETS))}
    policy = ScriptedPolicy(SitesSolver(), "sites-solver")
    totals: dict[str, list[float]] = {name: [0, 0, 0] for name in pools}
    for task in tasks:
        for name, pool in pools.items():
            for place, value in enumerate(await play(pool, task, policy)):
                totals[name][place] += value
    for pool in pools.values():
        await pool.close()
    cost = {name: 1000 * seconds / steps for name, (steps, _, seconds) in totals.items()}
    for name, (steps, done, _) in totals.items():
        print(f"{name} a secret: {done:.0f} of {len(tasks)} tasks, {steps:.0f} steps, {cost[name]:.0f} ms a step")
    print(f"ratio: {cost['with'] / cost['without']:.3f}")


async def blanked(tasks: list[Task]) -> None:
    shares: list[float] = []
    solver = SitesSolver()

    async def look(environment: Any, seen: Observation, step: int) -> Any:
        bare = await environment._web._open_session.tab.screenshot(format="png")
        pictures = [np.asarray(Image.open(io.BytesIO(one)).convert("RGB"), dtype=int) for one in (bare, seen.image)]
        shares.append(float((pictures[0] != pictures[1]).any(axis=2).mean()))
        return await solver(environment, seen, step)

    pool = SitesPool(sessions=1, options=SessionOptions(secrets=SECRETS, display=Display(format="png")))
    for task in tasks:
        await play(pool, task, ScriptedPolicy(look))
    await pool.close()
    mean, most = 100 * statistics.mean(shares), 100 * max(shares)
    print(f"blanked: {mean:.3f} % of pixels over {len(shares)} pictures, at most {most:.1f} %")


async def large() -> None:
    """A page of many elements, looked at with and without."""
    for elements in (100, 1000, 5000):
        for name, secrets in (("without", ()), ("with", SECRETS)):
            pool = SitesPool(sessions=1, options=SessionOptions(secrets=secrets))
            environment = await pool.acquire()
            await environment.reset(sites_tasks(app_names()[0], [5])[0])
            rows = f"Array.from({{length: {elements}}}, (_, n) => `<p>Row <b>${{n}}</b>`)"
            await environment.evaluate(f"document.body.innerHTML = {rows}.join('')")
            seconds = []
            for _ in range(10):
                began = time.perf_counter()
                await environment.observe()
                seconds.append(time.perf_counter() - began)
            await pool.close()
            print(f"{elements} rows, {name}: {1000 * statistics.median(seconds):.0f} ms a look")


async def main(count: int, seed: int) -> None:
    tasks = [task for app in app_names() for task in sites_tasks(app, [seed])[:count]]
    await speed(tasks)
    await blanked(tasks)
    await large()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=4, help="of each app")
    parser.add_argument("--seed", type=int, default=5)
    asked = parser.parse_args()
    asyncio.run(main(asked.tasks, asked.seed))
