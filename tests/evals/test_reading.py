"""The reading probe: unseen strings, read and found."""

from __future__ import annotations

import asyncio

import pytest

from holotron.agent.policies.registry import PolicyRequest, make_policy
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.evals.reading import ACTIONS, SIZES, _pages, probe_reading
from holotron.types import Answer, Click

pytestmark = pytest.mark.browser


class Knowing(ScriptedPolicy):
    """Has seen the strings, and clicks into the corner."""

    def __init__(self) -> None:
        self.second = {first: second for _, lines in _pages(1, 5) for first, second in lines.words}
        super().__init__(lambda *_: Answer(""))

    async def start(self, task, environment):
        if task.goal.startswith("Find"):
            return await ScriptedPolicy(lambda *_: Click(159.5, 159.5)).start(task, environment)
        first = task.goal.split('"')[1]
        return await ScriptedPolicy(lambda *_: Answer(f"{first} {self.second[first]}")).start(task, environment)


def test_reading_and_finding_are_scored_apart():
    rows = asyncio.run(probe_reading(Knowing(), each=1, seed=5, sessions=3))
    assert list(rows) == [f"{size:g} px" for size in SIZES]
    assert all((row.asked, row.exact, row.characters, row.found) == (1, 1.0, 1.0, 0.0) for row in rows.values())
    other = asyncio.run(probe_reading(ScriptedPolicy(lambda *_: Answer("")), each=1, seed=5))
    assert all((row.exact, row.characters) == (0.0, 0.0) for row in other.values())


def test_the_bundled_policy_reads_what_nobody_has_seen():
    async def probe():
        policy = await make_policy(PolicyRequest("holotron-mini", actions=ACTIONS))
        try:
            return await probe_reading(policy, each=3, seed=11)
        finally:
            await policy.close()

    rows = asyncio.run(probe()).values()
    assert sum(row.characters for row in rows) / len(rows) > 0.5  # likely words would give about .1
    assert sum(row.found for row in rows) / len(rows) > 0.6  # of eight words
