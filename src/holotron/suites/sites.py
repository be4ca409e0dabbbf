"""The package's own web apps as a suite; they are `holotron.sites`.

    holotron eval sites --tasks short --policy holotron-mini          names of templates, of apps, of lengths
    holotron eval sites:heldout,phone --policy ...                    looks that nothing is trained on; phones only

What follows the name: `train` (the default) or `heldout` looks, and `laptop` or `phone` instead of both. An evaluation
of held-out seeds in training looks is `sites` with seeds from 200,000 on; of held-out looks, `sites:heldout`.
"""

from __future__ import annotations

from typing import Any, get_args

from holotron.agent.loop import Limits
from holotron.agent.policies.base import Policy
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.envs.chromium import browser_version
from holotron.envs.session import SessionOptions
from holotron.envs.web import display_of
from holotron.errors import ConfigError
from holotron.sites.tasks import Length, find_template, sites_tasks
from holotron.sites.variation import Split, Viewport
from holotron.suites.base import Suite, SuiteRequest, suites
from holotron.view import View

LIMITS: dict[Length, int] = {"short": 15, "medium": 30, "long": 60}  # steps, with room for detours
VIEW = View(scale=1.0, format="jpeg")


@suites.register("sites")
def sites(request: SuiteRequest) -> Suite:
    """Web apps with exact checkers: work over several pages, laptop and phone size, in a real browser.

    Needs: Chromium and playwright (extra `agent`); no network.
    Takes: holotron-mini makes 1 to 2 steps a second on two CPU cores: about 10 seconds an episode.
    """
    from holotron.sites.environment import SitesPool

    request.view.refuse(("width", "height", "crop"), "web apps are shown whole, at laptop or phone size")
    chosen = _options(request.argument)
    tasks = tuple(sites_tasks(request.tasks, request.seeds, **chosen))
    lengths = {find_template(task.name).length for task in tasks}
    view = request.view.over(VIEW)
    return Suite(
        name="sites",
        tasks=tasks,
        open=lambda sessions: SitesPool(sessions=sessions, options=SessionOptions(display=display_of(view))),
        limits=Limits(steps=max(LIMITS[length] for length in lengths), seconds=900.0),
        view=view,
        judge="the app's database",
        solver=_solver,
        held_out=chosen["split"] == "heldout",
        facts={**chosen, "browser": browser_version()},
    )


def _options(argument: str) -> dict[str, Any]:
    kinds = {"split": get_args(Split), "viewport": get_args(Viewport)}
    chosen: dict[str, Any] = {"split": "train"}
    for word in filter(None, argument.split(",")):
        kind = next((kind for kind, words in kinds.items() if word in words), None)
        if kind is None:
            known = ", ".join(word for words in kinds.values() for word in words)
            raise ConfigError(f"sites:{argument}: there is no {word!r}; write some of {known} behind the colon")
        chosen[kind] = word
    return chosen


def _solver() -> Policy:
    from holotron.sites.solver import SitesSolver

    return ScriptedPolicy(SitesSolver(), "sites-solver")
