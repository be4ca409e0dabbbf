"""Generations on behalf of an HTTP request: wait for them or stream them, and stop when the client is gone.

A client that closes its connection cancels what runs for it, whether it was streaming or waiting: a task listens for
that beside the work. The engine then frees everything within one iteration.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holotron.engine import Generation, Result, TokenEvent
from holotron.server.errors import ApiError, translated, unavailable
from holotron.server.replies import check
from holotron.server.routed import Spent, Told, current
from holotron.server.turns import TurnTransaction
from holotron.server.writing import SLICE_SECONDS, dumps, slices

T = TypeVar("T")
log = logging.getLogger(__name__)


class ClientGone(Exception):
    """Nobody reads the answer any more."""


class Running:
    """The generations of one request, and the turn of a session they may belong to."""

    def __init__(self, generations: Sequence[Generation], turn: TurnTransaction | None = None) -> None:
        self.generations = list(generations)
        self.turn = turn

    async def results(self, request: Request) -> list[Result]:
        """Wait for all."""
        try:
            results = await while_connected(request, self._all())
            self._commit(results[0])
            await self._saved()
        finally:
            await self.close()
        return results

    async def events(self) -> AsyncIterator[tuple[int, TokenEvent | Result]]:
        """Tokens as they come, each with the number of its generation; a generation's result ends it. Close
        afterwards."""
        async for n, item in _merged(self.generations):
            if isinstance(item, Result):
                self._commit(check(item))
                await self._saved()
            yield n, item

    async def _all(self) -> list[Result]:
        return [check(await generation) for generation in self.generations]

    def _commit(self, result: Result) -> None:
        if self.turn is not None and not self.turn.over:
            self.turn.commit(result)

    async def _saved(self) -> None:
        if self.turn is not None and self.turn.over:
            await asyncio.shield(self.turn.saved())

    async def close(self) -> None:
        """The end. What is not finished is cancelled, and a turn that was not completed is undone."""
        for generation in self.generations:
            generation.cancel()
        if self.turn is not None:
            await asyncio.shield(self.turn.undo())


async def _merged(generations: Sequence[Generation]) -> AsyncIterator[tuple[int, TokenEvent | Result]]:
    if len(generations) == 1:
        async for event in generations[0]:
            yield 0, event
        yield 0, await generations[0]
        return
    queue: asyncio.Queue[tuple[int, TokenEvent | Result | BaseException]] = asyncio.Queue()

    async def read(n: int, generation: Generation) -> None:
        try:
            async for event in generation:
                queue.put_nowait((n, event))
            queue.put_nowait((n, await generation))
        except Exception as error:
            queue.put_nowait((n, error))

    readers = [asyncio.create_task(read(n, generation)) for n, generation in enumerate(generations)]
    try:
        left = len(generations)
        while left:
            n, item = await queue.get()
            if isinstance(item, BaseException):
                raise item
            left -= isinstance(item, Result)
            yield n, item
    finally:
        for reader in readers:
            reader.cancel()


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Do it, unless the client goes away first, or the server has no more time."""
    return await or_gone(request.receive, work, request.app.state.service.cut)


async def or_gone(receive: Receive, work: Coroutine[Any, Any, T], cut: asyncio.Event) -> T:
    """Do it, unless nobody listens any more (`ClientGone`) or the time is up."""

    async def listen() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    worker, listener, ending = (
        asyncio.ensure_future(work),
        asyncio.ensure_future(listen()),
        asyncio.ensure_future(cut.wait()),
    )
    try:
        await asyncio.wait({worker, listener, ending}, return_when=asyncio.FIRST_COMPLETED)
        if worker.done():
            return worker.result()
        if listener.done():
            raise ClientGone
        raise unavailable("the server is shutting down", "shutting_down")
    finally:
        listener.cancel()
        ending.cancel()
        if not worker.done():
            worker.cancel()
            with contextlib.suppress(BaseException):
                await worker


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """To its end, even if whoever awaits it is cancelled meanwhile: for what the engine is told to do, which takes an
    iteration at most and must not be left without anybody who knows of it."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():  # however often: by a client that leaves, and then by the end of its time
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # nobody is left to hear of it
        raise


class LongAnswer(Response):
    """JSON that may be long, and may hold `Rows`. What takes no time is sent in one go."""

    def __init__(self, body: Any, cut: asyncio.Event) -> None:
        self._body = body
        self._cut = cut
        self.status_code = 200
        self.background = None
        self.init_headers({"content-type": "application/json"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def work() -> None:
            written = slices(self._body)
            data, following = next(written), next(written, None)
            if following is None:
                self.headers["content-length"] = str(len(data))
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while following is not None:
                await send({"type": "http.response.body", "body": data, "more_body": True})
                await asyncio.sleep(0)
                data, following = following, next(written, None)
            await send({"type": "http.response.body", "body": data, "more_body": False})

        with contextlib.suppress(ClientGone):
            await or_gone(receive, work(), self._cut)


class EventStream(Response):
    """Server-sent events. An error after the first byte cannot change the status any more and becomes an event."""

    media_type = "text/event-stream"

    def __init__(
        self,
        chunks: AsyncIterator[Any],
        running: Running,
        cut: asyncio.Event,
        seconds: float | None,
        closing: contextlib.ExitStack,
    ) -> None:
        """`cut` and `seconds`: when it has to end. `closing` is closed with it."""
        self._chunks = chunks
        self._running = running
        self._cut = cut
        self._seconds = seconds
        self._closing = closing
        self._routed = current.get()
        self._unsent = b""
        self.status_code = 200
        self.background = None
        self.init_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def work() -> None:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            try:
                async for body in self._bodies():
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                end = self._unsent + self.end()
            except Exception as error:
                answer = translated(error)
                if answer.status == 500:
                    log.exception("a stream failed")
                self._leave_to_router(answer)
                end = self.failure(answer)
            await send({"type": "http.response.body", "body": end, "more_body": False})

        try:
            with contextlib.suppress(ClientGone):
                try:
                    async with asyncio.timeout(self._seconds):
                        await or_gone(receive, work(), self._cut)
                except (ApiError, TimeoutError) as error:
                    late = unavailable("the reply was not read in time", "timed_out")
                    last = error if isinstance(error, ApiError) else late
                    self._leave_to_router(last)
                    with contextlib.suppress(TimeoutError):  # of a client that does not read this either
                        async with asyncio.timeout(1.0):
                            await send({"type": "http.response.body", "body": self.failure(last), "more_body": False})
        finally:
            self._closing.close()
            await self._running.close()

    def _leave_to_router(self, error: ApiError) -> None:
        """A reply that ends because this server does goes on elsewhere: the router sees that its end is missing."""
        if self._routed is not None and error.code == "shutting_down":
            raise ClientGone

    async def _bodies(self) -> AsyncIterator[bytes]:
        """Events as they come. For a router those of a token together, with a comment that says so, and without those
        that the client has already."""
        told: Counter[int] = Counter()
        loop = asyncio.get_running_loop()
        others = loop.time()  # when they last had a chance: taking a token that is there, or sending, is none
        async for chunk in self._chunks:
            if not isinstance(chunk, Told | Spent):
                for data in self.slices(chunk):
                    if self._routed is None:
                        yield data
                    else:
                        self._unsent += data
                    if loop.time() > others + SLICE_SECONDS:
                        await asyncio.sleep(0)
                        others = loop.time()
                continue
            if self._routed is None:
                continue
            if isinstance(chunk, Told):
                told[chunk.index] += 1
                said = self._routed.said
                if said.begun if chunk.index < 0 else told[chunk.index] <= len(said.tokens.get(chunk.index, ())):
                    self._unsent = b""
                    continue
            body, self._unsent = self._unsent + chunk.comment(), b""
            yield body

    def slices(self, chunk: Any) -> Iterator[bytes]:
        """An event, in several pieces if it may be long."""
        yield self.event(chunk)

    def event(self, chunk: Any) -> bytes:
        return f"data: {dumps(chunk)}\n\n".encode()

    def end(self) -> bytes:
        """What follows the last event."""
        return b"data: [DONE]\n\n"

    def failure(self, answer: ApiError) -> bytes:
        return self.event(answer.body())
