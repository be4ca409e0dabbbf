"""A function as a policy: teachers that solve tasks by rule, and tests.

The function is given the environment (a teacher may read the page to decide where to act), the observation and the
number of the step, and returns an action; it acts through the same pixels as everyone else. A script that returns None
or raises `PolicyError` does not know what to do: the episode has failed.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from holotron.agent.policies.base import GaveUp
from holotron.envs.base import Environment
from holotron.errors import PolicyError
from holotron.types import Action, Answer, Completion, Observation, Reply, Task

Script = Callable[[Any, Observation, int], Action | Awaitable[Action | None] | None]


class ScriptedPolicy:
    def __init__(self, script: Script, name: str = "scripted") -> None:
        self._script = script
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def describe(self) -> dict[str, Any]:
        return {"policy": "scripted", "script": self._name}

    async def start(self, task: Task, environment: Environment | None = None) -> _Session:
        return _Session(self._script, environment)

    async def close(self) -> None:
        pass


class _Session:
    def __init__(self, script: Script, environment: Environment | None) -> None:
        self._script = script
        self._environment = environment
        self._step = 0

    async def act(self, observation: Observation, *, feedback: str = "", must_answer: bool = False) -> Reply:
        if must_answer:
            return Reply(Completion(text=""), action=Answer(""))
        try:
            action = self._script(self._environment, observation, self._step)
            if inspect.isawaitable(action):
                action = await action
        except PolicyError as error:
            raise GaveUp(str(error)) from error
        self._step += 1
        if action is None:
            raise GaveUp(f"the script does not know what to do at step {self._step}")
        return Reply(Completion(text=""), action=action)

    async def close(self) -> None:
        pass
