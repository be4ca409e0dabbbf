"""Trac, an issue tracker with a wiki that others wrote, as a transfer set: nothing is ever trained on it.

    holotron eval trac --policy holotron-mini                  all tasks; names with commas after --tasks
    holotron eval trac:phone --tasks close,wiki-edit --policy ...

Trac is installed into an environment of its own on first use (from the package index, a minute or two). Every episode
has a fresh copy of its database, and success is read off that database. There is no scripted solver.
"""

from __future__ import annotations

from holotron.agent.loop import Limits
from holotron.envs.chromium import browser_version
from holotron.envs.session import SessionOptions
from holotron.envs.web import display_of
from holotron.errors import ConfigError
from holotron.sites.transfer.trac_tasks import TASKS
from holotron.sites.variation import SIZES
from holotron.suites.base import Suite, SuiteRequest, suites
from holotron.suites.sites import VIEW
from holotron.types import Task

STEPS = 30  # the longest way that was needed is twelve


@suites.register("trac")
def trac(request: SuiteRequest) -> Suite:
    """A real issue tracker by others, checked by its database; for measuring transfer, never for training.

    Needs: as sites, and the package index on first use: Trac is installed into an environment of its own.
    Takes: one or two minutes for the first use; then as sites.
    """
    from holotron.sites.environment import SitesPool
    from holotron.sites.transfer.trac import TracServer, facts, make_trac_episode

    request.view.refuse(("width", "height", "crop"), "Trac is shown whole, at laptop or phone size")
    viewport = request.argument or "laptop"
    if viewport not in SIZES:
        raise ConfigError(f"trac:{viewport}: there is no such size; write one of {', '.join(SIZES)} behind the colon")
    names = request.choose([task.name for task in TASKS])
    view = request.view.over(VIEW)
    return Suite(
        name="trac",
        tasks=tuple(
            Task("trac", name, seed=seed, options={"viewport": viewport}) for name in names for seed in request.seeds
        ),
        open=lambda sessions: SitesPool(
            sessions=sessions,
            options=SessionOptions(display=display_of(view)),
            server=TracServer(),
            make=make_trac_episode,
        ),
        limits=Limits(steps=STEPS, seconds=900.0),
        view=view,
        judge="the app's database",
        facts={"viewport": viewport, "browser": browser_version(), **facts()},
    )
