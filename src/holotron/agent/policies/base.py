"""What a policy is, to everything that uses one: a thing that looks at a screen and says what to do.

    session = await policy.start(task, environment)
    reply = await session.act(observation)
    await session.close()

One policy serves many sessions at once; a session is one episode. Where the policy runs, in which words it thinks and
what it remembers is its own business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, runtime_checkable

from holotron.envs.base import Environment
from holotron.errors import PolicyError
from holotron.types import Observation, Reply, Task


class GaveUp(PolicyError):
    """The policy works but does not know what to do. A failure of this episode, and no sign that anything is broken."""


class PolicySession(Protocol):
    async def act(self, observation: Observation, *, feedback: str = "", must_answer: bool = False) -> Reply:
        """Decide on the next action. `feedback` says why the last reply was refused or led nowhere; `must_answer`
        allows nothing but an answer. An unusable reply comes back with `error` set; exceptions are for a policy that
        cannot answer at all (`PolicyError`) or has run out of context (`CapacityError`)."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class TakesInstructions(Protocol):
    """A session that can be told something by its user on the way; those that cannot get it as feedback."""

    def instruct(self, text: str) -> None:
        """Shown with the next screen, as the user's own words."""
        ...


class Policy(Protocol):
    @property
    def name(self) -> str: ...

    def describe(self) -> dict[str, Any]:
        """Everything needed to run it again, and no secret: it goes into manifests."""
        ...

    async def start(self, task: Task, environment: Environment | None = None) -> PolicySession:
        """Begin an episode. Only scripted teachers look at `environment`; models have their eyes, and may be asked
        about a picture that belongs to no environment."""
        ...

    async def close(self) -> None: ...


# ---------------------------------------------------------------------------------------------------------- lost time

_HEARS: ContextVar[Callable[[float], None] | None] = ContextVar("hears_of_lost_time", default=None)


def lose(seconds: float) -> None:
    """Said by a policy whose server refused or broke off: this was no thinking, and is not the agent's time."""
    if (hears := _HEARS.get()) is not None:
        hears(seconds)


@contextmanager
def losses(hears: Callable[[float], None]) -> Iterator[None]:
    """What a policy says is lost in here is told."""
    token = _HEARS.set(hears)
    try:
        yield
    finally:
        _HEARS.reset(token)
