"""The OpenAPI document is true: whatever it allows or forbids, the server answers properly, and never with its own
failure (503, which means "not now", apart)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from holotron.server.app import create_app
from holotron.server.service import Service
from holotron.server.settings import Settings
from tests.server.process import ServerProcess, running


@pytest.fixture(scope="module")
def short_server() -> Iterator[ServerProcess]:
    """One whose replies are short whatever is asked for, so that many requests can be made."""
    flags = ["--reply.max_tokens", "4", "--engine.max_context", "160", "--engine.max_sessions", "64"]
    with running("tiny", *flags) as server:
        yield server


schema = schemathesis.openapi.from_dict(create_app(Service(Settings())).openapi())


def test_the_server_publishes_it(short_server: ServerProcess) -> None:
    assert httpx.get(f"{short_server.url}/openapi.json").json() == json.loads(json.dumps(schema.raw_schema))


@pytest.mark.slow
@schema.parametrize()
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_breaks_it(case: schemathesis.Case, short_server: ServerProcess) -> None:
    response = case.call(base_url=short_server.url)
    assert response.status_code < 500 or response.status_code == 503, response.text
    if response.status_code >= 400 and not case.path.startswith("/health"):
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    case.validate_response(
        response, checks=[status_code_conformance, content_type_conformance, response_schema_conformance]
    )


def test_nothing_leaked(short_server: ServerProcess) -> None:
    metrics = short_server.settled()
    assert metrics["holotron_integrity_failures_total"] == 0
    assert not [line for line in short_server.lines if line["level"] == "error"]
