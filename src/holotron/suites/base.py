"""What a suite is, and how one is found by name.

    suite = find_suite("miniwob", tasks="click-test,click-link", seeds=range(20))
    pool = suite.open(16)                                    # at most 16 environments at once

A suite is all that a rollout, an evaluation or reinforcement learning knows of its tasks. Your own is one function:

    @suites.register("coins")                # or an entry point, or `my_file.py:coins` on the command line
    def coins(request: SuiteRequest) -> Suite:
        names = request.choose(["copper", "gold"])
        return Suite("coins", request.tasks_of("coins", names), environments_of(CoinEnvironment), actions=("click",))
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from holotron.actions import ACTIONS
from holotron.agent.loop import Limits
from holotron.agent.policies.base import Policy
from holotron.envs.base import Environment, EnvironmentPool, FreshEnvironments
from holotron.envs.network import NetworkPolicy
from holotron.errors import ConfigError
from holotron.registry import Registry, did_you_mean
from holotron.types import Task
from holotron.view import View


@dataclass(frozen=True, slots=True)
class Suite:
    name: str
    tasks: tuple[Task, ...]
    open: Callable[[int], EnvironmentPool[Any]]  # sessions at most -> environments
    actions: tuple[str, ...] = tuple(ACTIONS)  # what makes sense there
    limits: Limits = field(default_factory=Limits)
    view: View = field(default_factory=View)  # how its screens are shown; a wish that is not in it is refused
    scored: bool = True  # its environments say whether a task was done; if not, nothing can be learnt from rewards
    judge: str = "the environment's own check"  # who says whether a task was done, for manifests
    held_out: bool = False  # for measuring alone: whatever makes training data refuses it
    solver: Callable[[], Policy] | None = None  # the policy called `scripted` here
    facts: Mapping[str, Any] = field(default_factory=dict)  # whatever else a manifest should say

    def limited(self, steps: int | None = None, seconds: float | None = None) -> Suite:
        """The same suite with other limits where they are given."""
        limits = replace(self.limits, steps=steps or self.limits.steps, seconds=seconds or self.limits.seconds)
        return replace(self, limits=limits)

    def shuffled(self, seed: int) -> Suite:
        """The same tasks, names in random order, all seeds of one name together: its page is open already."""
        names = list(dict.fromkeys(task.name for task in self.tasks))
        random.Random(seed).shuffle(names)
        order = {name: place for place, name in enumerate(names)}
        return replace(self, tasks=tuple(sorted(self.tasks, key=lambda task: order[task.name])))

    def describe(self) -> dict[str, Any]:
        """For manifests."""
        marks = {"held_out": True} if self.held_out else {}
        return {"suite": self.name, "view": self.view.to_json(), **marks, **self.facts}


@dataclass(frozen=True, slots=True)
class SuiteRequest:
    """What somebody wants of a suite."""

    tasks: str | Sequence[str] = "all"
    seeds: range = range(1)
    view: View = field(default_factory=View)  # as the user wishes or the model declares; the suite fills what is open
    argument: str = ""  # what followed the name (`gymnasium:CartPole-v1`), or the file or folder that was named
    network: NetworkPolicy | None = None  # where browsers may go; None: nothing was said

    def choose(self, known: Sequence[str]) -> list[str]:
        """The names that are wanted, out of those there are; "all" is all of them."""
        if self.tasks == "all":
            return list(known)
        wanted = self.tasks.split(",") if isinstance(self.tasks, str) else list(self.tasks)
        for name in wanted:
            check_name(name, known)
        return wanted

    def tasks_of(self, suite: str, names: Sequence[str]) -> tuple[Task, ...]:
        """Each of these at every seed."""
        return tuple(Task(suite, name, seed=seed) for name in names for seed in self.seeds)


SuiteFactory = Callable[[SuiteRequest], Suite]

GROUNDING = (
    "screenspot", "screenspot-v2", "screenspot-pro", "osworld-g", "osworld-g-refined", "webclick", "groundui-1k",
    "showdown-clicks",
)  # fmt: skip

NAVIGATION = {
    **dict.fromkeys(("webvoyager", "webvoyager-fara", "webvoyager-magnitude", "webvoyager-nemo"), "webvoyager"),
    "online-mind2web": "online_mind2web",
    "webgames": "webgames",
}  # name -> module in suites/navigation
TRANSFER = ("trac", "oscar")
HELD_OUT = (*TRANSFER, "injection")  # by name: what was recorded there is known by it wherever it went

suites: Registry[SuiteFactory] = Registry(
    "suite",
    "holotron.suites",
    {
        name: f"holotron.suites.{name}"
        for name in ("miniwob", "web", "painted", "asked", "sites", "recall", "injection", "gymnasium", "verifiers")
    }
    | dict.fromkeys(TRANSFER, "holotron.suites.transfer")
    | dict.fromkeys(GROUNDING, "holotron.suites.grounding.play")
    | {name: f"holotron.suites.navigation.{module}" for name, module in NAVIGATION.items()},
)


_OWN_PAGES = {"miniwob", "painted", "asked", "sites", "recall", "gymnasium", "verifiers", *HELD_OUT, *GROUNDING}


def find_suite(
    spec: str,
    *,
    tasks: str | Sequence[str] = "all",
    seeds: range = range(1),
    view: View = View(),
    declared: Mapping[str, View] | None = None,
    network: NetworkPolicy | None = None,
) -> Suite:
    """A suite as people name it. `view` is what the user wishes, `declared` what the model wants, by suite; `network`
    is for suites whose pages are out there."""
    name, argument = named(spec)
    if network is not None and name in _OWN_PAGES:
        raise ConfigError(
            f"the suite {name} brings its own pages; which sites may be visited is for files of web tasks"
        )
    wanted = view.over((declared or {}).get(name, View()))
    make = suites.get(name)
    with suites.theirs(name):
        made = make(SuiteRequest(tasks, seeds, wanted, argument, network))
    if not isinstance(made, Suite):
        raise ConfigError(f"{spec} gave a {type(made).__name__}, not a Suite; see holotron.suites.base")
    if not made.tasks:
        raise ConfigError(f"the suite {spec} has no tasks")
    followed = made.view.to_json()
    ignored = tuple(word for word, value in view.to_json().items() if followed.get(word) != value)
    view.refuse(ignored, f"the suite {spec} shows its screens in its own way")
    return made


def named(spec: str) -> tuple[str, str]:
    """A suite's registered name (or `module:function`) and its argument: a file of tasks is for `web`, a folder of
    pages for `asked`."""
    if spec in suites:
        return spec, ""
    name, _, argument = spec.partition(":")
    if argument and name in suites:  # also where the argument is a file: `webvoyager:tasks.jsonl`
        return name, argument
    if Path(spec).suffix in (".jsonl", ".json"):
        return "web", spec
    if Path(spec).is_dir():
        return "asked", spec
    return spec, ""


def refuse_held_out(what: str, suite: Suite | str, options: Mapping[str, Any] | None = None) -> None:
    """Before anything is learnt: a suite, or the name of one and a task's options, that is for measuring alone."""
    name = suite if isinstance(suite, str) else suite.name
    marked = not isinstance(suite, str) and suite.held_out
    if marked or name in HELD_OUT or (options or {}).get("split") == "heldout":
        of = f"{name}:heldout" if (options or {}).get("split") == "heldout" else name
        raise ConfigError(
            f"{what}: {of} is held out for measuring and nothing is trained on it; choose another suite to learn from"
        )


def check_name(name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise ConfigError(f"there is no task {name!r} here: {did_you_mean(name, known, shown=5)}")


def environments_of(make: Callable[[], Environment]) -> Callable[[int], EnvironmentPool[Any]]:
    """For `Suite.open`: environments that cost nothing to make."""
    return lambda sessions: FreshEnvironments(make)


def parse_seeds(text: str) -> range:
    """`7` is one seed, `A:B` is A up to but not including B."""
    first, colon, last = text.partition(":")
    try:
        seeds = range(int(first), int(last)) if colon else range(int(first), int(first) + 1)
    except ValueError:
        seeds = range(0)
    if not seeds or seeds.start < 0:
        raise ConfigError(f"seeds {text!r}: write A:B with A below B (B is not included), or a single number")
    return seeds
