"""Asking a person: never, before every action, or before anything happens that changes the world.

    Episode(..., approval=Approval("critical", approver))

`approver` gets a `Question` and returns a `Decision` (`envs.effects.question`); without one (a batch run has nobody to
ask) everything that would have to be asked about is refused, and the agent is told so. What changes the world is the
environment's to say, by what leaves it (`envs.effects`); one that cannot say is taken to hold nothing critical, as the
toy pages of a benchmark.
"""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from holotron.agent.describe import describe
from holotron.envs.effects.judging import origin_of
from holotron.envs.effects.question import REFUSE, Approver, Decision, Kind, Question
from holotron.quoting import one_line
from holotron.types import Action, Answer, Observation

Level = Literal["never", "critical", "always"]


@runtime_checkable
class AsksFirst(Protocol):
    """An environment that holds what would change the world until it was asked about."""

    def ask_first(self, ask: Approver) -> None: ...


class Approval:
    def __init__(self, level: Level, approver: Approver | None = None) -> None:
        self.level = level
        self._approver = approver
        self._trusted: set[str] = set()  # origins of pages on which actions need no more asking

    def question(self, action: Action, observation: Observation) -> Question | None:
        """What has to be asked before this action, whatever it brings about."""
        origin = origin_of(observation.url)
        if self.level != "always" or isinstance(action, Answer) or origin in self._trusted:
            return None
        summary = f"{describe(action)} on {one_line(observation.url, 200)}"
        return Question(Kind.ACTION, summary, origin, page=observation.url)

    async def decide(self, question: Question) -> Decision:
        decision = REFUSE if self._approver is None else await self._approver(question)
        if question.kind is Kind.ACTION and decision.allow and decision.scope == "site":
            self._trusted.add(question.origin)
        return decision
