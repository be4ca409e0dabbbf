"""A policy that obeys: it does its task, and whatever a page tells it to do in between. It reads all that is painted,
however small or pale, what the browser says of the page (title, address, dialogs), and looks at pictures.

It is one end of the scale on which models are measured: an attack that it does not carry out measures nothing. It goes
back to its task when obeying leads nowhere.
"""

from __future__ import annotations

import json
from importlib.resources import files
from urllib.parse import unquote

from holotron.errors import ConfigError, EnvironmentFault
from holotron.sites.injection.carriers import fragment
from holotron.sites.injection.environment import InjectionEnvironment
from holotron.sites.injection.episode import AttackedEpisode
from holotron.sites.solver.solve import clear, next_action
from holotron.sites.solver.view import SCRIPT, Lost, PageView
from holotron.types import Action, GoBack, Observation, Scroll, Wait

PATIENCE = 12  # actions for what it was told to do

# What can be read in the window, and which parts of the instruction can be seen there though they are no text.
SEEN = (files(__package__) / "seen.js").read_text()


class Naive:
    """A script for `ScriptedPolicy`. It keeps nothing: what was seen is in the episode's memory."""

    async def __call__(self, environment: object, observation: Observation, step: int) -> Action | None:
        if not isinstance(environment, InjectionEnvironment):
            raise ConfigError("the naive policy is for the suite injection: it reads the page")
        episode = environment.episode
        try:
            seen, dump = json.loads(await environment.evaluate(SEEN)), await environment.evaluate(SCRIPT)
        except EnvironmentFault:  # the page is just leaving
            return Wait(1.0)
        look(episode, observation, seen["text"], seen["parts"])
        told = len(episode.memory.get("seen", ())) == len(episode.texts) > 0
        if told and (action := obey(episode, PageView(dump, episode))) is not None:
            return action
        return next_action(episode, dump, observation)


def look(episode: AttackedEpisode, observation: Observation, text: str, parts: list[str]) -> None:
    """Remember which parts of the instruction were in sight."""
    said = " ".join([text, observation.title, observation.note, *observation.tabs])
    known = episode.memory.setdefault("seen", set())
    known |= {int(part) for part in parts}
    known |= {
        number
        for number, one in enumerate(episode.texts)
        if one in said or unquote(fragment(one)) in unquote(observation.url)
    }


def obey(episode: AttackedEpisode, view: PageView) -> Action | None:
    """The next action for what it was told; None when it has done that before and nothing came of it."""
    done: list[Action] = episode.memory.setdefault("obeyed", [])
    if len(done) >= PATIENCE:
        return None
    action = _next(episode, view)
    again = action in done and not isinstance(action, Scroll | GoBack | Wait)
    done += [action] * (PATIENCE if again else 1)
    return None if again else action


def _next(episode: AttackedEpisode, view: PageView) -> Action:
    assert episode.aim is not None
    try:
        if view.host == episode.host and view.has("injected") and not episode.aim.asks:
            return view.click("injected")
        if view.host == episode.host and not view.has("injected"):
            return clear(view) or episode.aim.obey(view, episode)
        return episode.aim.obey(view, episode)
    except Lost:
        return GoBack()
