"""Every template can be done, through a real browser, by the scripted solver, in as many steps as its length says."""

from __future__ import annotations

import pytest

from holotron.agent.loop import Episode, Limits
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.sites.environment import SitesPool
from holotron.sites.solver import SitesSolver
from holotron.sites.tasks import STEPS, find_template, sites_tasks, templates
from holotron.types import Outcome, Trajectory
from tests.sites.conftest import Run

pytestmark = pytest.mark.browser
NAMES = [template.name for template in templates()]
SEED = 11


async def play(pool: SitesPool, name: str, seed: int, split: str = "train") -> Trajectory:
    environment = await pool.acquire()
    try:
        (task,) = sites_tasks(name, [seed], split=split)  # type: ignore[arg-type]
        policy = ScriptedPolicy(SitesSolver(), "sites-solver")
        return await Episode(environment, policy, task, limits=Limits(steps=60)).run()
    finally:
        await pool.release(environment)


@pytest.mark.parametrize("name", NAMES)
def test_solver_does_it(pool: SitesPool, run: Run, name: str) -> None:
    split = "heldout" if NAMES.index(name) % 3 == 0 else "train"
    trajectory = run(play(pool, name, SEED, split))
    last = trajectory.steps[-1] if trajectory.steps else None
    assert trajectory.outcome is Outcome.SUCCESS, (trajectory.error, last and last.info)
    low, high = STEPS[find_template(name).length]
    # Scrolling and pop-ups come on top of what the length counts.
    assert low <= len(trajectory.steps) <= high + 6
