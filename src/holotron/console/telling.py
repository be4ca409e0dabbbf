"""One episode's events as documents on the board: its summary, and a card for every step."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from holotron.agent.events import (
    Acted,
    Answered,
    Asked,
    Began,
    Edited,
    Ended,
    Event,
    Observed,
    Recording,
    Refused,
    Steered,
    Thought,
)
from holotron.agent.steering import Steering
from holotron.console.cards import asked, card_of, meant, said, seen
from holotron.evals.album import short
from holotron.types import Observation, Step

if TYPE_CHECKING:
    from holotron.console.live import LiveRun

STUCK = 2  # the same action on the same screen, or replies that could not be carried out, so often in a row


class Telling:
    def __init__(self, run: LiveRun, id: str, steering: Steering) -> None:
        self._run = run
        self._board = run.board
        self._id = id
        self._steering = steering
        self._recording: Recording | None = None
        self._now = "starting"
        self._frame = ""  # the name of the screen that is shown
        self._used: set[str] = set()  # screens that steps show
        self._card: dict[str, Any] = {}  # of the step under way
        self._before: tuple[Any, str] = (None, "")
        self._repeats = self._refusals = 0
        self._tokens = [0, 0, 0]
        self._images = 0
        self._started = time.time()
        self._board.put(
            id, state="starting", since=self._started, started=self._started, paused=steering.paused, taken=False,
            stopping=False, question=None, outcome="", trouble="",
        )  # fmt: skip

    def hear(self, event: Event) -> bool:
        """Whether that was the last of it."""
        if isinstance(event, Began):
            self._begin(event)
        if self._recording is None:  # cut before it began
            return isinstance(event, Ended)
        self._recording.hear(event)
        match event:
            case Observed():
                self._look(event.observation)
                self._card = seen(event.observation, self._frame)
                self._put_card(event.step, state="seen", author="person" if self._steering.taken else "agent")
                self._state("person" if self._steering.taken else "thinking")
            case Thought():
                self._count(event)
                self._card |= said(event.reply, event.seconds)
                self._put_card(event.step, state="thought")
                self._state("acting", thought=short(event.reply.thought, 300), last=self._card["action_said"])
            case Asked():
                self._card["question"] = asked(event.question)
                self._put_card(event.step, state="asked")
                self._state("asked")
            case Answered():
                self._card.pop("question", None)
                self._put_card(event.step, state="thought")
                self._state("acting")
            case Edited():
                self._card |= meant("action", event.action) | meant("proposed", event.proposed)
                self._put_card(event.step, author="person", thought=event.reason)
            case Acted() | Refused():
                self._done(self._recording.steps[-1])
            case Steered():
                self._steered(event)
            case Ended():
                self._end(event)
                return True
        return False

    def _begin(self, event: Began) -> None:
        task = event.task
        self._recording = Recording(self._id, task, event.attempt)
        self._run.frames.begin(self._id)
        self._board.drop_cards(self._id)
        self._board.put(
            self._id, suite=task.suite, task=task.name, seed=task.seed, attempt=event.attempt,
            goal=short(task.goal, 3000), outcome="", answer="", error="", assisted=False, reward=None, steps=0,
            tokens=[0, 0, 0], images=0, seconds=0, frame="", thumb="", url="", title="", last="", thought="",
            trouble="again" if event.attempt else "", money=None,
        )  # fmt: skip

    def _look(self, observation: Observation) -> None:
        before, self._frame = self._frame, self._run.frames.keep(self._id, observation)
        if before != self._frame and before not in self._used:  # looked at again while a person has control
            self._run.frames.drop(self._id, before)
        self._board.put(
            self._id, frame=self._frame, viewport=list(observation.viewport), url=short(observation.url, 500),
            title=short(observation.title, 300),
        )  # fmt: skip

    def _put_card(self, index: int, **entries: Any) -> None:
        self._card |= entries
        self._board.put_card(self._id, index, self._card)

    def _state(self, state: str, **more: Any) -> None:
        steering = self._steering
        if state != self._now:
            self._now, more = state, more | {"since": time.time()}
        self._board.put(self._id, state=state, paused=steering.paused, taken=steering.taken, **more)

    def _count(self, thought: Thought) -> None:
        completion = thought.reply.completion
        spent = (completion.prompt_tokens, completion.cached_tokens, completion.generated_tokens)
        self._tokens = [have + more for have, more in zip(self._tokens, spent, strict=True)]
        self._images += completion.images_sent

    def _done(self, step: Step) -> None:
        self._used.add(self._frame)
        card = card_of(step, self._frame)
        self._board.put_card(self._id, step.index, card)
        this = (step.reply.action, self._frame)
        by_agent = step.author == "agent"
        self._repeats = self._repeats + 1 if by_agent and this == self._before else 0
        self._refusals = self._refusals + 1 if by_agent and card["state"] == "refused" else 0
        self._before = this
        trouble = "stuck" if self._repeats + 1 >= STUCK else "refused" if self._refusals >= STUCK else ""
        again = "again" if self._recording is not None and self._recording.attempt else ""
        self._state(
            "looking", steps=step.index + 1, tokens=self._tokens, images=self._images, last=card["action_said"],
            trouble=trouble or again, money=self._money(step.index + 1),
        )  # fmt: skip

    def _money(self, steps: int) -> float | None:
        row = {
            "prompt_tokens": self._tokens[0], "cached_tokens": self._tokens[1], "generated_tokens": self._tokens[2],
            "images_sent": self._images, "steps": steps, "started_at": self._started,
            "seconds": time.time() - self._started, "outcome": "",
        }  # fmt: skip
        return self._run.money(row)

    def _steered(self, event: Steered) -> None:
        match event.what:
            case "held":
                self._state("held", held=event.step)
            case "released":
                self._state("acting", held=None)
            case "took over":
                self._state("person")
            case "handed back":
                self._state("thinking")
            case "instructed":
                self._board.put(self._id, instruction=short(event.text, 600))
            case "stopped":
                self._board.put(self._id, stopping=True)

    def _end(self, event: Ended) -> None:
        trajectory = event.trajectory
        if trajectory.final is not None:
            self._look(trajectory.final)
        self._used.add(self._frame)
        if len(trajectory.steps) in {card["index"] for card in self._board.cards(self._id)}:
            self._put_card(len(trajectory.steps), state="left")  # seen or thought, and nothing came of it
        self._state(
            "ended", outcome=str(trajectory.outcome), answer=short(trajectory.answer, 3000), held=None, question=None,
            error=short(trajectory.error, 3000), assisted=trajectory.assisted, reward=trajectory.reward,
            steps=len(trajectory.steps), seconds=round(trajectory.seconds, 2), stopping=False,
            money=self._money(len(trajectory.steps)),
        )  # fmt: skip
        for id in self._run.frames.end(self._id):
            self._board.drop_cards(id)
