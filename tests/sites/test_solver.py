"""Every template can be done, through a real browser, by the scripted solver, in as many steps as its length says."""

from __future__ import annotations

import asyncio
import random

import pytest

from holotron.agent.loop import Episode, Limits
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.envs.base import Environment
from holotron.sites.environment import SitesPool
from holotron.sites.solver import SitesSolver
from holotron.sites.tasks import STEPS, app_names, find_template, sites_tasks
from holotron.types import Action, Click, GoBack, Observation, Outcome, Scroll, Task, Trajectory, Write
from tests.sites.conftest import Run

pytestmark = pytest.mark.browser
SEED = 11


async def play(pool: SitesPool, task: Task, policy: ScriptedPolicy) -> Trajectory:
    environment = await pool.acquire()
    try:
        return await Episode(environment, policy, task, limits=Limits(steps=90)).run()
    finally:
        await pool.release(environment)


@pytest.mark.parametrize("app", app_names())
def test_solver_does_every_task(pool: SitesPool, run: Run, app: str) -> None:
    """A third of them in looks that nothing is trained on."""
    names = [task.name for task in sites_tasks(app)]
    tasks = [*sites_tasks(names[::3], [SEED], split="heldout")]
    tasks += sites_tasks(names[1::3], [SEED]) + sites_tasks(names[2::3], [SEED])
    policy = ScriptedPolicy(SitesSolver(), "sites-solver")

    async def go() -> list[Trajectory]:
        return await asyncio.gather(*(play(pool, task, policy) for task in tasks))

    failed = []
    for trajectory in run(go()):
        low, high = STEPS[find_template(trajectory.task.name).length]
        steps = len(trajectory.steps)
        # Scrolling and pop-ups may come on top of what the length counts.
        if trajectory.outcome is not Outcome.SUCCESS or not low <= steps <= high + 4:
            info = trajectory.steps[-1].info if trajectory.steps else {}
            failed.append((trajectory.task.id, trajectory.outcome, steps, trajectory.error, info.get("reason")))
    assert not failed


@pytest.mark.parametrize("name", ["shop-wish", "shop-coupon", "shop-filter"])
def test_solver_carries_on_from_where_a_learner_has_got_to(pool: SitesPool, run: Run, name: str) -> None:
    """A third of the actions are somebody else's: clicks anywhere, typing, going back. The rest are the solver's."""
    solver, dice = SitesSolver(), random.Random(name)

    async def distracted(environment: Environment, observation: Observation, step: int) -> Action | None:
        action = await solver(environment, observation, step)
        if step >= 20 or dice.random() > 0.35:
            return action
        width, height = observation.viewport
        x, y = dice.random() * width, dice.random() * height
        return dice.choice((Click(x, y), Click(x, y), Write("abc", x, y / 4), Scroll("down"), GoBack()))

    (task,) = sites_tasks(name, [SEED])
    trajectory = run(play(pool, task, ScriptedPolicy(distracted, "distracted")))
    assert trajectory.outcome is Outcome.SUCCESS, (trajectory.error, trajectory.steps[-1].info)
