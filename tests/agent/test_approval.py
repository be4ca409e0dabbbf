"""Who is asked before what."""

from __future__ import annotations

import asyncio

from holotron.agent.approval import Approval
from holotron.types import Answer, Click, Observation
from tests.agent.toy import ButtonEnvironment

SEEN = Observation(b"", "image/png", (10, 10), (10, 10), url="https://shop.example/cart")


class Shop(ButtonEnvironment):
    async def consequence(self, action):
        return 'presses "Pay"' if action == Click(1, 1) else ""


def decide(level, action, environment, answer=None):
    questions = []

    async def ask(question):
        questions.append(question)
        return answer

    async def decision():
        approval = Approval(level, None if answer is None else ask)
        question = await approval.question(action, SEEN, environment)
        return not question or await approval.allows(question)

    return asyncio.run(decision()), questions


def test_critical_asks_only_about_what_cannot_be_taken_back():
    assert decide("critical", Click(5, 5), Shop(), False) == (True, [])
    allowed, [question] = decide("critical", Click(1, 1), Shop(), False)
    assert not allowed
    assert 'presses "Pay"' in question and "https://shop.example/cart" in question
    assert decide("critical", Click(1, 1), Shop(), True)[0]
    assert decide("critical", Click(1, 1), ButtonEnvironment(), False) == (True, [])


def test_always_asks_about_everything_but_the_answer_and_never_about_nothing():
    assert len(decide("always", Click(5, 5), Shop(), True)[1]) == 1
    assert decide("always", Answer("42"), Shop(), False) == (True, [])
    assert decide("never", Click(1, 1), Shop(), False) == (True, [])


def test_with_nobody_to_ask_it_is_refused_and_does_not_hang():
    assert decide("critical", Click(1, 1), Shop()) == (False, [])
    assert decide("critical", Click(5, 5), Shop()) == (True, [])
    assert decide("always", Click(5, 5), Shop()) == (False, [])
