"""Real web applications by others as transfer sets: an issue tracker (Trac) and a shop (django-oscar).

    holotron eval trac --policy holotron-mini                  all tasks; names or lengths with commas after --tasks
    holotron eval oscar:phone --tasks buy,stock --policy ...

Each is installed into an environment of its own on first use (from the package index, a minute or two). Every episode
has a fresh copy of its database, and success is read off that database. Nothing is ever trained on them: the suites are
marked `held_out`, and whatever makes training data refuses them. There is no scripted solver.
"""

from __future__ import annotations

from functools import partial
from typing import get_args

from holotron.agent.loop import Limits
from holotron.envs.chromium import browser_version
from holotron.envs.session import SessionOptions
from holotron.envs.web import display_of
from holotron.errors import ConfigError
from holotron.sites.tasks import Length
from holotron.sites.transfer import find_application
from holotron.sites.variation import SIZES
from holotron.suites.base import Suite, SuiteRequest, suites
from holotron.suites.sites import LIMITS, VIEW
from holotron.types import Task


@suites.register("trac")
def trac(request: SuiteRequest) -> Suite:
    """A real issue tracker by others, checked by its database; for measuring transfer, never for training.

    Needs: as sites, and the package index on first use: Trac is installed into an environment of its own.
    Takes: one or two minutes for the first use; then as sites.
    """
    return transfer_suite("trac", request)


@suites.register("oscar")
def oscar(request: SuiteRequest) -> Suite:
    """A real web shop by others, checked by its database; for measuring transfer, never for training.

    Needs: as sites, and the package index on first use: django-oscar is installed into an environment of its own.
    Takes: one or two minutes for the first use; then as sites.
    """
    return transfer_suite("oscar", request)


def transfer_suite(name: str, request: SuiteRequest) -> Suite:
    from holotron.sites.environment import SitesPool
    from holotron.sites.transfer.application import HostServer, make_transfer_episode

    app = find_application(name)
    request.view.refuse(("width", "height", "crop"), f"{app.title} is shown whole, at laptop or phone size")
    viewport = request.argument or "laptop"
    if viewport not in SIZES:
        raise ConfigError(f"{name}:{viewport}: there is no such size; write one of {', '.join(SIZES)} behind the colon")
    by_length = {length: [task.name for task in app.tasks if task.length == length] for length in get_args(Length)}
    asked = request.tasks.split(",") if isinstance(request.tasks, str) else list(request.tasks)
    chosen = [task for word in asked for task in (app.tasks.names if word == "all" else by_length.get(word, [word]))]
    tasks = [app.tasks.find(task) for task in dict.fromkeys(chosen)]
    view = request.view.over(VIEW)
    return Suite(
        name=name,
        tasks=tuple(
            Task(name, task.name, seed=seed, options={"viewport": viewport}) for task in tasks for seed in request.seeds
        ),
        open=lambda sessions: SitesPool(
            sessions=sessions,
            options=SessionOptions(display=display_of(view)),
            server=HostServer(app),
            make=partial(make_transfer_episode, app),
        ),
        limits=Limits(steps=max((LIMITS[task.length] for task in tasks), default=1), seconds=900.0),
        view=view,
        held_out=True,
        judge="the app's database",
        facts={"viewport": viewport, "browser": browser_version(), **app.facts()},
    )
