"""The engine for asyncio: the same calls, awaited. Nothing blocks the event loop; images and grammars are prepared on
the engine's worker threads.

    session = await engine.aio.open()
    await session.append(text, screenshot)
    async for event in await session.generate(sampling): ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from holotron.engine.api import EngineStats, Grammar, Mark, OnUpdate, Result, SamplingParams, SessionInfo, Span
from holotron.engine.exported import ExportedSession, log_alone
from holotron.engine.generation import Generation
from holotron.engine.grammar import Matcher
from holotron.engine.log import compose_screen
from holotron.engine.sequence import Sequence
from holotron.engine.session import SessionCommands
from holotron.engine.weights import Change

if TYPE_CHECKING:
    from holotron.engine.content import Part, Parts
    from holotron.engine.engine import Engine
    from holotron.model.processor import Deltas, ShownScreen

T = TypeVar("T")


class AsyncEngine:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def open(self, session_id: str | None = None, *, scope: bytes = b"") -> AsyncSession:
        return AsyncSession(self._engine, await self._opened(self._engine.open_later(session_id, scope)))

    async def restore(
        self, exported: ExportedSession, session_id: str | None = None, *, scope: bytes = b""
    ) -> AsyncSession:
        engine = self._engine
        content = await self.on_worker(lambda: engine.log_of(exported))
        return AsyncSession(engine, await self._opened(engine.restore_later(exported, content, session_id, scope)))

    async def _opened(self, later: Future[Sequence]) -> Sequence:
        return await taken(later, lambda made: self._engine.on_loop(lambda core: core.close(made)))

    async def session(self, session_id: str) -> AsyncSession:
        found = self._engine.on_loop(lambda core: core.sessions.get(session_id))
        return AsyncSession(self._engine, await asyncio.wrap_future(found))

    async def complete(
        self,
        prompt: Parts,
        sampling: SamplingParams | None = None,
        *,
        grammar: Grammar | None = None,
        n: int = 1,
        timeout: float | None = None,
        scope: bytes = b"",
    ) -> list[Generation]:
        engine = self._engine
        content, matchers = await self.on_worker(
            lambda: (engine.prepare(prompt, scope=scope), [engine.compile(grammar, scope) for _ in range(n)])
        )
        later = engine.complete_later(content, sampling or SamplingParams(), matchers, timeout, scope)
        return await taken(later, lambda started: list(map(Generation.cancel, started)))

    async def compile(self, grammar: Grammar | None) -> Matcher | None:
        return await self.on_worker(lambda: self._engine.compile(grammar)) if grammar is not None else None

    async def update_weights(
        self, changes: Mapping[str, Change], on_update: OnUpdate = "keep", version: int | None = None
    ) -> int:
        later = self._engine.on_loop(lambda core: core.update_weights(changes, on_update, version))
        return await asyncio.wrap_future(later)

    async def stats(self) -> EngineStats:
        return await asyncio.wrap_future(self._engine.counted())

    async def on_worker(self, work: Callable[[], T]) -> T:
        """Do something slow on one of the engine's worker threads."""
        return await asyncio.get_running_loop().run_in_executor(self._engine.workers, work)


async def taken(later: Future[T], give_back: Callable[[T], object]) -> T:
    """What the loop gives. Whoever is cancelled when it is there already gives it back: nobody else knows of it."""

    def late(done: Future[T]) -> None:
        if not done.cancelled() and done.exception() is None:
            give_back(done.result())

    try:
        return await asyncio.wrap_future(later)
    except asyncio.CancelledError:
        later.add_done_callback(late)
        raise


class AsyncSession(SessionCommands):
    """See `Session`, which has the same methods with the same meaning."""

    async def append(self, *parts: Part, deltas: Deltas | None = None, confirm: bool = False) -> int:
        if deltas is not None and deltas.screen is None:
            deltas = replace(deltas, screen=await self.screen())
        content = await self._engine.aio.on_worker(lambda: self._engine.prepare(parts, deltas, self.scope))
        if confirm:
            await asyncio.wrap_future(self._append(content))
        else:
            self._append_unseen(content)
        return len(content)

    async def screen(self) -> ShownScreen | None:
        parts = await asyncio.wrap_future(self._screen())
        return await self._engine.aio.on_worker(lambda: compose_screen(parts, self._engine.model.config.image))

    async def generate(
        self,
        sampling: SamplingParams | None = None,
        *,
        grammar: Grammar | Matcher | None = None,
        timeout: float | None = None,
        said: Iterable[int] = (),
    ) -> Generation:
        matcher = await self._engine.aio.compile(grammar) if isinstance(grammar, Grammar) else grammar
        return await taken(self._generate(sampling, matcher, timeout, said), Generation.cancel)

    async def prefill(self, timeout: float | None = None) -> Result:
        return await (await self.generate(SamplingParams(max_tokens=0), timeout=timeout))

    async def mark(self) -> Mark:
        return await asyncio.wrap_future(self._mark())

    async def unmark(self, mark: Mark) -> None:
        await asyncio.wrap_future(self._unmark(mark))

    async def rewind(self, to: Mark | int) -> None:
        await asyncio.wrap_future(self._rewind(to))

    async def fork(self, n: int = 1, *, ids: Iterable[str] | None = None) -> list[AsyncSession]:
        def close(made: list[Sequence]) -> object:
            return self._engine.on_loop(lambda core: list(map(core.close, made)))

        return [AsyncSession(self._engine, fork) for fork in await taken(self._fork(n, ids), close)]

    async def compact(self, keep: Iterable[Span | Part]) -> int:
        parts = await self._engine.aio.on_worker(lambda: self._prepare_keep(keep))
        return await asyncio.wrap_future(self._compact(parts))

    async def export(self) -> ExportedSession:
        return await asyncio.wrap_future(self._export())

    async def export_log(self) -> ExportedSession:
        """The log alone, for another engine to compute again."""
        log = await asyncio.wrap_future(self._log())
        return await self._engine.aio.on_worker(lambda: log_alone(self.id, log, self._engine.model.config))

    async def tokens(self) -> list[int]:
        return await asyncio.wrap_future(self._tokens())

    async def info(self) -> SessionInfo:
        return await asyncio.wrap_future(self._info())

    async def close(self) -> None:
        await asyncio.wrap_future(self._close())

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()
