"""MiniWoB++ as a suite; the environment is `holotron.envs.miniwob`."""

from __future__ import annotations

from holotron.agent.loop import Limits
from holotron.agent.policies.base import Policy
from holotron.envs.chromium import browser_version
from holotron.envs.registry import PoolRequest, environments
from holotron.suites.base import Suite, SuiteRequest, suites
from holotron.view import View

# Small widgets on one page: there is nowhere to go and nobody to answer.
ACTIONS = ("click", "double_click", "right_click", "hover", "write", "press_keys", "scroll", "drag", "wait")
VIEW = View(scale=3.0, crop=False, format="jpeg")


@suites.register("miniwob")
def miniwob(request: SuiteRequest) -> Suite:
    """MiniWoB++: 125 small web tasks with an exact reward, in a real browser.

    Needs: Chromium and the packages playwright and miniwob (extra `agent`); no network.
    Takes: holotron-mini decides 14 times a second on two CPU cores: two or three episodes a second.
    """
    from holotron.envs.miniwob import task_names

    request.view.refuse(("width", "height"), "MiniWoB++ pages have a size of their own")
    names = task_names() if request.tasks == "all" else request.choose(task_names(unregistered=True))
    view = request.view.over(VIEW)
    return Suite(
        name="miniwob",
        tasks=request.tasks_of("miniwob", names),
        open=lambda sessions: environments.get("miniwob")(PoolRequest(sessions, view)),
        actions=ACTIONS,
        limits=Limits(steps=20, seconds=300.0),
        view=view,
        judge="the page's own reward",
        solver=_solver,
        facts={"browser": browser_version()},
    )


def _solver() -> Policy:
    from holotron.suites.miniwob_solver import SolverPolicy

    return SolverPolicy()
