"""A generation under way, as its reader sees it: iterate over tokens, or wait for the result, with or without asyncio.

    for event in generation: ...            async for event in generation: ...
    result = generation.result()            result = await generation

Leaving a loop early cancels the generation: a reader that went away is not computed for.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator

from holotron.engine.api import Result, TokenEvent


class Generation:
    def __init__(self, outbox: Outbox, cancel: Callable[[], None]) -> None:
        self._outbox = outbox
        self._cancel = cancel
        self._unread: deque[TokenEvent] = deque()
        self._result: Result | None = None
        self._count = 0
        self._streamed = False  # somebody reads token by token; who only awaits the end is not woken for each
        self._changed = threading.Condition()
        self._listener: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    @property
    def done(self) -> bool:
        return self._result is not None

    @property
    def count(self) -> int:
        """Tokens that were generated so far, read or not."""
        return self._count

    def cancel(self) -> None:
        """Stop as soon as the iteration under way is over. The result then says "cancelled"."""
        if not self.done:
            self._cancel()

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the end. Raises the engine's error if there was one."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.done, timeout):
                raise TimeoutError(f"the generation is not finished after {timeout} s")
        return self._outcome()

    def __iter__(self) -> Iterator[TokenEvent]:
        self._streamed = True
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._unread or self.done)
                    events, done = self._take()
                yield from events
                if done:
                    self._outcome()
                    return
        finally:
            self.cancel()

    async def __aiter__(self) -> AsyncIterator[TokenEvent]:
        self._streamed = True
        try:
            while True:
                events, done = await self._next()
                for event in events:
                    yield event
                if done:
                    self._outcome()
                    return
        finally:
            self.cancel()

    def __await__(self) -> Generator[None, None, Result]:
        return self._wait().__await__()

    # ---------------------------------------------------------------------------------------------------- inside

    def _outcome(self) -> Result:
        assert self._result is not None
        if self._result.error is not None:
            raise self._result.error
        return self._result

    def _take(self) -> tuple[list[TokenEvent], bool]:
        events = list(self._unread)
        self._unread.clear()
        return events, self.done

    async def _wait(self) -> Result:
        try:
            wake = self._listen()
            while not self.done:
                wake.clear()
                if not self.done:
                    await wake.wait()
            return self._outcome()
        except asyncio.CancelledError:
            self.cancel()
            raise

    async def _next(self) -> tuple[list[TokenEvent], bool]:
        wake = self._listen()
        while True:
            wake.clear()
            with self._changed:
                events, done = self._take()
            if events or done:
                return events, done
            await wake.wait()

    def _listen(self) -> asyncio.Event:
        loop = asyncio.get_running_loop()
        if self._listener is None or self._listener[0] is not loop:
            self._listener = (loop, asyncio.Event())
        return self._listener[1]

    def _push(self, events: list[TokenEvent], result: Result | None) -> None:
        """From the engine's thread."""
        with self._changed:
            self._unread.extend(events)
            self._count += len(events)
            if result is not None:
                self._result = result
            if result is None and not self._streamed:
                return
            self._changed.notify_all()
        if self._listener is not None:
            self._outbox.wake(*self._listener)


class Outbox:
    """Wakes the readers on event loops, once per loop and iteration instead of once per token."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.AbstractEventLoop, list[asyncio.Event]] = {}

    def wake(self, loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
        self._waiting.setdefault(loop, []).append(event)

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for loop, events in waiting.items():
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody reads any more
                loop.call_soon_threadsafe(_set_all, events)


def _set_all(events: list[asyncio.Event]) -> None:
    for event in events:
        event.set()
