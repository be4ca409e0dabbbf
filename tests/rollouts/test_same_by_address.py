"""The same weights do the same in this process and behind an address: what a model declares of itself travels."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from holotron.agent.policies.registry import PolicyRequest
from holotron.agent.profiles import Profile, write_profile
from holotron.model.bundled import BUNDLED
from holotron.model.loading import byte_processor
from holotron.model.weights import random_model, save_checkpoint
from holotron.rollouts.runner import RolloutSettings
from holotron.rollouts.store import RunReader
from holotron.rollouts.suite import opened, play
from holotron.view import View
from tests.server.process import running
from tests.training.support import small_config

TASKS = "click-test-2,enter-text,click-checkboxes,use-autocomplete-nodelay"


def played(spec: str, run: Path, suite: str = "miniwob", **wanted: Any) -> dict[str, list[object]]:
    async def main() -> None:
        async with opened(PolicyRequest(spec), suite, **wanted) as (policy, shown):
            await play(shown, policy, run, settings=RolloutSettings(sessions=1))

    asyncio.run(main())
    found = {}
    for episode in RunReader(run).trajectories():
        said = [(step.reply.completion.text, step.reply.completion.tokens) for step in episode.steps]
        found[episode.id] = [episode.outcome, *said]
    return found


@pytest.mark.browser
@pytest.mark.slow
def test_the_same_weights_give_the_same_actions_by_address(tmp_path: Path):
    wanted: dict[str, Any] = {"tasks": TASKS, "seeds": range(210_000, 210_003)}
    with running(BUNDLED, "--model.dtype", "float32") as server:
        (card,) = httpx.get(f"{server.url}/v1/models").json()["data"]
        assert card["agent"]["dialect"] == "compact"
        assert card["agent"]["views"]["miniwob"] == {"scale": 2.0, "crop": True, "format": "png"}
        by_address = played(f"{server.url}/v1", tmp_path / "address", **wanted)
    in_process = played(BUNDLED, tmp_path / "process", **wanted)
    assert len(in_process) == 12
    assert by_address == in_process
    assert RunReader(tmp_path / "address").manifest["config"]["environment"]["view"] == {
        "scale": 2.0,
        "crop": True,
        "format": "png",
    }


def test_a_model_that_wants_deltas_gets_them_by_address_too(tmp_path: Path):
    config = small_config(tile=128)
    save_checkpoint(random_model(config, seed=0), tmp_path / "model")
    byte_processor(config).save(tmp_path / "model")
    write_profile(tmp_path / "model", Profile("compact", history="append", deltas=0))
    wanted: dict[str, Any] = {
        "suite": "painted",
        "tasks": "order-4",
        "seeds": range(6),
        "view": View(width=64, height=64, scale=2),
    }
    with running(str(tmp_path / "model"), "--memory.sessions", "4", "--memory.context", "4096") as server:
        (card,) = httpx.get(f"{server.url}/v1/models").json()["data"]
        assert card["agent"]["deltas"] == 0
        by_address = played(f"{server.url}/v1", tmp_path / "address", **wanted)
        session = httpx.post(f"{server.url}/v1/sessions").json()["id"]
        refused = httpx.post(f"{server.url}/v1/sessions/{session}/compact", json={"keep_last": 1})
        assert "changes to earlier ones" in refused.json()["error"]["message"]
    assert by_address == played(str(tmp_path / "model"), tmp_path / "process", **wanted)


def test_a_server_is_asked_about_its_model_once():
    async def main(url: str) -> None:
        async with opened(PolicyRequest(f"{url}/v1"), "painted", tasks="boxes-2"):
            pass

    with running("tiny", "--memory.sessions", "4", "--memory.context", "4096") as server:
        asyncio.run(main(server.url))
        counts = httpx.get(f"{server.url}/metrics").text
    assert 'holotron_http_requests_total{route="/v1/models",status="200"} 1.0' in counts.splitlines()
