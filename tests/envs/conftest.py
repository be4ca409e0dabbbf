"""Real Chromium, shared by the tests of a module: one event loop, one pool, one local site."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holotron.envs.network import NetworkPolicy
from holotron.envs.session import SessionOptions
from holotron.envs.tab import Display
from holotron.envs.web import WebEnvironment, WebPool
from holotron.types import Action, Observation, StepResult, Task
from tests.envs.site import Site

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


class Browsing:
    """A web environment on a test page, with a shorter way to look and act."""

    def __init__(self, environment: WebEnvironment, first: Observation) -> None:
        self.environment = environment
        self.first = first

    async def do(self, action: Action) -> StepResult:
        return await self.environment.step(action)

    async def told(self, action: Action, words: str) -> str:
        """Do it, and look until a note with these words has come: some events reach us a moment after the page."""
        note = (await self.do(action)).observation.note
        for _ in range(50):
            if words in note:
                break
            await asyncio.sleep(0.1)
            note += (await self.environment.observe()).note
        return note

    async def js(self, expression: str) -> Any:
        return await self.environment.evaluate(expression)


@pytest.fixture(scope="module")
def browsers(run: Run) -> Iterator[WebPool]:
    """One pool whose browsers every test of the module shares; sessions are opened with options of their own."""

    async def make() -> WebPool:
        return WebPool(sessions=4, browsers=1)

    pool = run(make())
    yield pool
    run(pool.close())


@pytest.fixture
def browse(browsers: WebPool, site: Site) -> Any:
    """`async with browse(html) as page:` opens it in a fresh session that may reach the local site only."""

    @asynccontextmanager
    async def open_page(html: str, path: str = "/", **options: Any) -> AsyncIterator[Browsing]:
        site.pages[path] = html
        options.setdefault("network", NetworkPolicy(allow=(site.host,)))
        options.setdefault("display", Display(400, 300))
        environment = WebEnvironment(browsers.browsers, SessionOptions(**options))
        try:
            task = Task("web", "test", goal="look", start_url=site.url(path))
            yield Browsing(environment, await environment.reset(task))
        finally:
            await environment.close()

    return open_page
