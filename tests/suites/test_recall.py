"""Recall by distance: whoever remembers gets everything, whoever does not gets what guessing gets; no page helps."""

from __future__ import annotations

import asyncio
import re

import pytest

from holotron.agent.loop import Episode
from holotron.agent.policies.base import Policy
from holotron.agent.policies.registry import PolicyRequest
from holotron.errors import ConfigError
from holotron.sites.apps.rounds.app import PASS_WORDS
from holotron.sites.apps.rounds.tasks import DISTANCES, template_name
from holotron.sites.variation import generator
from holotron.suites.base import Suite, find_suite
from holotron.suites.recall import forgetful
from holotron.types import Outcome, Trajectory
from tests.sites.visitor import Visitor

PLACE = re.compile(r'data-page="stop:(\d+)"')


def walk(visitor: Visitor, distance: int) -> list[str]:
    """Every page from the first stop to the one that asks for the word."""
    pages = [visitor.post("/start")]
    for number in range(2, distance + 1):
        place = visitor.episode.state.value("select place from stops where id = ?", number)
        pages.append(visitor.post("/go", place=place))
    return pages


@pytest.mark.parametrize("distance", DISTANCES)
def test_the_word_is_shown_once_and_asked_for_at_its_distance(distance: int) -> None:
    visitor = Visitor(template_name(distance), 3)
    word = visitor.facts["word"]
    assert f">{word}<" in visitor.get("/")
    pages = walk(visitor, distance)
    assert len(pages) == distance and 'data-page="enter"' in pages[-1]
    assert [int(PLACE.findall(page)[0]) for page in pages[:-1]] == list(range(1, distance))
    assert all(word not in page for page in pages[:-1]) and word in pages[-1]  # the last page names all sixteen
    assert all(word not in visitor.get(url) for url in ("/help",)) and 'data-page="enter"' in visitor.get("/")
    assert word not in visitor.episode.goal
    assert 'data-e="wrong:word"' in visitor.post("/enter", word="Nonsense") and not visitor.episode.verdict().final
    visitor.post("/enter", word=word.upper())
    assert visitor.done()


def test_what_was_seen_last_is_wrong_and_nothing_can_be_skipped() -> None:
    visitor = Visitor("rounds-04", 5)
    visitor.post("/enter", word=visitor.facts["word"])  # before the round
    visitor.post("/go", place=1)
    assert visitor.episode.state.changes() == []
    visitor.post("/start")
    right = visitor.episode.state.value("select place from stops where id = 2")
    page = visitor.post("/go", place=right % 24 + 1)
    assert 'class="flash bad"' in page and 'data-page="stop:1"' in page
    visitor.post("/start")  # again: nothing happens, the word is not shown
    assert visitor.facts["word"] not in visitor.get("/")
    visitor = Visitor("rounds-04", 5)
    walk(visitor, 4)
    visitor.post("/enter", word=visitor.episode.state.value("select word from stops where id = 3"))
    verdict = visitor.episode.verdict()
    assert not verdict.success and verdict.final and "entries has word" in verdict.reason
    visitor.post("/enter", word=visitor.facts["word"])  # too late
    assert not visitor.done()


def test_words_are_even_enough_for_guessing_to_be_chance() -> None:
    """Over many seeds every word is asked for, and a guess by seed alone is right about as often as chance says."""
    words = [Visitor("rounds-01", seed).facts["word"] for seed in range(400)]
    assert set(words) == set(PASS_WORDS)
    hits = sum(word == generator("guess", "rounds-01", seed).choice(PASS_WORDS) for seed, word in enumerate(words))
    assert 0.02 < hits / len(words) < 0.12


def test_distances_by_number() -> None:
    suite = find_suite("recall", tasks="8,1", seeds=range(2))
    assert [task.name for task in suite.tasks] == ["rounds-01", "rounds-01", "rounds-08", "rounds-08"]
    assert suite.facts["curve"]["at"] == {"rounds-01": 1, "rounds-08": 8} and suite.limits.steps == 18
    assert len(find_suite("recall").tasks) == len(DISTANCES)
    with pytest.raises(ConfigError, match="no distance '3'; there are 1, 2, 4"):
        find_suite("recall", tasks="3")


@pytest.mark.browser
def test_the_solver_remembers_and_the_forgetful_one_does_not() -> None:
    suite = find_suite("recall", tasks="1,8", seeds=range(4))
    seen = asyncio.run(_play(suite))
    for trajectory in seen["solver"]:
        assert trajectory.outcome is Outcome.SUCCESS, trajectory.error
        assert len(trajectory.steps) == int(trajectory.task.name[-2:]) + 2  # no scrolling, nothing in the way
    for trajectory in seen["forgetful"]:
        task = trajectory.task
        guess = generator("guess", task.name, task.seed).choice(PASS_WORDS)
        right = Visitor(task.name, task.seed).facts["word"] == guess
        assert (trajectory.outcome is Outcome.SUCCESS) is right, trajectory.error


async def _play(suite: Suite) -> dict[str, list[Trajectory]]:
    assert suite.solver is not None
    policies: dict[str, Policy] = {"solver": suite.solver(), "forgetful": forgetful(PolicyRequest("forgetful"))}
    pool, found = suite.open(3), {}

    async def one(policy: Policy, number: int) -> Trajectory:
        environment = await pool.acquire()
        try:
            return await Episode(environment, policy, suite.tasks[number], limits=suite.limits).run()
        finally:
            await pool.release(environment)

    for name, policy in policies.items():
        found[name] = list(await asyncio.gather(*(one(policy, number) for number in range(len(suite.tasks)))))
    await pool.close()
    return found
