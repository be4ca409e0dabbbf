"""An episode that a person can steer: hold it back, correct it, take over, hand back, instruct it, stop it.

    episode = episode_of(environment, policy, task, steering=Steering())     # an ordinary one without `steering`

Whatever a person does is an event, and becomes part of the trajectory (`events.Recording`): an action of theirs is a
step whose author is the person, an edited one keeps what the agent had proposed. The agent is told in words what was
done in its place. Its clocks stand still meanwhile, and a person's steps are not counted against its limits.

What a person does is done through the same environment, guards and rules included. Questions about what an action would
bring about (`approval`) are not put to the person who makes it. What they type into a password field is not recorded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from holotron.agent.describe import describe
from holotron.agent.events import Acted, Edited, Observed, Refused, Steered
from holotron.agent.loop import REFUSED, Episode, EpisodeOver, verdict_of, why
from holotron.agent.policies.base import PolicySession, TakesInstructions
from holotron.agent.steering import Do, Edit, HandBack, Refuse, Steering
from holotron.envs.base import Environment
from holotron.envs.effects.question import ALLOW_ONCE, Decision, Question
from holotron.types import Action, Answer, Click, Completion, Observation, Outcome, PressKeys, Reply, Write

STOPPED = "stopped by a person"
MASK = "•••"  # in place of what a person typed into a password field
INSTEAD = "I had this done instead of your last action: {what}.{why}"
TOLD = 8  # of a person's actions, how many the agent is told one by one


Steer = Callable[[str], Steering]  # an episode's id -> the hand on it, for each attempt anew


@runtime_checkable
class KnowsPrivateFields(Protocol):
    """An environment that can say whether what is typed now is nobody else's business."""

    async def private_field(self) -> bool: ...


def episode_of(*given: Any, steering: Steering | None = None, **options: Any) -> Episode:
    """An episode, steered if somebody wants to. Arguments are those of `Episode`."""
    if steering is None:
        return Episode(*given, **options)
    return SteeredEpisode(*given, steering=steering, **options)


class SteeredEpisode(Episode):
    def __init__(self, *given: Any, steering: Steering, **options: Any) -> None:
        super().__init__(*given, **options)
        self._steering = steering
        self._dropped: Reply | None = None  # what the agent had wanted to do when a person took over
        self._instead = ""  # told with the next turn: what a person had done in place of its action

    # ------------------------------------------------------------------------------------------- the agent's turns

    async def _between(
        self, session: PolicySession, observation: Observation, feedback: str
    ) -> tuple[Observation, str]:
        said = [self._instead] if self._instead else []
        self._instead = ""
        if self._steering.taken and not self._steering.stopping:
            observation, told = await self._persons_turn(observation)
            said.append(told)
            feedback = ""
        if self._steering.stopping:
            raise self._stopped()
        for text in self._steering.instructions():
            self._tell(Steered(self._step, "instructed", text))
            said.append(text)
        words = " ".join(said)
        if words and isinstance(session, TakesInstructions):
            session.instruct(words)
        elif words:
            feedback = " ".join(filter(None, (feedback, f"The user says: {words}")))
        return observation, feedback

    async def _think(self, call: Awaitable[Reply]) -> Reply | None:
        thinking = asyncio.ensure_future(self._ask(call))
        interrupted = asyncio.ensure_future(self._steering.interrupted())
        try:
            await asyncio.wait({thinking, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            return thinking.result() if thinking.done() else None
        finally:
            thinking.cancel()
            interrupted.cancel()
            await asyncio.wait({thinking, interrupted})
            if not thinking.cancelled():
                thinking.exception()  # what it failed with in the very moment it was interrupted is of no interest

    async def _ruled(self, step: int, reply: Reply, observation: Observation) -> tuple[Reply, Refused | None] | None:
        with self._held(step):
            ruling = await self._steering.ruling(step)
        match ruling:
            case "stop":
                raise self._stopped()
            case "taken":
                self._dropped = reply
                return None
            case Refuse():
                what = "an unusable reply" if reply.action is None else describe(reply.action)
                return reply, Refused(step, REFUSED.format(why=why(ruling.reason)), what, unasked=True)
            case Edit():
                self._tell(Edited(step, reply.action, ruling.action, ruling.reason))
                edited = replace(reply, action=ruling.action, error="", thought=ruling.reason)
                self._asking = (step, edited, observation)
                self._instead = INSTEAD.format(what=describe(ruling.action), why=why(ruling.reason))
                return edited, None
        return await super()._ruled(step, reply, observation)

    async def _decide(self, question: Question) -> Decision:
        if not self._steering.taken:
            return await super()._decide(question)
        return ALLOW_ONCE  # the person who would be asked is the one who does it

    # ---------------------------------------------------------------------------------------------- a person's turn

    async def _persons_turn(self, observation: Observation) -> tuple[Observation, str]:
        """Act for a person until they hand back; the screen then, and what the agent is told of it."""
        steering, done, notes = self._steering, list[Action](), list[str]()
        first = self._step
        word = ""
        with self._stopped_clock():
            began = time.monotonic()
            self._tell(Steered(first, "took over"))
            while (command := await steering.by_hand()) is not None:
                if isinstance(command, HandBack):
                    word = command.text.strip()
                    break
                if isinstance(command, Do):
                    for action in _singly(command.action):
                        observation, told = await self._do(action, observation)
                        done.append(told)
                else:
                    observation = await self._env(self._environment.observe())
                    self._tell(Observed(self._step, observation))
                if observation.note and observation.note not in notes:
                    notes.append(observation.note)
            if command is not None:
                steering.handed_back()
                observation = await self._env(self._environment.observe())
                self._tell(Observed(self._step, observation))
            seconds = time.monotonic() - began
        self._give_up_dropped()
        self._tell(Steered(self._step, "handed back", word, seconds))
        observation = replace(observation, note=" ".join(dict.fromkeys((*notes, *filter(None, (observation.note,))))))
        return observation, " ".join(filter(None, (_summary(done), word)))

    async def _do(self, action: Action, observation: Observation) -> tuple[Observation, Action]:
        """The screen afterwards, and the action as it may be told."""
        private = isinstance(action, Write | PressKeys) and await self._is_private()
        step, began = self._step, time.monotonic()
        self._asking = (step, Reply(Completion(""), action=action), observation)
        result = await self._env(self._environment.step(action))
        self._dropped = None  # this was done in its place
        if private:
            action = _masked(action)
            result = replace(result, info={**result.info, "private": True})
        self._tell(Acted(step, action, result, time.monotonic() - began, "person"))
        if result.done or isinstance(action, Answer):
            raise EpisodeOver(verdict_of(result))
        self._tell(Observed(step + 1, result.observation))
        return result.observation, action

    async def _is_private(self) -> bool:
        environment: Environment = self._environment
        return isinstance(environment, KnowsPrivateFields) and await self._env(environment.private_field())

    def _give_up_dropped(self) -> None:
        """The person who took over has done nothing instead: the reply is on record as one that was not carried out."""
        reply, self._dropped = self._dropped, None
        if reply is not None:
            what = "an unusable reply" if reply.action is None else describe(reply.action)
            self._tell(Refused(self._step, REFUSED.format(why=""), what, unasked=True))

    # ------------------------------------------------------------------------------------------------------- clocks

    @property
    def _step(self) -> int:
        return len(self._recording.steps)

    def _stopped(self) -> EpisodeOver:
        self._tell(Steered(self._step, "stopped"))
        return EpisodeOver(Outcome.EXHAUSTED, STOPPED)

    @contextmanager
    def _held(self, step: int) -> Iterator[None]:
        """Told only where the agent has to wait."""
        if not self._steering.paused:
            yield
            return
        began = time.monotonic()
        self._tell(Steered(step, "held"))
        with self._stopped_clock():
            yield
        self._tell(Steered(step, "released", seconds=time.monotonic() - began))

    @contextmanager
    def _stopped_clock(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._started += time.monotonic() - began


def _singly(action: Action) -> list[Action]:
    """Writing at a place is a click and then keys: whether the field is a private one is known once it has the
    focus."""
    if isinstance(action, Write) and action.x is not None and action.y is not None:
        return [Click(action.x, action.y, action.element), replace(action, x=None, y=None)]
    return [action]


def _masked(action: Action) -> Action:
    if isinstance(action, Write):
        return replace(action, content=MASK)
    keys = action.keys if isinstance(action, PressKeys) else ()
    return PressKeys(tuple(MASK if len(key) == 1 else key for key in keys))


def _summary(done: list[Action]) -> str:
    if not done:
        return "I had control for a moment and changed nothing. Decide anew."
    told = "; ".join(map(describe, done[-TOLD:]))
    more = f"{len(done) - TOLD} actions, then " if len(done) > TOLD else ""
    return f"I took over and did this in your place: {more}{told}. Go on from the screen as it is now."
