"""The environment contract: everything an agent can act in looks like this.

    environment = ...                       # leased from a pool
    observation = await environment.reset(task)
    while True:
        result = await environment.step(action)
        if result.done: break
    await environment.close()

Rules. `reset` may be called again and again on one environment; the same task and seed give the same start. A
`step` that the page refuses (no such tab, navigation blocked) is not an exception: it returns an observation
whose `note` says so. A reward is any number. A result that ends the episode says in `success` whether the task was
done: True, False, or None when nobody here can tell, whatever the reward. Exceptions are for the environment itself:
`EnvironmentFault` means this lease is broken, get a new one. `close` never raises and leaves no process behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar, runtime_checkable

from holotron.types import Action, Observation, StepResult, Task


@runtime_checkable
class Environment(Protocol):
    @property
    def task(self) -> Task:
        """The current task with the goal filled in; valid after `reset`."""
        ...

    async def reset(self, task: Task) -> Observation: ...

    async def observe(self) -> Observation: ...

    async def step(self, action: Action) -> StepResult: ...

    async def close(self) -> None: ...


E = TypeVar("E", bound=Environment)


class EnvironmentPool(Protocol[E]):
    """Hands out environments of one kind. `release(broken=True)` throws the environment away instead of reusing it."""

    async def acquire(self) -> E: ...

    async def release(self, environment: E, *, broken: bool = False) -> None: ...

    async def close(self) -> None: ...


class FreshEnvironments(Generic[E]):
    """A pool of environments that cost nothing to make: a new one for everybody who asks, and nothing to give back."""

    def __init__(self, make: Callable[[], E]) -> None:
        self._make = make

    async def acquire(self) -> E:
        return self._make()

    async def release(self, environment: E, *, broken: bool = False) -> None:
        pass

    async def close(self) -> None:
        pass
