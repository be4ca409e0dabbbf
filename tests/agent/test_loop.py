"""One episode against a real (small) environment: every way it can end, and what is on record afterwards."""

from __future__ import annotations

import asyncio

import pytest

from holotron.agent.approval import Approval
from holotron.agent.events import Acted, Answered, Asked, Began, Ended, Observed, Refused, Thought
from holotron.agent.loop import Episode, Limits
from holotron.agent.policies.base import lose
from holotron.agent.policies.random import RandomPolicy
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.envs.effects.question import ALLOW_ONCE, REFUSE
from holotron.errors import CapacityError, ConfigError, EnvironmentFault, PolicyError
from holotron.types import Answer, Click, Completion, Outcome, Reply, Restart, Task, Wait
from tests.agent.toy import COLOURS, ButtonEnvironment, colour_at, press_target

TASK = Task("buttons", "press", seed=3)


def run(environment, policy, task=TASK, **options):
    episode = Episode(environment, policy, task, **options)
    return asyncio.run(episode.run())


class Replies:
    """A policy that replies from a list (the last one for ever) and remembers what it was told."""

    name = "replies"

    def __init__(self, *replies):
        self.replies = list(replies)
        self.told = []
        self.closed = 0

    def describe(self):
        return {"policy": "replies"}

    async def start(self, task, environment):
        return self

    async def act(self, observation, *, feedback="", must_answer=False):
        self.told.append((feedback, must_answer))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        if callable(reply):
            reply = await reply()
        return reply if isinstance(reply, Reply) else Reply(Completion("..."), action=reply)

    async def close(self):
        self.closed += 1


def test_success_is_recorded_in_full():
    told = []
    environment = ButtonEnvironment(scale=1.5)
    trajectory = run(environment, ScriptedPolicy(press_target), listeners=[lambda id, event: told.append((id, event))])
    assert trajectory.outcome is Outcome.SUCCESS
    assert trajectory.reward == 1.0
    assert trajectory.id == "buttons/press/3"
    assert trajectory.task.goal.startswith("Press the")
    (step,) = trajectory.steps
    assert [(id, type(event)) for id, event in told] == [
        (trajectory.id, kind) for kind in (Began, Observed, Thought, Acted, Ended)
    ]
    began, seen, thought, acted, ended = [event for _, event in told]
    assert (began.task, began.attempt) == (trajectory.task, 0)
    assert (seen.observation, thought.reply, acted.result.reward) == (step.observation, step.reply, step.reward)
    assert ended.trajectory is trajectory
    assert step.done
    colour = trajectory.task.goal.split()[2]
    assert colour_at(step.observation, step.reply.action.x, step.reply.action.y) == COLOURS[colour]
    assert trajectory.final.image != step.observation.image  # one dot more
    assert trajectory.seconds > 0
    assert trajectory.started_at > 1e9


def test_failure_is_the_environments_verdict():
    environment = ButtonEnvironment()

    def wrong(env, observation, step):
        other = next(button for button in env.buttons if button is not env.target)
        return Click(*other.centre)

    trajectory = run(environment, ScriptedPolicy(wrong))
    assert trajectory.outcome is Outcome.FAILURE
    assert trajectory.reward == -1.0


def test_answers_are_scored_by_the_environment_or_not_at_all():
    assert run(ButtonEnvironment(), Replies(Answer("done"))).outcome is Outcome.FAILURE
    question = Task("buttons", "press", seed=3, options={"question": True})
    trajectory = run(ButtonEnvironment(), Replies(Answer("it is blue")), question)
    assert trajectory.outcome is Outcome.UNSCORED
    assert trajectory.answer == "it is blue"


def test_invalid_replies_are_explained_then_end_the_episode():
    bad = Reply(Completion("click!"), error="y is missing")
    policy = Replies(bad, bad, Wait(0), bad)
    trajectory = run(ButtonEnvironment(), policy, limits=Limits(invalid_replies=3))
    assert trajectory.outcome is Outcome.FAILURE
    assert "3 unusable replies in a row; the last: y is missing" in trajectory.error
    assert [feedback for feedback, _ in policy.told] == [
        "",
        "y is missing",
        "y is missing",
        "",
        "y is missing",
        "y is missing",
    ]
    assert len(trajectory.steps) == 6
    assert trajectory.steps[0].info == {"refused": True}
    # The screen did not change, so the very same observation is shown: policies can tell and save the image.
    assert trajectory.steps[1].observation is trajectory.steps[0].observation
    assert policy.closed == 1


def test_steps_run_out_with_and_without_a_last_word():
    far = Click(1, 1)
    environment = ButtonEnvironment()
    plain = run(environment, Replies(far), limits=Limits(steps=3, repeats=99))
    assert plain.outcome is Outcome.EXHAUSTED
    assert len(plain.steps) == 3
    question = Task("buttons", "press", seed=3, options={"question": True})
    policy = Replies(far, far, far, Answer("blue, I think"))
    asked = run(environment, policy, question, limits=Limits(steps=4, repeats=99, answer_when_over=True))
    assert asked.outcome is Outcome.UNSCORED
    assert asked.answer == "blue, I think"
    assert [must for _, must in policy.told] == [False, False, False, True]
    stubborn = run(environment, Replies(far), limits=Limits(steps=3, repeats=99, answer_when_over=True))
    assert len(stubborn.steps) == 3
    assert stubborn.outcome is Outcome.EXHAUSTED


def test_tokens_run_out():
    reply = Reply(Completion("", prompt_tokens=100, cached_tokens=60, generated_tokens=10), action=Wait(0))
    trajectory = run(ButtonEnvironment(), Replies(reply), limits=Limits(tokens=150, repeats=99))
    assert trajectory.outcome is Outcome.EXHAUSTED
    assert len(trajectory.steps) == 3  # 50 a step
    assert "150 tokens" in trajectory.error


def test_time_runs_out_in_the_middle_of_a_thought():
    """If it had been at work before; whoever was silent for most of the time may as well have been dead."""

    async def ponder():
        await asyncio.sleep(60)

    class Slow(ButtonEnvironment):
        async def reset(self, task):
            await asyncio.sleep(0.6)
            return await super().reset(task)

    late = run(Slow(), Replies(ponder), limits=Limits(seconds=1.0))
    assert late.outcome is Outcome.EXHAUSTED
    silent = run(ButtonEnvironment(), Replies(ponder), limits=Limits(seconds=1.0))
    assert silent.outcome is Outcome.POLICY_ERROR and "did not answer within" in silent.error
    assert late.seconds + silent.seconds < 30


def test_time_that_a_policys_server_has_lost_is_not_the_agents():
    async def refused_first():
        lose(600.0)
        await asyncio.sleep(1.2)
        return Reply(Completion(""), action=Answer("done"))

    trajectory = run(ButtonEnvironment(), Replies(refused_first), limits=Limits(seconds=1.0))
    assert trajectory.outcome is Outcome.FAILURE and len(trajectory.steps) == 1


def test_circles_are_noticed_first_by_warning():
    policy = Replies(Click(1, 1))
    trajectory = run(ButtonEnvironment(), policy, limits=Limits(repeats=4, steps=50))
    assert trajectory.outcome is Outcome.STUCK
    assert len(trajectory.steps) == 4
    warned = [bool(feedback) for feedback, _ in policy.told]
    assert warned == [False, False, True, True]
    two = Replies(*[Click(1, 1), Click(2, 2)] * 20)
    assert run(ButtonEnvironment(), two, limits=Limits(repeats=4, steps=50)).outcome is Outcome.STUCK


def test_a_screen_that_changes_is_no_circle():
    task = Task("buttons", "press", seed=3, options={"presses": 12})
    trajectory = run(ButtonEnvironment(), ScriptedPolicy(press_target), task, limits=Limits(repeats=3))
    assert trajectory.outcome is Outcome.SUCCESS
    assert len(trajectory.steps) == 12


def test_faults_are_told_apart():
    def break_at(when):
        def trouble(call):
            if call == when:
                raise EnvironmentFault("the browser is gone")

        return ButtonEnvironment(trouble=trouble)

    for when in ("reset", "step"):
        trajectory = run(break_at(when), ScriptedPolicy(press_target))
        assert trajectory.outcome is Outcome.ENVIRONMENT_ERROR
        assert trajectory.error == "the browser is gone"
    assert run(ButtonEnvironment(), Replies(PolicyError("server down"))).outcome is Outcome.POLICY_ERROR
    full = run(ButtonEnvironment(), Replies(CapacityError("context is full")))
    assert full.outcome is Outcome.EXHAUSTED
    buggy = run(ButtonEnvironment(), Replies(ZeroDivisionError("oops")))
    assert buggy.outcome is Outcome.POLICY_ERROR
    assert "ZeroDivisionError: oops" in buggy.error
    # A time-out of the policy's own, or of the environment's, is not the end of the episode's time.
    slow = run(ButtonEnvironment(), Replies(TimeoutError("the database did not answer")))
    assert slow.outcome is Outcome.POLICY_ERROR
    assert slow.error == "TimeoutError: the database did not answer"

    def late(call):
        raise TimeoutError("the emulator did not answer")

    broken = run(ButtonEnvironment(trouble=late), ScriptedPolicy(press_target))
    assert broken.outcome is Outcome.ENVIRONMENT_ERROR
    assert broken.error == "TimeoutError: the emulator did not answer"


def test_a_page_that_breaks_under_a_teacher_is_not_the_teachers_fault():
    def read_the_page(environment, observation, step):
        raise EnvironmentFault("target closed")

    assert run(ButtonEnvironment(), ScriptedPolicy(read_the_page)).outcome is Outcome.ENVIRONMENT_ERROR


def test_a_script_at_a_loss_has_failed():
    def lost(environment, observation, step):
        raise PolicyError("no such button")

    for script in (lost, lambda *look: None):
        trajectory = run(ButtonEnvironment(), ScriptedPolicy(script))
        assert trajectory.outcome is Outcome.FAILURE
        assert trajectory.error


def test_a_hanging_environment_is_broken():
    class Hanging(ButtonEnvironment):
        async def step(self, action):
            await asyncio.sleep(60)

    trajectory = run(Hanging(), ScriptedPolicy(press_target), limits=Limits(environment_seconds=0.1))
    assert trajectory.outcome is Outcome.ENVIRONMENT_ERROR
    assert "did not answer" in trajectory.error


def test_wrong_set_up_is_not_an_outcome():
    class Misconfigured(ButtonEnvironment):
        async def reset(self, task):
            raise ConfigError("there is no such task")

    with pytest.raises(ConfigError, match="no such task"):
        run(Misconfigured(), ScriptedPolicy(press_target))


def test_refused_actions_are_not_carried_out():
    asked = []

    async def second(question):
        asked.append(question.summary)
        return ALLOW_ONCE if len(asked) > 1 else REFUSE

    policy = Replies(Restart(), Wait(0), Answer("fine"))
    told = []
    trajectory = run(
        ButtonEnvironment(),
        policy,
        approval=Approval("always", second),
        listeners=[lambda id, event: told.append(type(event))],
    )
    assert [summary.split()[0] for summary in asked] == ["restart", "wait"]
    assert "did not allow" in policy.told[1][0]
    assert trajectory.steps[0].info.items() >= {"refused": True, "asked": asked[0]}.items()
    assert [said["allow"] for step in trajectory.steps for said in step.info.get("steered", ())] == [False, True]
    wait = [Thought, Asked, Answered, Acted, Observed]
    assert told == [Began, Observed, Thought, Asked, Answered, Refused, *wait, Thought, Acted, Ended]


def test_cut_from_outside_keeps_what_is_on_record():
    async def main():
        released = asyncio.Event()

        async def ponder():
            released.set()
            await asyncio.sleep(60)

        policy = Replies(Wait(0), ponder)
        episode = Episode(ButtonEnvironment(), policy, TASK)
        running = asyncio.create_task(episode.run())
        await released.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return episode.end(Outcome.EXHAUSTED, "cut"), policy

    trajectory, policy = asyncio.run(main())
    assert trajectory.outcome is Outcome.EXHAUSTED
    assert len(trajectory.steps) == 1
    assert policy.closed == 1


def test_random_policy_repeats_itself_by_seed():
    def actions(seed):
        trajectory = run(ButtonEnvironment(), RandomPolicy(seed=seed), limits=Limits(steps=15))
        return [step.reply.action for step in trajectory.steps]

    assert actions(1) == actions(1)
    assert actions(1) != actions(2)
