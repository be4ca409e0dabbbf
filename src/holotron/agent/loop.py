"""One episode: look, decide, act, record, until the task ends or a limit does.

    trajectory = await Episode(environment, policy, task).run()

The loop knows an `Environment` and a `Policy` and nothing of what is behind them. It never raises for what happens
inside an episode: each way to end is an `Outcome`. Faults are told apart by whose call failed, because only the
environment's are worth a retry and none of them may be counted against the agent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from holotron.agent.approval import Approval, AsksFirst
from holotron.agent.describe import describe
from holotron.agent.events import (
    Acted,
    Answered,
    Asked,
    Author,
    Began,
    Ended,
    Event,
    Listener,
    Observed,
    Recording,
    Refused,
    Thought,
)
from holotron.agent.policies.base import GaveUp, Policy, PolicySession, losses
from holotron.agent.stuck import CircleDetector
from holotron.envs.base import Environment
from holotron.envs.effects.question import Decision, Kind, Question
from holotron.envs.patience import Patience
from holotron.errors import CapacityError, ConfigError, EnvironmentFault, MissingDependency, PolicyError
from holotron.quoting import one_line
from holotron.types import Action, Answer, Observation, Outcome, Reply, StepResult, Task, Trajectory

log = logging.getLogger(__name__)
T = TypeVar("T")

REFUSED = "The user did not allow this action.{why} Choose another one, or answer."
_HELD_BACK = (
    "The user did not allow what this action would have done ({what}), so it did not happen.{why} "
    "Choose another one, or answer."
)
_CIRCLE = (
    "You have made this very action on this very screen {count} times and nothing came of it. Do something different."
)


@dataclass(frozen=True, slots=True)
class Limits:
    """When an episode ends by itself."""

    steps: int = 30
    seconds: float = 600.0
    tokens: int | None = None  # prompt (what was not cached) and generated tokens together
    invalid_replies: int = 4  # in a row
    repeats: int = 5  # the same action on the same screen; a warning goes out two before
    environment_seconds: float = 120.0  # one call of the environment; beyond it, the environment is broken
    answer_when_over: bool = False  # the last of the steps, or what comes when tokens are used up, must be an answer

    def describe(self) -> dict[str, Any]:
        return asdict(self)


class EpisodeOver(Exception):
    """The episode is over."""

    def __init__(self, outcome: Outcome, error: str = "") -> None:
        self.outcome = outcome
        self.error = error


class Episode:
    def __init__(
        self,
        environment: Environment,
        policy: Policy,
        task: Task,
        *,
        id: str | None = None,
        attempt: int = 0,
        limits: Limits = Limits(),
        approval: Approval | None = None,
        listeners: Sequence[Listener] = (),
    ) -> None:
        """`listeners` are told everything that happens; see `events`."""
        self._environment = environment
        self._policy = policy
        self._limits = limits
        self._approval = approval
        self._listeners = listeners
        self._circles = CircleDetector()
        self._patience = Patience()
        self._asking: tuple[int, Reply, Observation] | None = None  # the step that questions are about
        self._task = task
        self._recording = Recording(id or task.id, task, attempt)
        self._started = time.monotonic()

    async def run(self) -> Trajectory:
        session: PolicySession | None = None
        try:
            if (
                self._approval is not None
                and self._approval.level != "never"
                and isinstance(self._environment, AsksFirst)
            ):
                self._environment.ask_first(self._decide)
            observation = await self._env(self._environment.reset(self._task))
            self._recording.task = task = self._environment.task
            self._tell(Began(task, self._recording.attempt))
            self._tell(Observed(0, observation))
            session = await self._ask(self._policy.start(task, self._environment))
            await self._turns(session, observation)
        except EpisodeOver as end:
            return self.end(end.outcome, end.error)
        finally:
            if session is not None:
                await self._close(session)
        raise AssertionError("an episode ends with an outcome")

    def end(self, outcome: Outcome, error: str = "") -> Trajectory:
        """What is on record so far, under the given outcome; called from outside for an episode that was cut."""
        trajectory = self._recording.trajectory(outcome, error)
        self._tell(Ended(trajectory))
        return trajectory

    def _tell(self, event: Event) -> None:
        self._recording.hear(event)
        for listener in self._listeners:
            listener(self._recording.id, event)

    # -------------------------------------------------------------------------------------------------------- turns

    async def _turns(self, session: PolicySession, observation: Observation) -> None:
        feedback = ""
        invalid = 0
        while True:
            observation, feedback = await self._between(session, observation, feedback)
            step = len(self._recording.steps)
            over = self._over()
            if over and not self._limits.answer_when_over:
                raise EpisodeOver(Outcome.EXHAUSTED, over)
            began = time.monotonic()
            reply = await self._think(session.act(observation, feedback=feedback, must_answer=bool(over)))
            if reply is None:
                continue
            self._tell(Thought(step, reply, time.monotonic() - began))
            self._asking = (step, reply, observation)
            ruled = await self._ruled(step, reply, observation)
            if ruled is None:
                continue
            author: Author = "agent" if ruled[0] is reply else "person"
            reply, refusal = ruled
            if refusal is None:
                assert reply.action is not None
                began = time.monotonic()
                result = await self._env(self._environment.step(reply.action))
                refusal = _held_back(step, result, time.monotonic() - began)
            if refusal is not None:
                self._tell(refusal)
                feedback = refusal.reason
                if refusal.result is not None:
                    if refusal.result.done or isinstance(reply.action, Answer):
                        raise EpisodeOver(verdict_of(refusal.result))
                    observation = refusal.result.observation
                    self._tell(Observed(step + 1, observation))
                invalid += not refusal.unasked
                if over:
                    raise EpisodeOver(Outcome.EXHAUSTED, over)
                if invalid >= self._limits.invalid_replies:
                    raise EpisodeOver(Outcome.FAILURE, f"{invalid} unusable replies in a row; the last: {feedback}")
                continue
            invalid = 0
            assert reply.action is not None
            self._tell(Acted(step, reply.action, result, time.monotonic() - began, author))
            if result.done or isinstance(reply.action, Answer):
                raise EpisodeOver(verdict_of(result))
            if over:
                raise EpisodeOver(Outcome.EXHAUSTED, over)
            feedback = self._circle(reply.action, observation)
            observation = result.observation
            self._tell(Observed(step + 1, observation))

    # What a person may do to an episode, see `steered`; nobody does here.

    async def _between(
        self, session: PolicySession, observation: Observation, feedback: str
    ) -> tuple[Observation, str]:
        """Before a turn of the policy: what it is shown and told."""
        return observation, feedback

    async def _think(self, call: Awaitable[Reply]) -> Reply | None:
        """None: it was interrupted, and the turn begins anew."""
        return await self._ask(call)

    async def _ruled(self, step: int, reply: Reply, observation: Observation) -> tuple[Reply, Refused | None] | None:
        """What is done of a reply, or why it is not; None: nothing, the turn begins anew."""
        return reply, await self._refusal(step, reply, observation)

    def _over(self) -> str:
        limits = self._limits
        if time.monotonic() - self._started >= limits.seconds:
            raise EpisodeOver(Outcome.EXHAUSTED, f"{limits.seconds:g} s are over")
        if self._recording.turns >= limits.steps - limits.answer_when_over:
            return f"{limits.steps} steps are used up"
        if limits.tokens is not None and self._recording.tokens >= limits.tokens:
            return f"{limits.tokens} tokens are used up"
        return ""

    async def _refusal(self, step: int, reply: Reply, observation: Observation) -> Refused | None:
        """Why this reply is not carried out; None if it is."""
        if reply.error or reply.action is None:
            return Refused(step, reply.error or "the reply holds no action")
        if self._approval is None:
            return None
        question = self._approval.question(reply.action, observation)
        if question is None:
            return None
        decision = await self._env(self._decide(question), bounded=False)
        return None if decision.allow else Refused(step, REFUSED.format(why=why(decision.reason)), question.summary)

    async def _decide(self, question: Question) -> Decision:
        """Ask what the environment, or the level, wants to know, with what the agent thought and saw."""
        assert self._approval is not None and self._asking is not None
        step, reply, seen = self._asking
        assert reply.action is not None
        thought = reply.thought or reply.completion.reasoning
        action = "" if question.kind is Kind.ACTION else describe(reply.action)
        question = replace(question, thought=thought, action=action, screenshot=seen.image, mime=seen.mime)
        self._tell(Asked(step, reply.action, question))
        began = time.monotonic()
        with self._patience.stopped():
            decision = await self._approval.decide(question)
        seconds = time.monotonic() - began
        self._started += seconds  # a person's time to decide is not the agent's
        self._tell(Answered(step, question, decision, seconds))
        return decision

    def _circle(self, action: Action, observation: Observation) -> str:
        count = self._circles.repeats(action, observation)
        if count >= self._limits.repeats:
            raise EpisodeOver(Outcome.STUCK, f"the same action on the same screen {count} times")
        return _CIRCLE.format(count=count) if count >= max(self._limits.repeats - 2, 2) else ""

    # ------------------------------------------------------------------------------------------------- whose fault

    async def _env(self, call: Awaitable[T], *, bounded: bool = True) -> T:
        seconds = self._limits.environment_seconds
        try:
            async with self._patience.limit(seconds if bounded else None) as limit:
                return await call
        except EnvironmentFault as fault:
            raise EpisodeOver(Outcome.ENVIRONMENT_ERROR, str(fault)) from None
        except (ConfigError, MissingDependency):  # nothing to do with this episode: the caller's setup is wrong
            raise
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():  # else it is one of the environment's own
                late = f"the environment did not answer within {seconds:g} s"
                raise EpisodeOver(Outcome.ENVIRONMENT_ERROR, late) from None
            log.exception("the environment raised an unexpected error in %s", self._recording.id)
            raise EpisodeOver(Outcome.ENVIRONMENT_ERROR, f"{type(error).__name__}: {error}") from None

    async def _ask(self, call: Awaitable[T]) -> T:
        left = self._limits.seconds - (time.monotonic() - self._started)
        try:
            async with asyncio.timeout(max(left, 0.0)) as limit:

                def give_back(seconds: float) -> None:
                    self._started += seconds
                    if (end := limit.when()) is not None and not limit.expired():
                        limit.reschedule(end + seconds)

                with losses(give_back):
                    return await call
        except CapacityError as full:
            raise EpisodeOver(Outcome.EXHAUSTED, str(full)) from None
        except EnvironmentFault as fault:  # a scripted policy reads the page, and the page may break under it
            raise EpisodeOver(Outcome.ENVIRONMENT_ERROR, str(fault)) from None
        except GaveUp as error:
            raise EpisodeOver(Outcome.FAILURE, str(error)) from None
        except PolicyError as error:
            raise EpisodeOver(Outcome.POLICY_ERROR, str(error)) from None
        except (ConfigError, MissingDependency):
            raise
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():  # else it is one of the policy's own
                if left < self._limits.seconds / 2:
                    raise EpisodeOver(Outcome.EXHAUSTED, f"{self._limits.seconds:g} s are over") from None
                # A server that hangs would look like an agent that fails.
                raise EpisodeOver(Outcome.POLICY_ERROR, f"the policy did not answer within {left:.3g} s") from None
            log.exception("the policy raised an unexpected error in %s", self._recording.id)
            raise EpisodeOver(Outcome.POLICY_ERROR, f"{type(error).__name__}: {error}") from None

    async def _close(self, session: PolicySession) -> None:
        try:
            await session.close()
        except Exception:
            log.exception("closing the policy's session failed in %s", self._recording.id)


def _held_back(step: int, result: StepResult, seconds: float) -> Refused | None:
    """An action that was made, of which something did not leave the environment."""
    if not result.info.get("refused"):
        return None
    what, reasons = str(result.info.get("asked", "")), str(result.info.get("reasons", ""))
    return Refused(step, _HELD_BACK.format(what=what, why=why(reasons)), what, result, seconds)


def why(reason: str) -> str:
    return f" The reason: {one_line(reason, 300)}." if reason else ""


def verdict_of(result: StepResult) -> Outcome:
    """The environment's word counts; where it has none, nobody has judged the episode."""
    if result.success is None:
        return Outcome.UNSCORED
    return Outcome.SUCCESS if result.success else Outcome.FAILURE
