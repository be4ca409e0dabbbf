"""A person's hand on an episode: held back, let go, corrected, taken over, handed back, instructed, stopped, and what
of it is on record."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holotron.agent.approval import Approval
from holotron.agent.events import Acted, Edited, Event, Observed, Refused, Steered, Thought
from holotron.agent.loop import Limits
from holotron.agent.steered import MASK, episode_of
from holotron.agent.steering import (
    Do,
    Edit,
    HandBack,
    Instruct,
    Look,
    NotNow,
    OneStep,
    Pause,
    Refuse,
    Resume,
    Steering,
    Stop,
    TakeOver,
)
from holotron.types import Answer, Click, Completion, Outcome, PressKeys, Reply, Task, Trajectory, Wait, Write
from tests.agent.test_loop import Replies
from tests.agent.toy import ButtonEnvironment

QUESTION = Task("buttons", "press", seed=3, options={"question": True})  # ends with an answer
THOUGHTFUL = Reply(Completion("t", prompt_tokens=90, generated_tokens=9), "a note", "a thought", Wait(0))


class Watched:
    """An episode in which a person acts whenever an event comes that they wait for."""

    def __init__(self, policy: Any, task: Task = QUESTION, environment: Any = None, **options: Any) -> None:
        self.environment = environment or ButtonEnvironment()
        self.steering = Steering(paused=options.pop("paused", False))
        self.events: list[Event] = []
        self._heard = asyncio.Event()
        self._episode = episode_of(
            self.environment, policy, task, steering=self.steering, listeners=[self._hear], **options
        )

    def _hear(self, episode: str, event: Event) -> None:
        self.events.append(event)
        self._heard.set()

    async def until(self, true: Callable[[list[Event]], Any]) -> None:
        async with asyncio.timeout(10):
            while not true(self.events):
                self._heard.clear()
                await self._heard.wait()

    async def held(self, step: int) -> None:
        await self.until(
            lambda events: any(isinstance(e, Steered) and (e.what, e.step) == ("held", step) for e in events)
        )

    def kinds(self) -> list[str]:
        return [e.what if isinstance(e, Steered) else type(e).__name__ for e in self.events]

    async def played(self, person: Callable[[Watched], Awaitable[None]]) -> Trajectory:
        playing = asyncio.ensure_future(self._episode.run())
        await person(self)
        return await playing


def play(policy: Any, person: Callable[[Watched], Awaitable[None]], **options: Any) -> tuple[Trajectory, Watched]:
    async def main() -> tuple[Trajectory, Watched]:
        watched = Watched(policy, **options)
        return await watched.played(person), watched

    return asyncio.run(main())


def test_nobody_at_the_helm_is_an_ordinary_episode():
    policy = Replies(THOUGHTFUL, Answer("blue"))

    async def nobody(watched: Watched) -> None:
        pass

    trajectory, watched = play(policy, nobody)
    assert trajectory.outcome is Outcome.UNSCORED and not trajectory.assisted
    assert [step.author for step in trajectory.steps] == ["agent", "agent"]
    assert watched.kinds() == ["Began", "Observed", "Thought", "Acted", "Observed", "Thought", "Acted", "Ended"]
    assert "steered" not in trajectory.steps[0].info


def test_paused_it_thinks_and_waits_and_goes_step_by_step():
    policy = Replies(THOUGHTFUL, THOUGHTFUL, Answer("blue"))

    async def person(watched: Watched) -> None:
        await watched.held(0)
        await asyncio.sleep(0.2)
        assert not any(isinstance(event, Acted) for event in watched.events)
        with pytest.raises(NotNow, match="not waiting before that step"):
            watched.steering.give(OneStep(1))
        watched.steering.give(OneStep(0))
        await watched.held(1)
        assert sum(isinstance(event, Acted) for event in watched.events) == 1
        watched.steering.give(Resume())

    trajectory, watched = play(policy, person, paused=True, limits=Limits(seconds=0.15))
    assert trajectory.outcome is Outcome.UNSCORED, "the time it was held is not its own"
    assert not trajectory.assisted, "looking on is no help"
    (held,) = trajectory.steps[0].info["steered"]
    assert held["what"] == "released" and held["seconds"] >= 0.2
    assert watched.kinds()[1:6] == ["Observed", "Thought", "held", "released", "Acted"]


def test_an_edited_action_records_what_was_proposed_and_what_was_done():
    environment = ButtonEnvironment()
    policy = Replies(Reply(Completion("t", generated_tokens=9), "a note", "the red one", Click(1, 1)), Answer("blue"))

    async def person(watched: Watched) -> None:
        await watched.held(0)
        watched.steering.give(Edit(0, Click(*environment.target.centre), "that one is right"))
        with pytest.raises(NotNow):
            watched.steering.give(Edit(0, Click(5, 5)))  # the first word counts
        watched.steering.give(Resume())

    trajectory, watched = play(policy, person, environment=environment, paused=True)
    first, second = trajectory.steps
    assert (first.author, first.proposed) == ("person", Click(1, 1))
    assert first.reply.action == Click(*environment.target.centre)
    assert (first.reply.thought, first.reply.note) == ("that one is right", "a note")
    assert first.reply.completion.generated_tokens == 9, "what it cost is on record"
    assert environment.presses == 1 and trajectory.assisted
    assert (second.author, second.proposed) == ("agent", None)
    assert "instead of your last action" in policy.told[1][0] and "that one is right" in policy.told[1][0]
    edited = next(event for event in watched.events if isinstance(event, Edited))
    assert (edited.proposed, edited.reason) == (Click(1, 1), "that one is right")


def test_an_unusable_reply_can_be_put_right():
    policy = Replies(Reply(Completion("click!"), error="y is missing"), Answer("blue"))

    async def person(watched: Watched) -> None:
        await watched.held(0)
        watched.steering.give(Edit(0, Wait(0)))
        watched.steering.give(Resume())

    trajectory, _ = play(policy, person, paused=True)
    first = trajectory.steps[0]
    assert (first.author, first.proposed, first.reply.action, first.reply.error) == ("person", None, Wait(0), "")
    assert policy.told[1][0] == "The user says: I had this done instead of your last action: wait 0 s."


def test_a_refusal_goes_back_to_the_policy_with_its_reason():
    policy = Replies(*[Click(1, 1)] * 5, Answer("blue"))

    async def person(watched: Watched) -> None:
        for step in range(5):
            await watched.held(step)
            watched.steering.give(Refuse(step, "not on a Sunday"))
        watched.steering.give(Resume())

    trajectory, watched = play(policy, person, paused=True, limits=Limits(invalid_replies=2))
    assert trajectory.outcome is Outcome.UNSCORED, "a person may say no as often as they like"
    assert "not on a Sunday" in policy.told[1][0]
    assert [bool(step.info.get("refused")) for step in trajectory.steps] == [True] * 5 + [False]
    assert trajectory.steps[0].info["asked"] == "click (1, 1)"
    assert all(event.unasked for event in watched.events if isinstance(event, Refused))
    assert watched.environment.presses == 0 and trajectory.assisted


class Slow(Replies):
    """Thinks until it is interrupted; then answers."""

    interrupted = 0

    async def act(self, observation, *, feedback="", must_answer=False):
        if not self.interrupted:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.interrupted += 1
                raise
        return await super().act(observation, feedback=feedback, must_answer=must_answer)


def test_a_person_takes_over_while_it_thinks_and_hands_back():
    environment = ButtonEnvironment()
    policy = Slow(Answer("blue"))

    async def person(watched: Watched) -> None:
        await watched.until(lambda events: events)
        with pytest.raises(NotNow, match="take over first"):
            watched.steering.give(Do(Wait(0)))
        watched.steering.give(TakeOver())
        with pytest.raises(NotNow, match="control already"):
            watched.steering.give(TakeOver())
        watched.steering.give(Do(Click(*environment.target.centre)))
        await watched.until(lambda events: any(isinstance(e, Acted) for e in events))
        before = len(watched.events)
        watched.steering.give(Look())
        await watched.until(lambda events: len(events) > before)
        assert isinstance(watched.events[-1], Observed) and watched.events[-1].step == 1
        watched.steering.give(Do(Write("hello", 10.0, 10.0)))
        watched.steering.give(HandBack("The total is right now."))

    trajectory, watched = play(policy, person, environment=environment, limits=Limits(steps=1, answer_when_over=True))
    assert policy.interrupted == 1
    by = [(step.author, step.reply.action) for step in trajectory.steps]
    assert by == [
        ("person", Click(*environment.target.centre)),
        ("person", Click(10, 10)),
        ("person", Write("hello")),
        ("agent", Answer("blue")),
    ]
    assert trajectory.outcome is Outcome.UNSCORED and trajectory.assisted, "a person's steps are not the agent's limit"
    told, must_answer = policy.told[0]
    assert "took over" in told and "write “hello”" in told and "The total is right now." in told and must_answer
    assert trajectory.steps[1].observation.image == trajectory.steps[0].observation.image or environment.presses == 1
    assert "took over" in watched.kinds() and "handed back" in watched.kinds()


def test_what_it_was_about_to_do_is_kept_beside_what_a_person_did_instead():
    policy = Replies(THOUGHTFUL, Answer("blue"))

    async def person(watched: Watched) -> None:
        await watched.held(0)
        watched.steering.give(TakeOver())
        watched.steering.give(Do(PressKeys(("Enter",))))
        watched.steering.give(HandBack())
        watched.steering.give(Resume())

    trajectory, _ = play(policy, person, paused=True)
    first = trajectory.steps[0]
    assert (first.author, first.proposed, first.reply.action) == ("person", Wait(0), PressKeys(("Enter",)))
    assert len(trajectory.steps) == 2 and first.reply.completion.prompt_tokens == 90


def test_handing_back_without_doing_anything_drops_what_it_was_about_to_do():
    policy = Replies(THOUGHTFUL, Answer("blue"))

    async def person(watched: Watched) -> None:
        await watched.held(0)
        watched.steering.give(TakeOver())
        watched.steering.give(HandBack())
        watched.steering.give(Resume())

    trajectory, _ = play(policy, person, paused=True)
    assert trajectory.steps[0].info["refused"] and trajectory.steps[0].author == "agent"
    assert "changed nothing" in policy.told[1][0]


def test_a_person_can_end_the_task_in_its_place():
    async def person(watched: Watched) -> None:
        watched.steering.give(TakeOver())
        watched.steering.give(Do(Answer("it is red")))

    trajectory, _ = play(Slow(Answer("blue")), person)
    assert (trajectory.outcome, trajectory.answer) == (Outcome.UNSCORED, "it is red")
    assert trajectory.steps[0].author == "person"


@pytest.mark.parametrize("when", ["thinking", "held", "taken"])
def test_stopping_ends_it_at_once_and_is_no_failure_of_the_agent(when: str):
    async def person(watched: Watched) -> None:
        if when == "held":
            await watched.held(0)
        elif when == "taken":
            watched.steering.give(TakeOver())
            await watched.until(lambda events: "took over" in watched.kinds())
        else:
            await watched.until(lambda events: events)
        watched.steering.give(Stop())
        with pytest.raises(NotNow, match="being stopped"):
            watched.steering.give(Resume())

    policy = Replies(THOUGHTFUL) if when == "held" else Slow(THOUGHTFUL)
    trajectory, _ = play(policy, person, paused=when == "held")
    assert (trajectory.outcome, trajectory.error) == (Outcome.EXHAUSTED, "stopped by a person")
    assert trajectory.assisted


class Listening(Replies):
    def __init__(self, *replies):
        super().__init__(*replies)
        self.instructions = []

    def instruct(self, text):
        self.instructions.append(text)


@pytest.mark.parametrize("kind", [Replies, Listening])
def test_an_instruction_is_told_with_the_next_turn_and_is_part_of_the_record(kind: type[Replies]):
    policy = kind(THOUGHTFUL, THOUGHTFUL, Answer("blue"))

    async def person(watched: Watched) -> None:
        await watched.held(0)
        with pytest.raises(NotNow, match="empty"):
            watched.steering.give(Instruct("  "))
        watched.steering.give(Instruct("Take the cheaper one."))
        watched.steering.give(OneStep(0))
        await watched.held(1)
        watched.steering.give(Resume())

    trajectory, _ = play(policy, person, paused=True)
    assert [step.instruction for step in trajectory.steps] == ["", "Take the cheaper one.", ""]
    assert trajectory.assisted
    if isinstance(policy, Listening):
        assert policy.instructions == ["Take the cheaper one."] and policy.told[1][0] == ""
    else:
        assert "Take the cheaper one." in policy.told[1][0]


class PasswordPage(ButtonEnvironment):
    """Where everything that is typed is a password."""

    def __init__(self) -> None:
        super().__init__()
        self.typed: list[str] = []

    async def private_field(self) -> bool:
        return True

    async def step(self, action):
        self.typed += [action.content] if isinstance(action, Write) else []
        return await super().step(action)


def test_what_a_person_types_into_a_password_field_is_typed_and_not_told():
    environment, policy = PasswordPage(), Replies(Answer("blue"))

    async def person(watched: Watched) -> None:
        watched.steering.give(TakeOver())
        watched.steering.give(Do(Write("hunter2", overwrite=False)))
        watched.steering.give(Do(PressKeys(("h",))))
        watched.steering.give(HandBack())

    trajectory, watched = play(policy, person, environment=environment)
    assert environment.typed == ["hunter2"]
    assert trajectory.steps[0].reply.action == Write(MASK, overwrite=False)
    assert trajectory.steps[1].reply.action == PressKeys((MASK,))
    assert trajectory.steps[0].info["private"]
    assert "hunter2" not in repr((watched.events, trajectory, policy.told))


def test_a_person_is_not_asked_about_what_they_do_themselves():
    asked = []

    async def approver(question):
        asked.append(question)
        raise AssertionError

    async def person(watched: Watched) -> None:
        watched.steering.give(TakeOver())
        watched.steering.give(Do(Wait(0)))
        watched.steering.give(Do(Answer("done")))

    trajectory, _ = play(Slow(Answer("blue")), person, approval=Approval("always", approver))
    assert trajectory.answer == "done" and not asked


def test_too_many_actions_at_once_are_refused():
    steering = Steering()
    steering.give(TakeOver())
    for _ in range(50):
        steering.give(Do(Wait(0)))
    with pytest.raises(NotNow, match="let the page catch up"):
        steering.give(Do(Wait(0)))
    steering.give(Look())  # is nothing to queue for


def test_pausing_while_it_acts_holds_the_next_action():
    policy = Replies(THOUGHTFUL, THOUGHTFUL, Answer("blue"))

    async def person(watched: Watched) -> None:
        await watched.until(lambda events: any(isinstance(event, Thought) for event in events))
        watched.steering.give(Pause())
        await watched.until(lambda events: "held" in watched.kinds())
        watched.steering.give(Resume())

    trajectory, _ = play(policy, person)
    assert len(trajectory.steps) == 3
