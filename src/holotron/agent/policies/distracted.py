"""A teacher that makes mistakes and mends them: demonstrations with wrong turns in them, and the way back.

    holotron rollout --suite sites --policy scripted:0.15 --out runs/demos       a seventh of the steps are mistakes
    step.reply.action   # what was done: at times something else on the page, a click beside the target, a wrong turn
    step.reply.label    # what should have been done, which is what training learns (see `training.episodes`)

A policy that has only seen perfect episodes does not know what to do after its first mistake. Same task and seed, same
mistakes. They stop after a few, so that episodes come to their end.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from holotron.agent.policies.base import Policy, PolicySession
from holotron.envs.base import Environment
from holotron.envs.dom import DomElement
from holotron.errors import ConfigError, EnvironmentFault
from holotron.types import Action, Answer, Click, GoBack, Observation, Reply, Scroll, Task

MISTAKES = 4  # in one episode, at most
USABLE = ("a", "button", "input", "select", "textarea", "label", "summary", "th")


class Inspected(Protocol):
    """An environment that can be looked at behind its pixels; where it cannot, mistakes are made without looking."""

    async def dom(self) -> list[DomElement]: ...


class DistractedPolicy:
    def __init__(self, teacher: Policy, share: float, actions: Sequence[str]) -> None:
        """`share` of the steps go wrong. `actions` are those that make sense here."""
        if not 0 < share < 1:
            raise ConfigError(f"the share of mistakes is between 0 and 1, not {share:g}; scripted alone makes none")
        self._teacher = teacher
        self._share = share
        self._actions = tuple(actions)

    @property
    def name(self) -> str:
        return self._teacher.name

    def describe(self) -> dict[str, Any]:
        return {**self._teacher.describe(), "mistakes": self._share}

    async def start(self, task: Task, environment: Environment | None = None) -> DistractedSession:
        session = await self._teacher.start(task, environment)
        dice = random.Random(f"{task.id}/mistakes")
        return DistractedSession(session, environment, dice, self._share, self._actions)

    async def close(self) -> None:
        await self._teacher.close()


class DistractedSession:
    def __init__(
        self,
        teacher: PolicySession,
        environment: Environment | None,
        dice: random.Random,
        share: float,
        actions: Sequence[str],
    ) -> None:
        self._teacher = teacher
        self._environment = environment
        self._dice = dice
        self._share = share
        self._actions = actions
        self._left = MISTAKES

    async def act(self, observation: Observation, *, feedback: str = "", must_answer: bool = False) -> Reply:
        reply = await self._teacher.act(observation, feedback=feedback, must_answer=must_answer)
        reply = replace(reply, label=reply.action)
        if must_answer or reply.action is None or not self._left or self._dice.random() >= self._share:
            return reply
        self._left -= 1
        return replace(reply, action=await self._mistake(reply.action, observation))

    async def close(self) -> None:
        await self._teacher.close()

    async def _mistake(self, right: Action, observation: Observation) -> Action:
        kind = self._dice.random()
        if kind < 0.15 and isinstance(right, Click):
            return _beside(right, observation.viewport, self._dice)
        if kind < 0.3 and "scroll" in self._actions:
            return Scroll(self._dice.choice(("down", "up")))
        if kind < 0.4 and "go_back" in self._actions and not isinstance(right, Answer):
            return GoBack()
        return await self._something_else(right, observation)

    async def _something_else(self, right: Action, observation: Observation) -> Action:
        """A click on another thing that can be used, or anywhere where nobody can say what there is."""
        try:
            elements = await cast(Inspected, self._environment).dom()
        except (AttributeError, EnvironmentFault):  # it cannot be looked into; its page is just leaving
            elements = []
        others = [e for e in elements if e.hit and not e.disabled and e.tag in USABLE and not _holds(e, right)]
        if others:
            return Click(*self._dice.choice(others).center)
        width, height = observation.viewport
        return Click(float(self._dice.randrange(width)), float(self._dice.randrange(height)))


def _holds(element: DomElement, action: Action) -> bool:
    x, y = getattr(action, "x", None), getattr(action, "y", None)
    if x is None or y is None:
        return False
    return element.x <= x <= element.x + element.width and element.y <= y <= element.y + element.height


def _beside(right: Click, viewport: tuple[int, int], dice: random.Random) -> Click:
    def moved(place: float, size: int) -> float:
        return min(max(place + dice.choice((-1, 1)) * dice.uniform(15, 70), 0.0), size - 1.0)

    return Click(moved(right.x, viewport[0]), moved(right.y, viewport[1]))
