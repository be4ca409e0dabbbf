"""Players in processes of their own: rollouts are not bound by one Python, and every process has an engine.

    players = PlayersElsewhere(recipe, desk, LocalPlace(), devices=["cuda:0", "cuda:1"])

The trainer's desk stays where it is. A process asks it for a group, plays it, and sends back what the engine sampled,
token by token with versions; weights reach all processes through memory they share (`Place.shared`), one write for all.
A process that is lost is replaced: its groups are drawn again, its part of an evaluation goes to another one, and a
new one begins with the weights of right now.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar

from torch import Tensor

from holotron.engine import Result
from holotron.model.processor import Prompt
from holotron.rollouts.posts import Post
from holotron.rollouts.processes import Place, Process
from holotron.training.rl.desk import Desk
from holotron.training.rl.messages import (
    Ask,
    Failed,
    Judge,
    Judged,
    Played,
    Ready,
    Recorded,
    Said,
    Updated,
    Wanted,
    Weights,
)
from holotron.training.rl.players import Answer
from holotron.training.rl.recipe import RlRecipe
from holotron.training.rl.rollouts import OnEpisode, Score
from holotron.training.rl.tasks import Drawn
from holotron.training.rl.there import play_groups
from holotron.types import Task

T = TypeVar("T")

# ----------------------------------------------------------------------------------------------------- with the trainer


@dataclass(eq=False)
class _Seat:
    """A player, as the trainer sees it."""

    process: Process
    drawn: dict[int, Drawn] = field(default_factory=dict)
    jobs: dict[int, tuple[Task, ...]] = field(default_factory=dict)  # of evaluations
    asked: set[int] = field(default_factory=set)
    owes: int | None = None  # the update that it has been sent and has not taken yet
    playing: bool = False
    busy: float = 0.0


class PlayersElsewhere:
    def __init__(
        self, recipe: RlRecipe, desk: Desk, place: Place, devices: Sequence[str], on_episode: OnEpisode | None = None
    ) -> None:
        """`devices`: of the engines, one for each process."""
        self._desk = desk
        self._place = place
        self._on_episode = on_episode
        self._shared = place.shared()
        self._latest: Weights | None = None
        self._seats: dict[Process, _Seat] = {}
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._waiting: list[Judge] = []  # parts of an evaluation that nobody plays yet
        self._numbers = itertools.count()
        self._next = 0  # whose turn it is to be asked
        self._engines = len(devices)
        self._past = 0.0  # seconds that engines worked which are gone
        self._error: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._run, name="holotron-players", daemon=True)
        self._posts = [
            Post(place, f"player-{n}", play_groups, own_recipe(recipe, n, len(devices)), device, len(devices))
            for n, device in enumerate(devices)
        ]

    def __enter__(self) -> PlayersElsewhere:
        self._thread.start()
        for post in self._posts:
            self._loop.call_soon_threadsafe(self._spawn, post.run(self._heard, self._lost))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._shared.close()

    # ----------------------------------------------------------------------------------------- for the trainer's thread

    def publish(self, tensors: Mapping[str, Tensor], update: int) -> None:
        if self._thread.is_alive():
            self._call(self._all_taken())  # a new one may be reading the last ones
        self._latest = Weights(update, self._shared.write(tensors))
        if self._thread.is_alive():
            self._call(self._send_weights(self._latest))

    def ask(self, prompt: Prompt) -> Answer:
        future = asyncio.run_coroutine_threadsafe(self._ask(prompt), self._loop)
        return lambda: self._wait(future)

    def evaluate(self, tasks: Sequence[Task]) -> dict[str, list[Score]]:
        return self._call(self._evaluate(tasks))

    def busy(self) -> float:
        return (self._past + sum(seat.busy for seat in list(self._seats.values()))) / self._engines

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._wait(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _wait(self, future: Future[T]) -> T:
        return future.result()

    # ------------------------------------------------------------------------------------------------ the loop's thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = self._loop.create_task(self._to_its_end(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._place.close()

    async def _to_its_end(self, work: Coroutine[Any, Any, Any]) -> None:
        """Whatever fails in it, the trainer hears of it, and does not wait for ever."""
        try:
            await work
        except Exception as error:
            await self._failed(error)

    async def _failed(self, error: BaseException) -> None:
        self._error = self._error or error
        self._desk.failed(self._error)
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._error is not None or condition())
        if self._error is not None:
            raise self._error

    def _heard(self, process: Process, message: Any) -> None:
        seat = self._seats.setdefault(process, _Seat(process))
        match message:
            case Ready():
                if self._latest is not None:
                    self._give(seat, self._latest)
            case Wanted():
                drawn = self._desk.draw()
                seat.drawn[drawn.number] = drawn
                process.send(drawn)
            case Played():
                seat.drawn.pop(message.drawn.number, None)
                seat.busy = message.busy
                self._desk.counts.add(message.counts)
                self._spawn(asyncio.to_thread(self._desk.finished, message.drawn, message.members))
            case Updated():
                if seat.owes == message.update:
                    seat.owes = None
                seat.playing = True
                self._deal()
            case Recorded():
                self._spawn(self._record(message))
            case Said():
                seat.asked.discard(message.number)
                self._answer(message.number, message.result)
            case Judged():
                seat.jobs.pop(message.number, None)
                self._answer(message.number, message.scores)
            case Failed():
                self._spawn(self._failed(message.error))
        self._spawn(self._tell())

    def _lost(self, process: Process, reason: str) -> None:
        seat = self._seats.pop(process, None)
        if seat is not None:
            self._past += seat.busy
            self._desk.lost(seat.drawn.values())
            for number in seat.asked:
                self._answer(number, None)
            self._waiting += [Judge(number, tasks) for number, tasks in seat.jobs.items()]
            self._deal()
        self._spawn(self._tell())

    async def _record(self, recorded: Recorded) -> None:
        if self._on_episode is not None:
            await asyncio.to_thread(self._on_episode, recorded.trajectory, recorded.drawn)

    # ---------------------------------------------------------------------------------------------------------- weights

    def _give(self, seat: _Seat, weights: Weights) -> None:
        seat.owes = weights.update
        seat.process.send(weights)

    async def _send_weights(self, weights: Weights) -> None:
        for seat in self._seats.values():
            if seat.playing or seat.owes is not None:  # others get them when they are ready
                self._give(seat, weights)
        await self._all_taken()

    async def _all_taken(self) -> None:
        await self._until(lambda: all(seat.owes is None for seat in self._seats.values()))

    # ------------------------------------------------------------------------------------------- questions, evaluations

    def _players(self) -> list[_Seat]:
        return [seat for seat in self._seats.values() if seat.playing]

    async def _ask(self, prompt: Prompt) -> Result | None:
        if not (players := self._players()):
            return None
        seat = players[self._next % len(players)]
        self._next += 1
        number = next(self._numbers)
        seat.asked.add(number)
        future = self._answers[number] = self._loop.create_future()
        seat.process.send(Ask(number, prompt))
        await self._until(future.done)
        found: Result | None = future.result()
        return found

    async def _evaluate(self, tasks: Sequence[Task]) -> dict[str, list[Score]]:
        shares = [tuple(tasks[n :: self._engines]) for n in range(self._engines)]
        jobs = [Judge(next(self._numbers), share) for share in shares if share]
        futures = [self._answers.setdefault(job.number, self._loop.create_future()) for job in jobs]
        self._waiting += jobs
        self._deal()
        await self._until(lambda: all(future.done() for future in futures))
        scores: dict[str, list[Score]] = {}
        for future in futures:
            for name, mine in future.result().items():
                scores.setdefault(name, []).extend(mine)
        return scores

    def _deal(self) -> None:
        """Parts of an evaluation to those who have least of it."""
        while self._waiting and (players := self._players()):
            job = self._waiting.pop(0)
            seat = min(players, key=lambda seat: len(seat.jobs))
            seat.jobs[job.number] = job.tasks
            seat.process.send(job)

    def _answer(self, number: int, value: Any) -> None:
        if (future := self._answers.pop(number, None)) is not None and not future.done():
            future.set_result(value)


def own_recipe(recipe: RlRecipe, number: int, count: int) -> RlRecipe:
    """For one of several processes: its share of the sessions."""
    sessions = recipe.rollouts.sessions // count + (number < recipe.rollouts.sessions % count)
    part = recipe.rollouts.model_copy(update={"sessions": max(sessions, 1), "processes": 0})
    return recipe.model_copy(update={"rollouts": part})
