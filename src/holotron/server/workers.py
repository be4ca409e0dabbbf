"""Threads for slow work that needs no GPU: reading bodies, tokenising, pictures, grammars. Bounded, fair, and given up
when nobody wants the result any more.

    prompt = await workers.run(owner, lambda: render(messages), lane="large")

Work waits in its *lane*, so what is known to take long (a large picture, a long text) never stands before what does
not; in a lane the owners take turns, so that one who sends a hundred pictures waits for himself. Whoever awaits may be
cancelled: what still waits is then forgotten, and what runs is told (`GivenUp`, raised by `check`) if it asks between
two pieces.

Long work of all lanes together has one thread less than the machine has cores: where more threads want to run than can,
the event loop waits for whoever has Python's lock and no core. Lanes take turns there, and their threads come after the
event loop and the engine.

Threads are enough because the libraries that take long let go of Python's lock while they work: Pillow, torch,
llguidance, and `tokenizers` when it is asked in the right way (see `tokenising`).
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from holotron.engine import Overloaded
from holotron.storage.hardware import cores

T = TypeVar("T")
Lane = Literal["small", "large", "grammar", "parse"]
LANES: tuple[Lane, ...] = ("small", "large", "grammar", "parse")
LONG: tuple[Lane, ...] = ("large", "grammar", "parse")


class GivenUp(Exception):
    """Nobody waits for this any more."""


_given_up: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("given_up", default=None)


def check() -> None:
    """For work that comes in pieces: between two of them, stop if nobody wants the rest."""
    event = _given_up.get()
    if event is not None and event.is_set():
        raise GivenUp


@dataclass(eq=False)
class _Job:
    work: Callable[[], Any]
    done: asyncio.Future[Any]
    given_up: threading.Event = field(default_factory=threading.Event)


class _Queue:
    """One lane: who waits, by owner, and how many threads are at it."""

    def __init__(self, name: str, threads: int, long: bool) -> None:
        self.long = long
        self.free = threads
        self.waiting: OrderedDict[str, deque[_Job]] = OrderedDict()
        start = _yield_to_others if long else None
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix=f"holotron-{name}", initializer=start)

    def next(self) -> _Job | None:
        """The longest-waiting work of the owner whose turn it is."""
        while self.waiting:
            owner, jobs = self.waiting.popitem(last=False)
            while jobs:
                job = jobs.popleft()
                if job.done.done():  # cancelled while it waited
                    continue
                if jobs:
                    self.waiting[owner] = jobs  # behind all others
                return job
        return None


class Workers:
    """Belongs to one event loop: everything but the work itself happens there."""

    def __init__(self, threads: int = 2, max_waiting: int = 16_384, room: int | None = None) -> None:
        """`threads` per lane, but for parsing, which keeps Python's lock: there one at a time, or the event loop would
        have to wait for several. `max_waiting`: of one owner, in one lane. `room`: threads at long work."""
        self._queues = {lane: _Queue(lane, 1 if lane == "parse" else threads, lane in LONG) for lane in LANES}
        self._turns = deque(self._queues.values())
        self._room = room or max(1, (cores() or 1) - 1)
        self._max_waiting = max_waiting

    async def run(self, owner: str, work: Callable[[], T], lane: Lane = "small") -> T:
        queue = self._queues[lane]
        mine = queue.waiting.setdefault(owner, deque())
        if len(mine) >= self._max_waiting:
            raise Overloaded(f"{len(mine)} of your requests are waiting to be prepared already", 5.0)
        job = _Job(work, asyncio.get_running_loop().create_future())
        mine.append(job)
        self._start()
        try:
            result: T = await job.done
            return result
        except asyncio.CancelledError:
            job.given_up.set()
            with contextlib.suppress(ValueError):  # it runs already
                mine.remove(job)
            raise

    def _start(self) -> None:
        for queue in list(self._turns):
            while queue.free and (self._room or not queue.long) and (job := queue.next()) is not None:
                self._begin(queue, job)

    def _begin(self, queue: _Queue, job: _Job) -> None:
        queue.free -= 1
        self._room -= queue.long
        self._turns.remove(queue)
        self._turns.append(queue)  # the others come first now
        running = asyncio.get_running_loop().run_in_executor(queue.pool, _work, job)
        running.add_done_callback(lambda finished: self._finished(queue, job, finished))

    def _finished(self, queue: _Queue, job: _Job, finished: asyncio.Future[Any]) -> None:
        queue.free += 1
        self._room += queue.long
        error = finished.exception() if not finished.cancelled() else GivenUp()
        if not job.done.done():
            if error is not None:
                job.done.set_exception(error)
            else:
                job.done.set_result(finished.result())
        self._start()

    def close(self) -> None:
        for queue in self._queues.values():
            queue.pool.shutdown(wait=False, cancel_futures=True)


def _yield_to_others() -> None:
    """Cores go to the event loop and the engine first. Only Linux has this for one thread."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + 10))


def _work(job: _Job) -> Any:
    _given_up.set(job.given_up)
    try:
        check()
        return job.work()
    finally:
        _given_up.set(None)
