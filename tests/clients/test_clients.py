"""Clients that people already use, unchanged, each with its real package in an environment of its own.

make test-clients          # makes the environments the first time: about 1 GB and a few minutes
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.environments import HERE, python_of
from tests.server.process import running

TRIALS = {
    "instructor": ["json_schema", "tools", "tools_strict", "partial_streaming"],
    "langchain": ["plain", "sampling", "stream", "structured", "tool_loop_with_a_picture", "tools_stream"],
    "litellm": ["plain", "stream", "structured", "tools", "sampling_and_pictures"],
    "openai_agents": ["plain", "typed_output_and_a_picture", "tool_then_typed_output", "stream", "handoff"],
    "browser_use": ["plain", "agent_output", "flash_mode"],
}
MANUAL = Path(HERE.parents[1] / "docs" / "clients.md")
# Nothing goes to their makers: telemetry, prices of models, traces.
QUIET = {**os.environ, "ANONYMIZED_TELEMETRY": "false", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
Servers = dict[str, dict[str, str]]

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(not os.environ.get("HOLOTRON_TEST_CLIENTS"), reason="make test-clients"),
]


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with running() as policy, running("tiny", "--memory.context", "8192") as tools:
        yield {
            "policy": {"url": f"{policy.url}/v1", "model": "holotron-mini"},
            "tools": {"url": f"{tools.url}/v1", "model": "tiny"},
        }


@functools.cache
def results(client: str, servers: str) -> dict[str, str | None]:
    """What went wrong, by trial. They run in one process, because importing a client takes seconds."""
    script = HERE / "trials" / f"{client}_trials.py"
    done = subprocess.run([python_of(client), script, servers], capture_output=True, text=True, timeout=500, env=QUIET)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"trial"')]
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return {line["trial"]: line["problem"] for line in lines}


@pytest.mark.parametrize(("client", "trial"), [(client, trial) for client in TRIALS for trial in TRIALS[client]])
def test_trial(client: str, trial: str, servers: Servers) -> None:
    found = results(client, json.dumps(servers))
    assert set(found) == set(TRIALS[client])
    assert found[trial] is None, found[trial]


@pytest.mark.parametrize("client", TRIALS)
def test_the_manuals_snippet(client: str, servers: Servers) -> None:
    """What docs/clients.md shows runs as it stands there, but for the address."""
    section = re.search(rf"^## .*<!-- {client} -->\n(.*?)(?=^## |\Z)", MANUAL.read_text(), re.S | re.M)
    assert section is not None
    for code in re.findall(r"```python\n(.*?)```", section[1], re.S):
        code = code.replace("http://127.0.0.1:8000/v1", servers["policy"]["url"])
        done = subprocess.run([python_of(client), "-c", code], capture_output=True, text=True, timeout=300, env=QUIET)
        assert done.returncode == 0, f"{code}\n{done.stderr[-4000:]}"
