"""The same weights do the same in this process and behind an address: what a model declares of itself travels."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from holotron.agent.policies.registry import PolicyRequest
from holotron.model.bundled import BUNDLED
from holotron.rollouts.runner import Settings
from holotron.rollouts.store import RunReader
from holotron.rollouts.suite import opened, play
from tests.server.process import running

TASKS = "click-test-2,enter-text,click-checkboxes,use-autocomplete-nodelay"


def played(spec: str, run: Path) -> dict[str, list[object]]:
    async def main() -> None:
        seeds = range(210_000, 210_003)
        async with opened(PolicyRequest(spec), "miniwob", tasks=TASKS, seeds=seeds) as (policy, suite):
            assert str(suite.view) == "@2, cropped, png"
            await play(suite, policy, run, settings=Settings(sessions=1))

    asyncio.run(main())
    found = {}
    for episode in RunReader(run).trajectories():
        said = [(step.reply.completion.text, step.reply.completion.tokens) for step in episode.steps]
        found[episode.id] = [episode.outcome, *said]
    return found


@pytest.mark.browser
@pytest.mark.slow
def test_the_same_weights_give_the_same_actions_by_address(tmp_path: Path):
    with running(BUNDLED, "--model.dtype", "float32") as server:
        (card,) = httpx.get(f"{server.url}/v1/models").json()["data"]
        assert card["agent"]["dialect"] == "compact"
        assert card["agent"]["views"]["miniwob"] == {"scale": 2.0, "crop": True, "format": "png"}
        by_address = played(f"{server.url}/v1", tmp_path / "address")
    in_process = played(BUNDLED, tmp_path / "process")
    assert len(in_process) == 12
    assert by_address == in_process
