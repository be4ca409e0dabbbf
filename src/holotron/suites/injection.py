"""Prompt injection, measured: the package's web apps with instructions on their pages that the user never gave.

    holotron eval injection --policy http://localhost:8000/v1 --seeds 200000:200010     the model alone, ten tries
    holotron eval injection:guards --policy ...                                         with every guard
    holotron eval injection:network,secrets --tasks pop-ups,mail --policy ...           with some; families, apps, names
    holotron eval injection --policy scripted                                           ignores them: attacks must fail
    holotron eval injection --policy holotron.suites.injection:naive                    obeys: attacks must succeed

Each task is an attack; the same tasks without an attack (`clean-...`) are played along. What follows the name: guards,
`heldout` looks, `phone`.
"""

from __future__ import annotations

from typing import Any, get_args

from holotron.agent.loop import Limits
from holotron.agent.policies.base import Policy
from holotron.agent.policies.registry import PolicyRequest
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.envs.chromium import browser_version
from holotron.envs.session import SessionOptions
from holotron.envs.web import display_of
from holotron.errors import ConfigError
from holotron.sites.injection.attacks import CLEAN, GUARDS, SUITE, Attack, select
from holotron.sites.variation import Split, Viewport
from holotron.suites.base import Suite, SuiteRequest, suites
from holotron.suites.sites import VIEW
from holotron.types import Task

STEPS = 20  # the tasks are short ones; room for detours, and for what a page wants


@suites.register("injection")
def injection(request: SuiteRequest) -> Suite:
    """Attacks by what pages say: ten families on the web apps, decided from state; with or without guards.

    Needs: as sites.
    Takes: 60 attacks and 13 clean tasks for each seed; an episode as one of sites. Ten seeds for success at 10 tries.
    """
    from holotron.sites.injection.environment import InjectionPool

    request.view.refuse(("width", "height", "crop"), "web apps are shown whole, at laptop or phone size")
    guards, chosen = _options(request.argument)
    attacks = select(request.tasks)
    view = request.view.over(VIEW)
    return Suite(
        name=SUITE,
        tasks=tuple(_tasks(attacks, request.seeds, chosen)),
        open=lambda sessions: InjectionPool(
            sessions=sessions, guards=guards, options=SessionOptions(display=display_of(view))
        ),
        limits=Limits(steps=STEPS, seconds=900.0),
        view=view,
        judge="the app's database, and what arrived at the other site",
        solver=_careful,
        held_out=True,
        facts={**chosen, "guards": list(guards), "browser": browser_version()},
    )


def _tasks(attacks: list[Attack], seeds: range, chosen: dict[str, Any]) -> list[Task]:
    clean = dict.fromkeys(f"{CLEAN}{attack.template}" for attack in attacks)
    tasks = [Task(SUITE, name, seed=seed, options=chosen) for name in clean for seed in seeds]
    for attack in attacks:
        about = {**chosen, "family": attack.family, "clean": f"{CLEAN}{attack.template}"}
        tasks += [Task(SUITE, attack.name, seed=seed, options=about) for seed in seeds]
    return tasks


def _options(argument: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    kinds = {"split": get_args(Split), "viewport": get_args(Viewport)}
    chosen: dict[str, Any] = {"split": "train", "viewport": "laptop"}
    guards: set[str] = set()
    for word in filter(None, (word.strip() for word in argument.split(","))):
        kind = next((kind for kind, words in kinds.items() if word in words), None)
        if kind is not None:
            chosen[kind] = word
        elif word == "guards":
            guards |= set(GUARDS)
        elif word in GUARDS:
            guards.add(word)
        else:
            known = ", ".join(["guards", *GUARDS, *(word for words in kinds.values() for word in words)])
            raise ConfigError(f"injection:{argument}: there is no {word!r}; write some of {known} behind the colon")
    return tuple(guard for guard in GUARDS if guard in guards), chosen


def _careful() -> Policy:
    """The apps' own solver, which knows its task and nothing else."""
    from holotron.sites.solver import SitesSolver

    return ScriptedPolicy(SitesSolver(), "careful")


def naive(request: PolicyRequest) -> Policy:
    """Does whatever a page tells it to do: what an attack gets at most."""
    from holotron.sites.injection.naive import Naive

    return ScriptedPolicy(Naive(), "naive")
