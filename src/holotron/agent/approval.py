"""Asking a person before the agent acts: never, always, or before what cannot be taken back.

    Episode(..., approval=Approval("critical", ask))

`ask` gets a question and returns the answer; without one (a batch run has nobody to ask) everything that would have to
be asked about is refused, and the agent is told so. What is critical is the environment's to say, see
`envs.consequences`; one that cannot say is taken to hold nothing critical, as the toy pages of a benchmark.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, runtime_checkable

from holotron.agent.describe import describe
from holotron.envs.base import Environment
from holotron.types import Action, Answer, Observation

Level = Literal["never", "critical", "always"]
Ask = Callable[[str], Awaitable[bool]]


@runtime_checkable
class Foresees(Protocol):
    """An environment that can tell what an action would bring about."""

    async def consequence(self, action: Action) -> str: ...


class Approval:
    def __init__(self, level: Level, ask: Ask | None = None) -> None:
        self._level = level
        self._ask = ask

    async def question(self, action: Action, observation: Observation, environment: Environment) -> str:
        """What a person has to be asked before this is done; empty: nothing."""
        if self._level == "never" or isinstance(action, Answer):
            return ""
        consequence = await environment.consequence(action) if isinstance(environment, Foresees) else ""
        if self._level == "critical" and not consequence:
            return ""
        because = f" ({consequence})" if consequence else ""
        return f"{describe(action)}{because} on {observation.url}"

    async def allows(self, question: str) -> bool:
        return self._ask is not None and await self._ask(question)
