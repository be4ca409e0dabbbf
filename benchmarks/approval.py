"""What asking costs: the scripted solver on the web apps, with requests held and without, in turns.

    python benchmarks/approval.py --tasks 4

Prints steps, success and seconds a step for both, the questions that were asked, and how many of them were about
something that changes nothing (no POST, no password, no box of the browser).
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter

from holotron.agent.approval import Approval
from holotron.agent.loop import Episode, Limits
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.envs.effects.question import ALLOW_ONCE, Decision, Kind, Question
from holotron.envs.effects.rules import Rules
from holotron.envs.session import SessionOptions
from holotron.sites.environment import SitesPool
from holotron.sites.solver import SitesSolver
from holotron.sites.tasks import app_names, sites_tasks
from holotron.types import Outcome, Task


async def play(pool: SitesPool, task: Task, approval: Approval | None) -> tuple[int, bool, float]:
    environment = await pool.acquire()
    began = time.monotonic()
    policy = ScriptedPolicy(SitesSolver(), "sites-solver")
    played = await Episode(environment, policy, task, limits=Limits(steps=90), approval=approval).run()
    await pool.release(environment)
    return len(played.steps), played.outcome is Outcome.SUCCESS, time.monotonic() - began


async def main(count: int, seed: int) -> None:
    questions: list[Question] = []

    async def yes(question: Question) -> Decision:
        questions.append(question)
        return ALLOW_ONCE

    free, held = SitesPool(sessions=1), SitesPool(sessions=1, options=SessionOptions(rules=Rules()))
    totals: dict[str, list[float]] = {"free": [0, 0, 0], "held": [0, 0, 0]}
    tasks = [task for app in app_names() for task in sites_tasks(app, [seed])[:count]]
    for task in tasks:
        for name, pool, approval in (("free", free, None), ("held", held, Approval("critical", yes))):
            for place, value in enumerate(await play(pool, task, approval)):
                totals[name][place] += value
    await free.close()
    await held.close()
    for name, (steps, done, seconds) in totals.items():
        print(f"{name}: {done:.0f} of {len(tasks)} tasks, {steps:.0f} steps, {1000 * seconds / steps:.0f} ms a step")
    nags = [one for one in questions if one.method != "POST" and one.kind not in (Kind.FIELD, Kind.DIALOG)]
    print(
        f"questions: {len(questions)}, of which about nothing: {len(nags)}",
        dict(Counter(str(q.kind) for q in questions)),
    )
    for nag in nags:
        print("  ", nag.summary, nag.address)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=4, help="of each app")
    parser.add_argument("--seed", type=int, default=5)
    asked = parser.parse_args()
    asyncio.run(main(asked.tasks, asked.seed))
