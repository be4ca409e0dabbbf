"""One event loop and one pool of sites for all tests of this folder that need a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from holotron.errors import ConfigError
from holotron.sites.environment import SitesPool
from holotron.sites.transfer.application import Application, HostServer, prepared


def host_server(application: Application) -> Iterator[HostServer]:
    """Of an application by others, if it can be installed here."""
    try:
        prepared(application)
    except ConfigError as error:
        pytest.skip(f"{application.name} cannot be installed here: {error}")
    made = HostServer(application)
    yield made
    made.close()


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
