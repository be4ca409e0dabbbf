from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.server.process import ServerProcess, running


@pytest.fixture(scope="package")
def server() -> Iterator[ServerProcess]:
    """One server for all tests that do not stop it."""
    with running("tiny", "--memory.sessions", "16", "--memory.context", "4096") as process:
        yield process


@pytest.fixture
def client(server: ServerProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client
