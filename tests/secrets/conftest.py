"""One browser with an agent that has secrets, for all tests of this folder, and two sites."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from holotron.envs.effects.question import REFUSE, Decision, Question
from holotron.envs.network import NetworkPolicy
from holotron.envs.secrets import Secret
from holotron.envs.session import SessionOptions
from holotron.envs.tab import Display
from holotron.envs.web import WebEnvironment, WebPool
from holotron.types import Action, StepResult, Task
from tests.effects.world import World, fill, worlds

Run = Callable[[Coroutine[Any, Any, Any]], Any]
ONE, OTHER = "qX7-ZemmW2", "mW2-Ze7mqX"  # the same letters, so that they are as wide as each other
_NONE: Mapping[str, str] = MappingProxyType({})


@pytest.fixture(scope="package")
def run() -> Iterator[Run]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(scope="package")
def sites() -> Iterator[tuple[World, World]]:
    with worlds() as both:
        yield both


@pytest.fixture(scope="package")
def pool(run: Run) -> Iterator[WebPool]:
    async def make() -> WebPool:
        return WebPool(sessions=2, options=SessionOptions(secrets=(Secret("x", "unused", hosts=("x.example",)),)))

    made = run(make())
    yield made
    run(made.close())


class Keeper:
    """An agent with secrets."""

    def __init__(self, environment: WebEnvironment, here: World, there: World) -> None:
        self.environment = environment
        self.here, self.there = here, there
        self.questions: list[Question] = []
        self.answers: dict[str, dict[str, str]] = {}  # headers of answers of the first site, by path
        self.answer: Callable[[Question], Decision] = lambda question: REFUSE
        environment.ask_first(self._ask)

    async def _ask(self, question: Question) -> Decision:
        self.questions.append(question)
        return self.answer(question)

    async def open(
        self,
        html: str,
        pages: Mapping[str, str] = _NONE,
        other: Mapping[str, str] = _NONE,
        *,
        quick: bool = False,
        **words: str,
    ) -> None:
        """`words`: what is put for a word in all pages. `quick`: in the same tab as before, without waiting for more
        than the page."""
        self.here.forget()
        self.there.forget()
        self.questions.clear()
        self.here.headers = self.answers
        for world, texts in ((self.here, {"/": html, **pages}), (self.there, other)):
            for path, text in texts.items():
                for word, put in words.items():
                    text = text.replace(word, put)
                text = fill(text, self.here, self.there)
                world.pages[path] = text
        if quick and self.environment._session is not None and len(self.environment._session._open) == 1:
            await self.environment._session.tab.page.goto(self.here.url("/"), wait_until="load")
            return
        await self.environment.reset(Task("web", "secret", goal="go", start_url=self.here.url("/")))

    async def do(self, *actions: Action) -> list[StepResult]:
        return [await self.environment.step(action) for action in actions]


@pytest.fixture(scope="package")
def options(sites: tuple[World, World]) -> SessionOptions:
    here, there = sites
    both = (here.host, there.host)
    return SessionOptions(
        network=NetworkPolicy(private=True),
        display=Display(400, 300, format="png"),
        secrets=(
            Secret("one", ONE, hosts=(here.host,), fields=("any",)),
            Secret("other", OTHER, hosts=both, fields=("any",)),
        ),
    )


@pytest.fixture(scope="package")
def _environments(run: Run, pool: WebPool, options: SessionOptions) -> Iterator[list[WebEnvironment]]:
    alone = replace(options, secrets=options.secrets[1:])
    environments = [WebEnvironment(pool.browsers, chosen, keep=True) for chosen in (options, alone)]
    yield environments
    for environment in environments:
        run(environment.close())


@pytest.fixture
def keeper(_environments: list[WebEnvironment], sites: tuple[World, World]) -> Keeper:
    """In a context that goes on from test to test, which is quick."""
    return Keeper(_environments[0], *sites)


@pytest.fixture
def keeper_of_other(_environments: list[WebEnvironment], sites: tuple[World, World]) -> Keeper:
    """The one who has only the secret that belongs to both sites."""
    return Keeper(_environments[1], *sites)
