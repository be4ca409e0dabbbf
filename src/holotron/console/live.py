"""A run that is going on: it listens to the episodes' events, and hands a person's commands to them.

    run = LiveRun(folder, title="eval miniwob")
    run.describe(policy.describe(), "miniwob")
    await rollout(..., listeners=[run.hear], steer=run.steer)
    Approval("critical", run.ask)

Everything that happens to an episode comes through `hear`, on the agents' thread; what viewers see of it lies on the
board. Commands come from the server's thread and are carried to the loop that the episode lives in.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holotron.agent.events import Asked, Event
from holotron.agent.steering import NotNow, Pause, Resume, Steering
from holotron.console.cards import asked, summary_of
from holotron.console.commands import read_answer, read_command
from holotron.console.recorded import LISTED, WatchedRun
from holotron.console.telling import Telling
from holotron.envs.effects.question import Decision, Question, refuse
from holotron.errors import HolotronError
from holotron.evals.costs import Prices, policy_name
from holotron.rollouts.progress import Progress
from holotron.rollouts.store import RunReader
from holotron.storage.files import exists
from holotron.storage.manifest import MANIFEST
from holotron.storage.objects import shown

log = logging.getLogger(__name__)

ALONE_SECONDS = 120.0  # how long a question waits while nobody has the page open
ANSWER_SECONDS = 10.0  # for the agents' loop to take a command
EVERYBODY = "*"  # in place of a session's name: all of them


@dataclass(slots=True)
class _Hand:
    steering: Steering
    loop: asyncio.AbstractEventLoop


@dataclass(slots=True)
class _Question:
    episode: str
    answer: asyncio.Future[Decision]


class LiveRun(WatchedRun):
    live = True

    def __init__(
        self,
        folder: Path | None,
        *,
        title: str,
        prices: Prices | None = None,
        alone_seconds: float | None = ALONE_SECONDS,
    ) -> None:
        """`alone_seconds`: a question is refused when nobody has had the page open for so long; None: it waits, because
        somebody else can answer it."""
        super().__init__(folder, prices=prices)
        self._alone_seconds = alone_seconds
        self._paused = False
        self._hands: dict[str, _Hand] = {}
        self._telling: dict[str, Telling] = {}
        self._numbers = itertools.count(1)
        self._questions: dict[int, _Question] = {}
        self._asked: dict[int, str] = {}  # the identity of a question -> whose it is
        self.board.put_run(
            title=title,
            folder="" if folder is None else shown(folder),
            currency=prices.currency if prices is not None else "",
            live=True,
            paused=False,
            started=time.time(),
        )

    def describe(self, policy: Mapping[str, Any], suite: str = "") -> None:
        """Who plays what. In a run that is taken up again, what an earlier process has recorded is shown too."""
        self.manifest = {"config": {"policy": dict(policy)}}
        self.board.put_run(policy=policy_name(self.manifest), suite=suite)
        if self.folder is None or not exists(self.folder / MANIFEST):
            return
        for row in RunReader(self.folder).episodes()[-LISTED:]:
            self.board.put(row["id"], **summary_of(row), money=self.money(row))

    def _describe_as_recorded(self, manifest: Mapping[str, Any]) -> None:
        """A single task's policy is made where it is played; the record, which begins before the episode, names it."""
        self.manifest = {"config": manifest.get("config", {})}
        environment = self.manifest["config"].get("environment") or {}
        self.board.put_run(policy=policy_name(self.manifest), suite=str(environment.get("suite", "")))

    # --------------------------------------------------------------------------------------- on the agents' thread

    def steer(self, episode: str) -> Steering:
        if not self.manifest and self.folder is not None and exists(self.folder / MANIFEST):
            self._describe_as_recorded(RunReader(self.folder).manifest)
        held = episode in self.board and bool(self.board.summary(episode).get("paused"))  # in an earlier attempt
        steering = Steering(paused=self._paused or held)
        self._hands[episode] = _Hand(steering, asyncio.get_running_loop())
        self._telling[episode] = Telling(self, episode, steering)
        return steering

    def hear(self, episode: str, event: Event) -> None:
        try:
            self._hear(episode, event)
        except Exception:  # whatever goes wrong in showing it, the episode goes on
            log.exception("an event of %s cannot be shown", episode)

    def _hear(self, episode: str, event: Event) -> None:
        if isinstance(event, Asked):
            self._asked[id(event.question)] = episode
        telling = self._telling.get(episode)
        if telling is not None and telling.hear(event):
            del self._telling[episode], self._hands[episode]

    def progress(self, progress: Progress) -> None:
        self.board.put_run(
            total=progress.total,
            done=progress.done,
            running=progress.running,
            successes=progress.successes,
            scored=progress.scored,
            retries=progress.retries,
            steps=progress.steps,
            rate=round(progress.steps_per_second, 2),
        )

    def over(self) -> None:
        """Nothing more comes."""
        self.board.put_run(live=False, over=True)

    async def ask(self, question: Question) -> Decision:
        """An `Approver`: the question stands on the page until somebody answers it."""
        number, loop = next(self._numbers), asyncio.get_running_loop()
        episode = self._asked.pop(id(question), "")
        held = self._questions[number] = _Question(episode, loop.create_future())
        if episode in self.board:
            self.board.put(episode, question={"number": number, **asked(question)})
        try:
            return await self._answered(held.answer)
        finally:
            del self._questions[number]
            if episode in self.board:
                self.board.put(episode, question=None)

    async def _answered(self, answer: asyncio.Future[Decision]) -> Decision:
        alone = 0.0
        while self._alone_seconds is None or alone < self._alone_seconds:
            await asyncio.wait({answer}, timeout=0.5)
            if answer.done():
                return answer.result()
            alone = 0.0 if self.viewers else alone + 0.5
        return refuse("nobody was there to answer")

    # --------------------------------------------------------------------------------------- on the server's thread

    async def command(self, id: str, body: Mapping[str, Any]) -> None:
        if body.get("do") == "answer":
            number, decision = read_answer(body)
            question = self._questions.get(number)
            if question is None:
                raise NotNow("the question has been answered already")
            await _in(question.answer.get_loop(), lambda: _settle(question.answer, decision))
            return
        command = read_command(body)
        if id == EVERYBODY:
            await self._everybody(command)
            return
        hand = self._hands.get(id)
        if hand is None:
            raise NotNow("this episode is over")
        await _in(hand.loop, lambda: hand.steering.give(command))
        if body.get("do") in ("take_over", "stop"):  # what it had asked for is not done
            for question in [one for one in self._questions.values() if one.episode == id]:
                no = refuse("the user took over" if body["do"] == "take_over" else "the user stopped this")
                with suppress(NotNow):  # it has just been answered
                    await _in(question.answer.get_loop(), lambda question=question, no=no: _settle(question.answer, no))
        self._show_hand(id, hand.steering)

    async def _everybody(self, command: Any) -> None:
        if not isinstance(command, Pause | Resume):
            raise NotNow("only pausing and going on can be said to all of them")
        self._paused = isinstance(command, Pause)  # also those that begin later
        self.board.put_run(paused=self._paused)
        for id, hand in list(self._hands.items()):
            try:
                await _in(hand.loop, lambda hand=hand: hand.steering.give(command))
            except NotNow:  # it is being stopped
                continue
            self._show_hand(id, hand.steering)

    def _show_hand(self, id: str, steering: Steering) -> None:
        if id in self.board:
            self.board.put(id, paused=steering.paused, taken=steering.taken, stopping=steering.stopping)


def _settle(answer: asyncio.Future[Decision], decision: Decision) -> None:
    if answer.done():
        raise NotNow("the question has been answered already")
    answer.set_result(decision)


async def _in(loop: asyncio.AbstractEventLoop, call: Any) -> None:
    """Have the loop of the agents do something, and wait until it has."""
    done: concurrent.futures.Future[None] = concurrent.futures.Future()

    def run() -> None:
        try:
            call()
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)

    try:
        loop.call_soon_threadsafe(run)
    except RuntimeError:  # it is closed
        raise NotNow("the run is over") from None
    answer = asyncio.wrap_future(done)
    answer.add_done_callback(lambda answer: answer.cancelled() or answer.exception())  # also if it comes too late
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await asyncio.shield(answer)
    except TimeoutError:
        raise HolotronError("the agents' process is busy; it does this as soon as it can") from None
