"""The solver's next action on whatever page is open.

    SitesSolver()(environment, observation, step)     # a script for `agent.policies.scripted.ScriptedPolicy`

so that `ScriptedPolicy(SitesSolver(), "sites-solver")` is a policy, and the teacher of `LabelledPolicy`.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from typing import Protocol

from holotron.envs.base import Environment
from holotron.errors import ConfigError, EnvironmentFault
from holotron.sites.episode import SiteEpisode
from holotron.sites.solver.view import SCRIPT, Lost, PageView
from holotron.types import Action, Answer, CloseTab, GoBack, Observation, Wait

FIND = (files(__package__) / "find.js").read_text()
SLOW_PAGE = 2.5  # seconds; a little more than such a page takes


class SolvedEnvironment(Protocol):
    """What the solver needs besides the page: the episode with its facts, and a way to look behind the pixels."""

    @property
    def episode(self) -> SiteEpisode: ...

    async def evaluate(self, expression: str) -> str: ...


class SitesSolver:
    """Keeps nothing: what has to be remembered is in the episode."""

    async def __call__(self, environment: Environment | None, observation: Observation, step: int) -> Action | None:
        if environment is None:
            raise ConfigError("the scripted solver reads the page: it cannot answer about a picture alone")
        site: SolvedEnvironment = environment  # type: ignore[assignment]
        try:
            dump = await site.evaluate(SCRIPT)
        except EnvironmentFault:  # the page is just leaving
            return Wait(1.0)
        action = next_action(site.episode, dump, observation)
        if isinstance(action, Answer) and action.x is not None and action.y is not None:
            with suppress(EnvironmentFault):
                asked = json.dumps([action.x, action.y, action.content])
                if spot := json.loads(await site.evaluate(FIND.replace("ASKED", asked))):
                    return replace(action, x=spot[0], y=spot[1])
        return action


def next_action(episode: SiteEpisode, dump: str, observation: Observation) -> Action | None:
    view = PageView(dump, episode)
    if view.host != episode.host:  # an empty tab, or one that a learner has opened
        return CloseTab() if observation.tabs else GoBack()
    try:
        return clear(view) or episode.template.plan(view)
    except Lost:
        return _home(view)


def clear(view: PageView) -> Action | None:
    """What comes before everything else: pop-ups, waiting, signing in, wrong turns."""
    if view.has("close"):
        return view.click("close")
    if view.has("cookies"):
        return view.click("cookies")
    if view.page == "loading":
        return Wait(SLOW_PAGE)
    if view.page == "not-found":
        return view.click("home")
    if view.page == "sign-in":
        login = view.facts.get("login")
        if login is None:
            return view.click("brand")
        return (
            view.fill("field:email", login["email"])
            or view.fill("field:password", login["password"])
            or view.click("sign-in")
        )
    return None


def _home(view: PageView) -> Action | None:
    try:
        return view.click("brand")
    except Lost:
        return GoBack()
