"""The solver with mistakes: it errs as often as asked, says what would have been right, and still gets there."""

from __future__ import annotations

import asyncio

import pytest

from holotron.agent.loop import Episode, Limits
from holotron.agent.policies.distracted import MISTAKES, DistractedPolicy
from holotron.agent.policies.registry import PolicyRequest, make_policy
from holotron.agent.policies.scripted import ScriptedPolicy
from holotron.errors import ConfigError
from holotron.types import Action, Click, Outcome, Scroll, Task, Trajectory
from tests.agent.toy import ButtonEnvironment

TASK = Task("buttons", "press", seed=5, options={"presses": 12})
ACTIONS = ("click", "scroll", "answer")


def press(environment: ButtonEnvironment, observation: object, step: int) -> Action:
    return Click(*environment.target.centre)


def play(share: float, seed: int = 5) -> Trajectory:
    policy = DistractedPolicy(ScriptedPolicy(press), share, ACTIONS)
    task = Task("buttons", "press", seed=seed, options={"presses": 12})
    return asyncio.run(Episode(ButtonEnvironment(), policy, task, limits=Limits(steps=40, repeats=99)).run())


def mistakes(played: Trajectory) -> list[Action]:
    return [step.reply.action for step in played.steps if step.reply.action != step.reply.label]


def test_it_errs_says_what_was_right_and_still_gets_there():
    played = play(0.3)
    assert played.outcome is Outcome.SUCCESS
    assert 1 <= len(mistakes(played)) <= MISTAKES
    right = {step.reply.label for step in played.steps}
    assert len(right) == 1 and all(isinstance(action, Click) for action in right)


def test_the_same_task_has_the_same_mistakes_and_another_has_others():
    assert mistakes(play(0.3)) == mistakes(play(0.3))
    assert mistakes(play(0.3)) != mistakes(play(0.3, seed=6))


def test_a_share_near_one_stops_after_a_few():
    assert len(mistakes(play(0.99))) == MISTAKES


def test_only_actions_that_make_sense_here():
    found = [action for seed in range(30) for action in mistakes(play(0.5, seed))]
    assert {type(action) for action in found} == {Click, Scroll}


@pytest.mark.parametrize("spec", ["scripted:0", "scripted:1", "scripted:often"])
def test_a_share_that_is_none(spec: str):
    request = PolicyRequest(spec, solver=lambda: ScriptedPolicy(press))
    with pytest.raises(ConfigError, match="scripted"):
        asyncio.run(make_policy(request))


def test_by_name():
    policy = asyncio.run(make_policy(PolicyRequest("scripted:0.25", solver=lambda: ScriptedPolicy(press))))
    assert policy.describe()["mistakes"] == 0.25
