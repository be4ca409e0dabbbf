"""What happens in an episode, as it happens: one stream that terminal, recorder, report, live page and training read.

    observed                the policy is shown a screen
      thought               it has replied: a thought, an action, or something unusable
        asked               a person is asked whether something may happen (only if somebody wants to be asked)
        answered            and has answered; both may come several times, also while the action is being done
        refused             it is not done, or what it would have brought about was held back: the reply was unusable,
                            a person said no, or a rule did
        acted               it is done, and this came of it
    ...
    ended                   with the whole trajectory

Every `thought` is followed by exactly one `refused` or `acted`, unless the episode ends in between. `Recording` is the
first reader of the stream: it folds events into steps and the trajectory, so what is stored is what was told.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from holotron.envs.effects.question import Decision, Question
from holotron.types import Action, Answer, Observation, Outcome, Reply, Step, StepResult, Task, Trajectory


@dataclass(frozen=True, slots=True)
class Observed:
    step: int  # the number of the step that begins, from 0
    observation: Observation


@dataclass(frozen=True, slots=True)
class Thought:
    step: int
    reply: Reply
    seconds: float


@dataclass(frozen=True, slots=True)
class Asked:
    step: int
    action: Action
    question: Question


@dataclass(frozen=True, slots=True)
class Answered:
    step: int
    question: Question
    decision: Decision
    seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    step: int
    reason: str  # as the policy is told
    question: str = ""  # what a person said no to; empty where the reply itself was unusable
    result: StepResult | None = None  # what came of it all the same: the click was made, its effect was held back
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Acted:
    step: int
    action: Action
    result: StepResult
    seconds: float


@dataclass(frozen=True, slots=True)
class Ended:
    trajectory: Trajectory


Event = Observed | Thought | Asked | Answered | Refused | Acted | Ended
Listener = Callable[[str, Event], None]  # the episode's id, and what happened


class Recording:
    """An episode's events, folded into steps."""

    def __init__(self, id: str, task: Task, attempt: int = 0) -> None:
        self.id = id
        self.task = task
        self.attempt = attempt
        self.steps: list[Step] = []
        self.tokens = 0  # prompt (what was not cached) and generated, together
        self._reward = 0.0
        self._answer = ""
        self._seen: Observation | None = None
        self._said: Thought | None = None
        self._final: Observation | None = None
        self._started_at = time.time()
        self._started = time.monotonic()

    def hear(self, event: Event) -> None:
        match event:
            case Observed():
                self._seen = event.observation
                self._final = event.observation
            case Thought():
                self._said = event
                self.tokens += _cost(event.reply)
            case Refused():
                asked = {"asked": event.question} if event.question else {}
                result = event.result or StepResult(self._look)
                action = self._said.reply.action if self._said else None
                if event.result is not None and isinstance(action, Answer):
                    self._answer = action.content
                self._record(replace(result, info={**result.info, "refused": True, **asked}), event.seconds)
                self._final = result.observation
            case Acted():
                self._record(event.result, event.seconds)
                self._final = event.result.observation
                if isinstance(event.action, Answer):
                    self._answer = event.action.content

    def trajectory(self, outcome: Outcome, error: str = "") -> Trajectory:
        """What is on record so far, under the given outcome (also for an episode that was cut from outside)."""
        return Trajectory(
            id=self.id,
            task=self.task,
            steps=tuple(self.steps),
            outcome=outcome,
            reward=self._reward,
            answer=self._answer,
            error=error,
            attempt=self.attempt,
            started_at=self._started_at,
            seconds=time.monotonic() - self._started,
            final=self._final,
        )

    @property
    def _look(self) -> Observation:
        assert self._seen is not None, "nothing is thought before something is observed"
        return self._seen

    def _record(self, result: StepResult, seconds: float) -> None:
        said, self._said = self._said, None
        assert said is not None, "nothing is done before something is thought"
        step = Step(
            len(self.steps), self._look, said.reply, result.reward, result.done, said.seconds, seconds, result.info
        )
        self.steps.append(step)
        self._reward += result.reward


def _cost(reply: Reply) -> int:
    completion = reply.completion
    generated = completion.generated_tokens or len(completion.tokens)
    return completion.prompt_tokens - completion.cached_tokens + generated
