"""What is asked of agents: templates that become a goal, the changes that are wanted, and a scripted way to get there.

    templates = Templates("shop")

    @templates.add("wish", "short", plan=plans.wish)
    def wish(brief: Brief) -> Assignment:
        product = brief.choose("select * from products")
        return Assignment(
            goal=brief.say("Put {name} on my wish list.", "Save {name} to the wish list.", name=product["name"]),
            wanted=(Added("wishes", product=product["id"]),),
            facts={"product": product},
        )

Templates are found by the folder their app is in. `sites_tasks("all", range(20))` gives the tasks of every template at
twenty seeds.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args

from holotron.errors import ConfigError
from holotron.registry import did_you_mean
from holotron.sites.checks import Wanted
from holotron.sites.state import Row, State
from holotron.sites.variation import Split, Variation, Viewport
from holotron.sites.words import Words
from holotron.types import Action, Task

if TYPE_CHECKING:
    from holotron.sites.solver.view import PageView
    from holotron.sites.web import App

SUITE = "sites"

Length = Literal["short", "medium", "long"]
STEPS: dict[Length, tuple[int, int]] = {"short": (2, 5), "medium": (6, 15), "long": (16, 40)}


class Unsuitable(Exception):
    """The data that were drawn hold nothing that this task could ask for."""


@dataclass(slots=True)
class Brief:
    """What a template has to work with: chance, the filled database, the app's words, and the variation drawn."""

    dice: random.Random
    state: State
    t: Words
    variation: Variation

    def choose(self, sql: str, *values: Any) -> Row:
        """One of the rows; where there is none, the episode draws other data."""
        rows = self.state.all(sql, *values)
        if not rows:
            raise Unsuitable(sql)
        return self.dice.choice(rows)

    def some(self, count: int, sql: str, *values: Any) -> list[Row]:
        """Several different rows."""
        rows = self.state.all(sql, *values)
        if len(rows) < count:
            raise Unsuitable(sql)
        return self.dice.sample(rows, count)

    def say(self, *phrasings: str, **fields: Any) -> str:
        """One of several ways to ask for the same thing."""
        return self.dice.choice(phrasings).format(**fields)

    def trouble(self, **kinds: Any) -> None:
        """Have this get in the way, besides what the variation has drawn; see `Trouble`."""
        self.variation = replace(self.variation, trouble=replace(self.variation.trouble, **kinds))


@dataclass(frozen=True, slots=True)
class Assignment:
    goal: str
    wanted: tuple[Wanted, ...]
    facts: dict[str, Any] = field(default_factory=dict)  # for the solver; agents never see them
    start: str = "/"
    signed_in: int | None = None  # the user whose log-in the browser holds at the start


Plan = Callable[["PageView"], Action | None]


@dataclass(frozen=True, slots=True)
class TaskTemplate:
    name: str  # begins with the app's name
    length: Length
    make: Callable[[Brief], Assignment]
    plan: Plan  # the solver's next action in whatever state the page is
    about: frozenset[str]  # "recall", "pagination", "impossible" ...; for tables by kind

    @property
    def app(self) -> str:
        return self.name.partition("-")[0]

    def find_app(self) -> App:
        return find_app(self.app)


class Templates:
    """The templates of one app: `add` decorates the function that makes an assignment, and names its plan."""

    def __init__(self, app: str) -> None:
        self.app = app
        self.all: list[TaskTemplate] = []

    def add(
        self, name: str, length: Length, *, plan: Plan, about: Iterable[str] = ()
    ) -> Callable[[Callable[[Brief], Assignment]], Callable[[Brief], Assignment]]:
        def register(make: Callable[[Brief], Assignment]) -> Callable[[Brief], Assignment]:
            self.all.append(TaskTemplate(f"{self.app}-{name}", length, make, plan, frozenset(about)))
            return make

        return register


# ------------------------------------------------------------------------------------------------------ what there is


@cache
def app_names() -> tuple[str, ...]:
    """Every folder of `holotron.sites.apps` is an app: nothing else has to know of it."""
    from holotron.sites import apps

    return tuple(sorted(module.name for module in pkgutil.iter_modules(apps.__path__) if module.ispkg))


def _module(name: str) -> Any:
    if name not in app_names():
        raise ConfigError(f"there is no app {name!r}; there are: {', '.join(app_names())}")
    return importlib.import_module(f"holotron.sites.apps.{name}")


def find_app(name: str) -> App:
    app: App = _module(name).app
    return app


@cache
def templates(app: str | None = None) -> tuple[TaskTemplate, ...]:
    """All templates, or those of one app."""
    names = app_names() if app is None else (app,)
    return tuple(template for name in names for template in _module(name).templates.all)


def find_template(name: str) -> TaskTemplate:
    app = name.partition("-")[0]
    known = templates(app) if app in app_names() else ()
    for template in known:
        if template.name == name:
            return template
    names = [template.name for template in known or templates()]
    hint = did_you_mean(name, [*app_names(), *names], shown=len(app_names()))
    raise ConfigError(f"there is no app and no task {name!r} of sites: {hint}")


def sites_tasks(
    names: str | Sequence[str] = "all",
    seeds: Iterable[int] = range(1),
    *,
    split: Split = "train",
    viewport: Viewport | None = None,
) -> list[Task]:
    """Tasks by name, each at every seed. Names are those of templates, of apps (`shop`) or of lengths (`short`), with
    commas between them; "all" is all. `viewport` makes them all one size instead of drawing it by seed."""
    if viewport is not None and viewport not in get_args(Viewport):
        raise ConfigError(f"there is no viewport {viewport!r} of sites; use {' or '.join(get_args(Viewport))}")
    asked = names.split(",") if isinstance(names, str) else list(names)
    chosen: dict[str, TaskTemplate] = {}
    for name in asked:
        for template in _named(name.strip()):
            chosen[template.name] = template
    options: dict[str, Any] = {"split": split} | ({"viewport": viewport} if viewport else {})
    return [Task(SUITE, name, seed=seed, options=options) for name in chosen for seed in seeds]


def _named(name: str) -> Sequence[TaskTemplate]:
    if name == "all":
        return templates()
    if name in STEPS:
        return [template for template in templates() if template.length == name]
    if name in app_names():
        return templates(name)
    return [find_template(name)]
