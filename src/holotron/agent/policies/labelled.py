"""A learner acts and a teacher says at every step what it would have done: data for imitation in the states that the
learner itself reaches (DAgger).

    policy = LabelledPolicy(EnginePolicy(...), SolverPolicy())
    ...
    step.reply.action   # what the learner did
    step.reply.label    # what the teacher would have done; None where it was at a loss

Only the learner's actions are carried out. The teacher looks at every screen of the episode, so one that remembers
keeps its memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holotron.agent.policies.base import GaveUp, Policy, PolicySession, TakesInstructions
from holotron.envs.base import Environment
from holotron.types import Observation, Reply, Task


class LabelledPolicy:
    def __init__(self, learner: Policy, teacher: Policy) -> None:
        self._learner = learner
        self._teacher = teacher

    @property
    def name(self) -> str:
        return self._learner.name

    def describe(self) -> dict[str, Any]:
        return {**self._learner.describe(), "teacher": self._teacher.describe()}

    async def start(self, task: Task, environment: Environment | None = None) -> LabelledSession:
        teacher = await self._teacher.start(task, environment)
        return LabelledSession(await self._learner.start(task, environment), teacher)

    async def close(self) -> None:
        try:
            await self._learner.close()
        finally:
            await self._teacher.close()


class LabelledSession:
    def __init__(self, learner: PolicySession, teacher: PolicySession) -> None:
        self._learner = learner
        self._teacher = teacher

    async def act(self, observation: Observation, *, feedback: str = "", must_answer: bool = False) -> Reply:
        try:
            label = (await self._teacher.act(observation)).action
        except GaveUp:
            label = None
        reply = await self._learner.act(observation, feedback=feedback, must_answer=must_answer)
        return replace(reply, label=label)

    def instruct(self, text: str) -> None:
        if isinstance(self._learner, TakesInstructions):
            self._learner.instruct(text)

    async def close(self) -> None:
        try:
            await self._learner.close()
        finally:
            await self._teacher.close()
