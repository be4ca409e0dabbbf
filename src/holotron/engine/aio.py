"""The engine for asyncio: the same calls, awaited. Nothing blocks the event loop; images and grammars are prepared on
the engine's worker threads.

    session = await engine.aio.open()
    await session.append(text, screenshot)
    async for event in await session.generate(sampling): ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeVar

from torch import Tensor

from holotron.engine.api import EngineStats, Grammar, Mark, Result, SamplingParams, SessionInfo, Span
from holotron.engine.generation import Generation
from holotron.engine.log import compose_screen
from holotron.engine.session import Session
from holotron.engine.sessions import describe

if TYPE_CHECKING:
    from holotron.engine.engine import Engine, Part
    from holotron.model.processor import Deltas, Screen

T = TypeVar("T")


class AsyncEngine:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def open(self, session_id: str | None = None) -> AsyncSession:
        return AsyncSession(await asyncio.wrap_future(self.engine.open_later(session_id)))

    def session(self, session_id: str) -> AsyncSession:
        return AsyncSession(self.engine.session(session_id))

    async def complete(
        self,
        prompt: Part | Sequence[Part],
        sampling: SamplingParams | None = None,
        *,
        grammar: Grammar | None = None,
        n: int = 1,
        timeout: float | None = None,
    ) -> list[Generation]:
        engine = self.engine
        content = await self.on_worker(lambda: engine.prepare(prompt))
        matchers = await self.on_worker(lambda: [engine.compile(grammar) for _ in range(n)])
        later = engine.complete_later(content, sampling or SamplingParams(), matchers, timeout)
        return await asyncio.wrap_future(later)

    async def update_weights(self, tensors: Mapping[str, Tensor], policy: Literal["keep", "refresh"] = "keep") -> int:
        return await asyncio.wrap_future(self.engine.post(lambda: self.engine.core.update_weights(tensors, policy)))

    async def stats(self) -> EngineStats:
        return await asyncio.wrap_future(self.engine.post(self.engine.core.stats))

    async def on_worker(self, work: Callable[[], T]) -> T:
        """Do something slow on one of the engine's worker threads."""
        return await asyncio.get_running_loop().run_in_executor(self.engine.workers, work)


class AsyncSession:
    """See `Session`, which has the same methods with the same meaning."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.id = session.id
        self._engine = session.engine

    @property
    def closed(self) -> bool:
        return self.session.closed

    @property
    def busy(self) -> bool:
        return self.session.busy

    async def append(self, *parts: Part, deltas: Deltas | None = None) -> int:
        if deltas is not None and deltas.screen is None:
            deltas = replace(deltas, screen=await self.screen())
        content = await self._engine.aio.on_worker(lambda: self._engine.prepare(parts, deltas))
        self.session.append_later(content)
        return len(content)

    async def screen(self) -> Screen | None:
        parts = await asyncio.wrap_future(self.session.screen_later())
        return await self._engine.aio.on_worker(lambda: compose_screen(parts, self._engine.model.config.image))

    async def generate(
        self, sampling: SamplingParams | None = None, *, grammar: Grammar | None = None, timeout: float | None = None
    ) -> Generation:
        matcher = None
        if grammar is not None:
            matcher = await self._engine.aio.on_worker(lambda: self._engine.compile(grammar))
        later = self.session.generate_later(sampling or SamplingParams(), matcher, timeout)
        return await asyncio.wrap_future(later)

    async def prefill(self, timeout: float | None = None) -> Result:
        return await (await self.generate(SamplingParams(max_tokens=0), timeout=timeout))

    async def mark(self) -> Mark:
        return await asyncio.wrap_future(self.session.do(self._engine.core.sessions.mark))

    async def unmark(self, mark: Mark) -> None:
        books = self._engine.core.sessions
        await asyncio.wrap_future(self.session.do(lambda stream: books.unmark(stream, mark)))

    async def rewind(self, to: Mark | int) -> None:
        await asyncio.wrap_future(self.session.rewind_later(to))

    async def fork(self, n: int = 1, *, ids: Sequence[str] | None = None) -> list[AsyncSession]:
        return [AsyncSession(twin) for twin in await asyncio.wrap_future(self.session.fork_later(n, ids))]

    async def compact(self, keep: Sequence[Span | Part]) -> int:
        parts = await self._engine.aio.on_worker(lambda: self.session.prepare_keep(keep))
        return await asyncio.wrap_future(self.session.compact_later(parts))

    async def tokens(self) -> list[int]:
        return await asyncio.wrap_future(self.session.do(lambda stream: list(stream.log.ids), at_rest=False))

    async def info(self) -> SessionInfo:
        return await asyncio.wrap_future(self.session.do(describe, at_rest=False))

    async def close(self) -> None:
        await asyncio.wrap_future(self.session.close_later())

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()
