"""Who is asked before what, with what in hand, and what a no does to an episode."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from holotron.agent.approval import Approval
from holotron.agent.events import Acted, Answered, Asked, Began, Ended, Observed, Refused, Thought
from holotron.agent.loop import Episode, Limits
from holotron.envs.effects.question import ALLOW_ONCE, ALLOW_SITE, Kind, Question, refuse
from holotron.types import Answer, Click, Observation, Outcome, StepResult, Task
from tests.agent.test_loop import Replies
from tests.agent.toy import ButtonEnvironment

SEEN = Observation(b"", "image/png", (10, 10), (10, 10), url="https://shop.example/cart")
ORDER = Question(Kind.FORM, "POST to https://shop.example: may change something there", "https://shop.example", "POST")


class Shop(ButtonEnvironment):
    """Every click wants to order something."""

    def __init__(self) -> None:
        super().__init__()
        self.orders = 0

    def ask_first(self, ask):
        self.ask = ask

    async def step(self, action):
        if not isinstance(action, Click):
            return await super().step(action)
        decision = await self.ask(ORDER)
        self.orders += decision.allow
        look = replace(await self.observe(), note="after the click")
        refused = {} if decision.allow else {"refused": True, "asked": ORDER.summary, "reasons": decision.reason}
        return StepResult(look, info=refused)


def play(environment, approver, *replies, level="critical", **limits):
    told = []
    policy = Replies(*replies)
    episode = Episode(
        environment, policy, Task("toy", "press"), limits=Limits(**limits), approval=Approval(level, approver),
        listeners=[lambda id, event: told.append(event)],
    )  # fmt: skip
    return asyncio.run(episode.run()), told, policy


def test_the_question_comes_with_thought_action_and_picture():
    questions = []

    async def yes(question):
        questions.append(question)
        return ALLOW_ONCE

    shop = Shop()
    trajectory, told, _ = play(shop, yes, Click(1, 1), Answer("bought"))
    (question,) = questions
    assert question.screenshot == trajectory.steps[0].observation.image and question.mime
    assert "click" in question.action and question.kind is Kind.FORM
    assert shop.orders == 1
    assert [type(event) for event in told] == [
        Began, Observed, Thought, Asked, Answered, Acted, Observed, Thought, Acted, Ended
    ]  # fmt: skip


def test_a_no_makes_the_step_refused_and_the_policy_is_told_why():
    async def no(question):
        return refuse("too expensive")

    shop = Shop()
    trajectory, told, policy = play(shop, no, Click(1, 1), Answer("could not"))
    assert shop.orders == 0
    step = trajectory.steps[0]
    assert step.info["refused"] and step.info["asked"] == ORDER.summary
    assert "too expensive" in policy.told[1][0] and "did not allow" in policy.told[1][0]
    refused = next(event for event in told if isinstance(event, Refused))
    assert refused.result is not None and refused.question == ORDER.summary
    assert trajectory.steps[1].observation.note == "after the click"  # what the page looks like now
    assert trajectory.answer == "could not"


def test_with_nobody_to_ask_it_is_refused_and_does_not_hang():
    shop = Shop()
    trajectory, _, _ = play(shop, None, *[Click(1, 1)] * 5, invalid_replies=4)
    assert shop.orders == 0 and trajectory.outcome is Outcome.FAILURE
    assert len(trajectory.steps) == 4


def test_a_person_may_take_longer_than_everything_else():
    async def slowly(question):
        await asyncio.sleep(0.5)
        return ALLOW_ONCE

    shop = Shop()
    trajectory, _, _ = play(shop, slowly, Click(1, 1), Answer(""), environment_seconds=0.2, seconds=0.4)
    assert shop.orders == 1 and len(trajectory.steps) == 2


def test_a_broken_approver_is_no_yes():
    async def broken(question):
        raise RuntimeError("the page is closed")

    shop = Shop()
    trajectory, _, _ = play(shop, broken, Click(1, 1), Answer(""))
    assert shop.orders == 0 and trajectory.outcome is Outcome.ENVIRONMENT_ERROR


def test_always_asks_about_everything_but_the_answer_and_never_about_nothing():
    assert Approval("always").question(Click(5, 5), SEEN).kind is Kind.ACTION
    assert Approval("always").question(Answer("42"), SEEN) is None
    assert Approval("critical").question(Click(5, 5), SEEN) is None
    assert Approval("never").question(Click(5, 5), SEEN) is None


def test_always_can_be_lifted_for_a_site():
    async def yes(question):
        return ALLOW_SITE

    approval = Approval("always", yes)
    asyncio.run(approval.decide(approval.question(Click(5, 5), SEEN)))
    assert approval.question(Click(6, 6), SEEN) is None
    assert approval.question(Click(6, 6), replace(SEEN, url="https://other.example/")) is not None
