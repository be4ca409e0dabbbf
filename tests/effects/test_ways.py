"""Nothing that changes the world happens unasked: every way is tried with a no, and with a yes to see it work."""

from __future__ import annotations

import asyncio

import pytest

from holotron.envs.effects.question import ALLOW_ONCE, Decision, refuse
from holotron.types import StepResult
from tests.effects.conftest import Agent, Run
from tests.effects.ways import HABITS, WAYS, Way

pytestmark = pytest.mark.browser


async def again(agent: Agent, way: Way) -> list[StepResult]:
    """On the page as it is now, which is quick; on a new one where that brings about nothing any more."""
    results: list[StepResult] = []
    for fresh in (False, True):
        if fresh:
            await agent.open(way.html, way.pages, way.other)
        results = await agent.do(*way.actions)
        for _ in range(100 if fresh else 10):
            if agent.changes:
                return results
            await asyncio.sleep(0.02)
    return results


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_asked_first(run: Run, agent: Agent, way: Way) -> None:
    async def main() -> None:
        await agent.open(way.html, way.pages, way.other)
        agent.answer = lambda question: refuse("not today")
        results = await agent.do(*way.actions)
        assert agent.changes == []
        assert agent.questions
        refused = [result.info for result in results if result.info.get("refused")]
        assert refused and "not today" in refused[0]["reasons"]

        agent.answer = lambda question: ALLOW_ONCE
        agent.questions.clear()
        results = await again(agent, way)
        assert agent.changes, "this is no way to change anything, so the test shows nothing"
        assert agent.questions
        assert not any(result.info.get("refused") for result in results)

    run(main())


@pytest.mark.parametrize("way", HABITS, ids=lambda way: way.name)
def test_what_looks_like_a_habit_of_the_page(run: Run, agent: Agent, way: Way) -> None:
    async def act(decision: Decision) -> None:
        await agent.open(way.html, way.pages, way.other)
        for _ in range(100):
            if agent.changes:
                break
            await asyncio.sleep(0.02)
        agent.here.changes.clear()  # which was the page's own
        agent.answer = lambda question: decision
        await agent.do(*way.actions)
        await asyncio.sleep(0.1)

    async def main() -> None:
        await act(refuse())
        assert agent.changes == [] and agent.questions
        await act(ALLOW_ONCE)
        assert agent.changes and agent.questions

    run(main())


def test_there_are_enough_of_them() -> None:
    assert len({way.name for way in WAYS}) == len(WAYS) >= 60
