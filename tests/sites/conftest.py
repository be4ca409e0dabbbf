"""One event loop and one pool of sites for all tests of this folder that need a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from holotron.sites.environment import SitesPool

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(scope="session")
def run() -> Iterator[Run]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(scope="session")
def pool(run: Run) -> Iterator[SitesPool]:
    async def make() -> SitesPool:
        return SitesPool(sessions=4, browsers=1)

    made = run(make())
    yield made
    run(made.close())
