"""What happens in an episode, as it happens: one stream that terminal, recorder, report, live page and training read.

    began                   the task, its goal filled in
    observed                the policy is shown a screen
      thought               it has replied: a thought, an action, or something unusable
        asked               a person is asked whether something may happen (only if somebody wants to be asked)
        answered            and has answered; both may come several times, also while the action is being done
        edited              a person has put another action in its place
        refused             it is not done, or what it would have brought about was held back: the reply was unusable,
                            a person said no, or a rule did
        acted               it is done, and this came of it
    steered                 a person holds the agent back or lets it go on, takes over or hands back, instructs, stops
    ...
    ended                   with the whole trajectory

Every `thought` is followed by exactly one `refused` or `acted`, unless the episode ends in between. While a person has
control, `acted` comes without a `thought`, and `observed` several times for one step: the screen is looked at again.
`Recording` is the first reader of the stream: it folds events into steps and the trajectory, so what is stored is what
was told.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from holotron.addresses import split_login
from holotron.envs.effects.question import Decision, Question
from holotron.types import Action, Answer, Completion, Observation, Outcome, Reply, Step, StepResult, Task, Trajectory

Author = Literal["agent", "person"]


@dataclass(frozen=True, slots=True)
class Began:
    task: Task
    attempt: int


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
class Edited:
    step: int
    proposed: Action | None  # None: the reply was unusable
    action: Action
    reason: str = ""  # in the person's words


@dataclass(frozen=True, slots=True)
class Refused:
    step: int
    reason: str  # as the policy is told
    question: str = ""  # what a person said no to; empty where the reply itself was unusable
    result: StepResult | None = None  # what came of it all the same: the click was made, its effect was held back
    seconds: float = 0.0
    unasked: bool = False  # a person said no of their own accord


@dataclass(frozen=True, slots=True)
class Acted:
    step: int
    action: Action
    result: StepResult
    seconds: float
    author: Author = "agent"


# held: the agent stands before its action until somebody says go; released: it goes on.
Steer = Literal["held", "released", "took over", "handed back", "instructed", "stopped"]


@dataclass(frozen=True, slots=True)
class Steered:
    step: int
    what: Steer
    text: str = ""  # the instruction
    seconds: float = 0.0  # for how long the agent was held, or a person had control


@dataclass(frozen=True, slots=True)
class Ended:
    trajectory: Trajectory


Event = Began | Observed | Thought | Asked | Answered | Edited | Refused | Acted | Steered | Ended
Listener = Callable[[str, Event], None]  # the episode's id, and what happened


class Recording:
    """An episode's events, folded into steps."""

    def __init__(self, id: str, task: Task, attempt: int = 0) -> None:
        self.id = id
        # What is recorded, and told to policies, holds no password of an address.
        self.task = replace(task, start_url=split_login(task.start_url)[0]) if task.start_url else task
        self.attempt = attempt
        self.steps: list[Step] = []
        self.turns = 0  # of the policy; a person's own steps are none
        self.tokens = 0  # prompt (what was not cached) and generated, together
        self._reward = 0.0
        self._answer = ""
        self._seen: Observation | None = None
        self._said: Thought | None = None
        self._edited: Edited | None = None
        self._instruction = ""
        self._steered: list[dict[str, Any]] = []  # what people did since the last step
        self._assisted = False
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
                self.turns += 1
                self.tokens += _cost(event.reply)
            case Answered():
                said: dict[str, Any] = {"allow": event.decision.allow, "reason": event.decision.reason}
                self._note("answered", event.seconds, question=event.question.summary, **said)
            case Edited():
                self._edited = event
            case Steered():
                self._assisted |= event.what in ("instructed", "stopped")
                if event.what == "instructed":
                    self._instruction = "\n".join(filter(None, (self._instruction, event.text)))
                if event.what not in ("held", "took over"):  # their ends say how long they took
                    self._note(event.what, event.seconds, **({"text": event.text} if event.text else {}))
            case Refused():
                self._assisted |= event.unasked
                asked = {"asked": event.question} if event.question else {}
                result = event.result or StepResult(self._look)
                action = self._said.reply.action if self._said else None
                if event.result is not None and isinstance(action, Answer):
                    self._answer = action.content
                self._record(replace(result, info={**result.info, "refused": True, **asked}), event.seconds)
                self._final = result.observation
            case Acted():
                self._record(event.result, event.seconds, event)
                self._final = event.result.observation
                if isinstance(event.action, Answer):
                    self._answer = event.action.content

    def trajectory(self, outcome: Outcome, error: str = "") -> Trajectory:
        """What is on record so far, under the given outcome (also for an episode that was cut from outside)."""
        if self._steered and self.steps:  # nothing came after it
            last = self.steps[-1]
            told = [*last.info.get("steered", ()), *self._steered]
            self.steps[-1] = replace(last, info={**last.info, "steered": told})
            self._steered = []
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
            assisted=self._assisted,
        )

    @property
    def _look(self) -> Observation:
        assert self._seen is not None, "nothing is thought before something is observed"
        return self._seen

    def _note(self, what: str, seconds: float, **more: Any) -> None:
        self._steered.append({"what": what, "seconds": round(seconds, 3), **more})

    def _record(self, result: StepResult, seconds: float, acted: Acted | None = None) -> None:
        said, self._said = self._said, None
        edited, self._edited = self._edited, None
        by_person = edited is not None or (acted is not None and acted.author == "person")
        assert said is not None or by_person, "nothing is done before something is thought"
        reply = said.reply if said is not None else Reply(Completion(""))
        step = Step(
            index=len(self.steps),
            observation=self._look,
            reply=reply,
            reward=result.reward,
            done=result.done,
            policy_seconds=0.0 if said is None else said.seconds,
            environment_seconds=seconds,
            info={**result.info, "steered": self._steered} if self._steered else result.info,
            instruction="" if said is None else self._instruction,
        )
        if by_person:
            self._assisted = True
            action = acted.action if acted is not None else edited.action if edited is not None else None
            why = "" if edited is None else edited.reason
            done = replace(reply, action=action, thought=why, error="", label=None)
            step = replace(step, reply=done, author="person", proposed=reply.action)
        self._steered = []
        if said is not None:
            self._instruction = ""
        self.steps.append(step)
        self._reward += result.reward


def _cost(reply: Reply) -> int:
    completion = reply.completion
    generated = completion.generated_tokens or len(completion.tokens)
    return completion.prompt_tokens - completion.cached_tokens + generated
