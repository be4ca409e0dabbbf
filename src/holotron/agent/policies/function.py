"""A function of yours as a policy: it gets the task and what is on the screen, and returns an action.

    def act(task: Task, observation: Observation) -> Action:
        return Answer("done") if "Thank you" in observation.title else Click(100, 200)

    holotron.run("Send it.", url="https://example.com", policy=act)

It may be `async`, and may return a `Reply` to say what it thought. Where it raises, the episode ends as a policy error.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, get_args

from holotron.agent.policies.base import Policy
from holotron.envs.base import Environment
from holotron.errors import ConfigError, PolicyError
from holotron.types import Action, Completion, Observation, Reply, Task

Said = Action | Reply
Act = Callable[[Task, Observation], Said] | Callable[[Task, Observation], Awaitable[Said]]


def as_policy(given: Policy | Act) -> Policy:
    """A policy as it is; a function as one."""
    if hasattr(given, "start") and hasattr(given, "describe"):
        return given  # type: ignore[return-value]
    if not callable(given) or isinstance(given, type):
        raise ConfigError(
            f"policy is a model or an address (text), a holotron.Policy, or a function from (task, observation) to an "
            f"action; not {given!r:.80}"
        )
    return FunctionPolicy(given)


class FunctionPolicy:
    def __init__(self, act: Act) -> None:
        self._act = act

    @property
    def name(self) -> str:
        return getattr(self._act, "__qualname__", type(self._act).__name__)

    def describe(self) -> dict[str, Any]:
        return {"policy": "function", "function": f"{getattr(self._act, '__module__', '')}.{self.name}"}

    async def start(self, task: Task, environment: Environment | None = None) -> _Session:
        return _Session(self._act, task, self.name)

    async def close(self) -> None:
        pass


class _Session:
    def __init__(self, act: Act, task: Task, name: str) -> None:
        self._act = act
        self._task = task
        self._name = name

    async def act(self, observation: Observation, *, feedback: str = "", must_answer: bool = False) -> Reply:
        said: Any = self._act(self._task, observation)
        if inspect.isawaitable(said):
            said = await said
        if isinstance(said, Reply):
            return said
        if not isinstance(said, get_args(Action)):
            raise PolicyError(
                f"{self._name} returned {said!r:.100}; return an action of holotron.types, such as Click(100, 200) or "
                'Answer("done")'
            )
        return Reply(Completion(text=""), action=said)

    async def close(self) -> None:
        pass
