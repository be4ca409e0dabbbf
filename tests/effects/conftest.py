"""One browser that holds what leaves it, for all tests of this folder, and one agent in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from holotron.envs.effects.question import ALLOW_ONCE, Decision, Question
from holotron.envs.effects.rules import Rules
from holotron.envs.network import NetworkPolicy
from holotron.envs.session import SessionOptions
from holotron.envs.tab import Display
from holotron.envs.web import WebEnvironment, WebPool
from holotron.types import Action, Goto, NewTab, StepResult, Task
from tests.effects.world import World, fill, worlds

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(scope="package")
def run() -> Iterator[Run]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(scope="package")
def _two_worlds() -> Iterator[tuple[World, World]]:
    with worlds() as both:
        yield both


@pytest.fixture
def here(_two_worlds: tuple[World, World]) -> World:
    _two_worlds[0].forget()
    return _two_worlds[0]


@pytest.fixture
def there(_two_worlds: tuple[World, World]) -> World:
    _two_worlds[1].forget()
    return _two_worlds[1]


@pytest.fixture(scope="package")
def pool(run: Run) -> Iterator[WebPool]:
    async def make() -> WebPool:
        return WebPool(sessions=1, options=OPTIONS)

    made = run(make())
    yield made
    run(made.close())


OPTIONS = SessionOptions(network=NetworkPolicy(private=True), display=Display(400, 300), rules=Rules())


_NONE: Mapping[str, str] = MappingProxyType({})


class Agent:
    """Somebody who acts, and what was asked meanwhile."""

    def __init__(self, environment: WebEnvironment, here: World, there: World) -> None:
        self.environment = environment
        self.here, self.there = here, there
        self.questions: list[Question] = []
        self.answer: Callable[[Question], Decision] = lambda question: ALLOW_ONCE

    async def ask(self, question: Question) -> Decision:
        self.questions.append(question)
        return self.answer(question)

    async def open(
        self,
        html: str,
        pages: Mapping[str, str] = _NONE,
        other: Mapping[str, str] = _NONE,
        headers: Mapping[str, dict[str, str]] = MappingProxyType({}),
    ) -> None:
        """The page, ready: sockets are open, workers have started. `headers`: of answers of the first site, by path."""
        self.here.forget()
        self.here.headers = dict(headers)
        self.there.forget()
        self.questions.clear()
        for world, texts in ((self.here, {"/": html, **pages}), (self.there, other)):
            for path, text in texts.items():
                text = fill(text, self.here, self.there)
                world.pages[path] = text if path.endswith(".js") else f"<!doctype html><title>page</title>{text}"
        await self.environment.reset(Task("web", "way", goal="go", start_url=self.here.url("/")))

    async def do(self, *actions: Action) -> list[StepResult]:
        results = []
        for action in actions:
            if isinstance(action, Goto | NewTab):
                action = replace(action, url=fill(action.url, self.here, self.there))
            results.append(await self.environment.step(action))
        return results

    @property
    def changes(self) -> list[str]:
        return self.here.changes + self.there.changes


@pytest.fixture
def agent(run: Run, pool: WebPool, here: World, there: World) -> Agent:
    """In a context that goes on from test to test, which is quick."""
    environment = _kept(pool, run)
    made = Agent(environment, here, there)
    environment.ask_first(made.ask)
    return made


_ENVIRONMENTS: dict[int, WebEnvironment] = {}


def _kept(pool: WebPool, run: Run) -> WebEnvironment:
    if id(pool) not in _ENVIRONMENTS:
        _ENVIRONMENTS[id(pool)] = WebEnvironment(pool.browsers, OPTIONS, keep=True)
    return _ENVIRONMENTS[id(pool)]


@pytest.fixture
def other_agent(run: Run, pool: WebPool, here: World, there: World) -> Iterator[Callable[..., Agent]]:
    """With options of its own; the kept one makes room for it."""
    made: list[WebEnvironment] = []

    def make(**options: Any) -> Agent:
        run(_kept(pool, run).close())
        environment = WebEnvironment(pool.browsers, replace(OPTIONS, **options))
        made.append(environment)
        agent = Agent(environment, here, there)
        environment.ask_first(agent.ask)
        return agent

    yield make
    for environment in made:
        run(environment.close())
