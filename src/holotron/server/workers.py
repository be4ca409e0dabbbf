"""Threads for slow work that needs no GPU: reading bodies, tokenising, pictures, grammars. Bounded, fair, and given up
when nobody wants the result any more.

    prompt = await workers.run(owner, lambda: render(messages), lane="large")

Work waits in its *lane*, so what is known to take long (a large picture, a long text) never stands before what does
not; in a lane the owners take turns, so that one who sends a hundred pictures waits for himself. Whoever awaits may be
cancelled: what still waits is then forgotten, and what runs is told (`Given up`, raised by `check`) if it asks between
two pieces.

Threads are enough because the libraries that take long let go of Python's lock while they work: Pillow, torch,
llguidance, and `tokenizers` when it is asked in the right way (see `tokenising`).
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from holotron.engine import Overloaded

T = TypeVar("T")
Lane = Literal["small", "large", "grammar", "parse"]
LANES: tuple[Lane, ...] = ("small", "large", "grammar", "parse")


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

    def __init__(self, name: str, threads: int) -> None:
        self.free = threads
        self.waiting: OrderedDict[str, deque[_Job]] = OrderedDict()
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix=f"holotron-{name}")

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

    def __init__(self, threads: int = 2, max_waiting: int = 256) -> None:
        """`threads` per lane, but for parsing, which keeps Python's lock: there one at a time, or the event loop would
        have to wait for several. `max_waiting`: of one owner, in one lane."""
        self._queues = {lane: _Queue(lane, 1 if lane == "parse" else threads) for lane in LANES}
        self._max_waiting = max_waiting

    async def run(self, owner: str, work: Callable[[], T], lane: Lane = "small") -> T:
        queue = self._queues[lane]
        mine = queue.waiting.setdefault(owner, deque())
        if len(mine) >= self._max_waiting:
            raise Overloaded(f"{len(mine)} of your requests are waiting to be prepared already", 5.0)
        job = _Job(work, asyncio.get_running_loop().create_future())
        mine.append(job)
        self._start(queue)
        try:
            result: T = await job.done
            return result
        except asyncio.CancelledError:
            job.given_up.set()
            raise

    def _start(self, queue: _Queue) -> None:
        while queue.free and (job := queue.next()) is not None:
            queue.free -= 1
            running = asyncio.get_running_loop().run_in_executor(queue.pool, _work, job)
            running.add_done_callback(lambda finished, job=job: self._finished(queue, job, finished))  # type: ignore[misc]

    def _finished(self, queue: _Queue, job: _Job, finished: asyncio.Future[Any]) -> None:
        queue.free += 1
        error = finished.exception() if not finished.cancelled() else GivenUp()
        if not job.done.done():
            if error is not None:
                job.done.set_exception(error)
            else:
                job.done.set_result(finished.result())
        self._start(queue)

    def close(self) -> None:
        for queue in self._queues.values():
            queue.pool.shutdown(wait=False, cancel_futures=True)


def _work(job: _Job) -> Any:
    _given_up.set(job.given_up)
    try:
        check()
        return job.work()
    finally:
        _given_up.set(None)
