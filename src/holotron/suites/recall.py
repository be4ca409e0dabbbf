"""Recall over long sessions: a word is shown once, k steps of navigation follow, then it has to be entered.

    holotron eval recall --policy holotron-mini                            distances 1, 2, 4, 8, 16, 32
    holotron eval recall:heldout --tasks 8,16 --policy ...                 looks that nothing is trained on
    holotron eval recall --policy holotron.suites.recall:forgetful         what a policy without memory gets

The tasks are those of the app `rounds` (`holotron.sites.apps.rounds`): every stop shows a word of its own, the stops
cannot be skipped, and nothing goes back, so the word is either remembered or guessed. There are sixteen words: guessing
gets 6.25 %. The report draws success over distance with 95 % intervals.
"""

from __future__ import annotations

from dataclasses import replace

from holotron.agent.policies.base import Policy
from holotron.agent.policies.registry import PolicyRequest
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.envs.base import Environment
from holotron.errors import ConfigError
from holotron.sites.apps.rounds.app import PASS_WORDS
from holotron.sites.apps.rounds.tasks import DISTANCES, template_name
from holotron.suites.base import Suite, SuiteRequest, suites
from holotron.suites.sites import sites
from holotron.types import Action, Observation, Write

SPARE_STEPS = 8  # beyond the shortest way, for a wrong turn or a slip


@suites.register("recall")
def recall(request: SuiteRequest) -> Suite:
    """A word seen k steps ago must be entered: success by distance, on web pages in a real browser.

    Needs: as sites.
    Takes: an episode has k + 2 steps, each as one of sites.
    """
    distances = sorted(_distances(request))
    made = sites(replace(request, tasks=[template_name(distance) for distance in distances]))
    steps = distances[-1] + 2 + SPARE_STEPS
    curve = {
        "of": "distance in steps",
        "at": {template_name(distance): distance for distance in distances},
        "chance": 1 / len(PASS_WORDS),
    }
    return replace(made.limited(steps=steps), name="recall", facts={**made.facts, "curve": curve})


def _distances(request: SuiteRequest) -> set[int]:
    if request.tasks == "all":
        return set(DISTANCES)
    asked = request.tasks.split(",") if isinstance(request.tasks, str) else request.tasks
    known = {str(distance): distance for distance in DISTANCES}
    known |= {template_name(distance): distance for distance in DISTANCES}
    for name in asked:
        if name.strip() not in known:
            raise ConfigError(
                f"recall has no distance {name!r}; there are {', '.join(map(str, DISTANCES))} (steps, with commas)"
            )
    return {known[name.strip()] for name in asked}


def forgetful(request: PolicyRequest) -> Policy:
    """The scripted solver without a memory: it does everything right from the page it sees, and guesses the word."""
    from holotron.sites.environment import SitesEnvironment
    from holotron.sites.solver import PageView, SitesSolver
    from holotron.sites.solver.view import SCRIPT
    from holotron.sites.variation import generator

    solver = SitesSolver()

    async def act(environment: Environment | None, observation: Observation, step: int) -> Action | None:
        action = await solver(environment, observation, step)
        if isinstance(action, Write) and isinstance(environment, SitesEnvironment):
            episode = environment.episode
            guess = generator("guess", episode.template.name, episode.seed).choice(PASS_WORDS)
            view = PageView(await environment.evaluate(SCRIPT), episode)
            return view.fill("field:word", guess) or view.click("send")
        return action

    return ScriptedPolicy(act, "forgetful")
