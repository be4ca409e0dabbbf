"""A session as a program holds it: a conversation that only ever grows, forks, and goes back to where it was.

Appending is lazy: tokens wait in the log until a generation needs them, and are then computed together, once. What has
been computed is never computed again; between two generations of an append-only session the network sees exactly the
new tokens and the one it sampled last.

A session does one thing at a time: while it generates, everything but `close` and cancelling raises `SessionBusy`.
`aio.AsyncSession` is the same for asyncio.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from holotron.engine.api import Grammar, Mark, Result, SamplingParams, SessionBusy, SessionInfo, Span, UnknownSession
from holotron.engine.generation import Generation
from holotron.engine.grammar import Matcher
from holotron.engine.log import Log, Picture, TileSpan, compose_screen
from holotron.engine.sequence import Sequence as Stream
from holotron.engine.sessions import Sessions, describe
from holotron.errors import HolotronError
from holotron.model.processor import Deltas, Screen

if TYPE_CHECKING:
    from holotron.engine.engine import Engine, Part

T = TypeVar("T")


class Session:
    def __init__(self, engine: Engine, stream: Stream) -> None:
        self.engine = engine
        self.id = stream.id
        self._stream = stream
        self._generation: Generation | None = None

    @property
    def _books(self) -> Sessions:
        return self.engine.core.sessions

    @property
    def closed(self) -> bool:
        return self._stream.closed

    @property
    def busy(self) -> bool:
        return self._generation is not None and not self._generation.done

    # ------------------------------------------------------------------------------------------------- the calls

    def append(self, *parts: Part, deltas: Deltas | None = None) -> int:
        """Add text, token ids, images or rendered prompts to the end; how many tokens that made. Does not wait: should
        the engine have to refuse it (the context is full), the next call says so. With `deltas`, images are told as
        changes to the session's last one; for rendered prompts that is up to the processor."""
        if deltas is not None and deltas.screen is None:
            deltas = replace(deltas, screen=self.screen())
        content = self.engine.prepare(parts, deltas)
        self.append_later(content)
        return len(content)

    def screen(self) -> Screen | None:
        """What has been shown of the screen so far, from the log: the last screenshot, put together from the changes
        where it was told as such. None: nothing, or not all of it is in the log any more."""
        return compose_screen(self.screen_later().result(), self.engine.model.config.image)

    def generate(
        self,
        sampling: SamplingParams | None = None,
        *,
        grammar: Grammar | None = None,
        timeout: float | None = None,
    ) -> Generation:
        """Continue the log. What is generated becomes part of it, token by token. After `timeout` seconds it ends
        with finish_reason "deadline"."""
        matcher = self.engine.compile(grammar)
        return self.generate_later(sampling or SamplingParams(), matcher, timeout).result()

    def prefill(self, timeout: float | None = None) -> Result:
        """Compute everything appended so far, and wait for that."""
        return self.generate(SamplingParams(max_tokens=0), timeout=timeout).result()

    def mark(self) -> Mark:
        """Remember this position. Returning to it later computes nothing again (but the last token, if that was just
        sampled). A mark holds memory until `unmark`, a rewind before it, or the end of the session."""
        return self.do(self._books.mark).result()

    def unmark(self, mark: Mark) -> None:
        """Free what a mark holds."""
        self.do(lambda stream: self._books.unmark(stream, mark)).result()

    def rewind(self, to: Mark | int) -> None:
        """Forget everything after a mark, or after any number of tokens: then the part since the last mark before it
        is computed again (see `EngineStats.recomputed_tokens`)."""
        self.rewind_later(to).result()

    def fork(self, n: int = 1, *, ids: Sequence[str] | None = None) -> list[Session]:
        """Sessions that go on from here on their own. Nothing is copied but what one of them then changes."""
        return self.fork_later(n, ids).result()

    def compact(self, keep: Sequence[Span | Part]) -> int:
        """Rebuild the log from pieces of itself and new content, in the given order, and return its length. Whatever
        follows the unchanged beginning is computed again when needed."""
        return self.compact_later(self.prepare_keep(keep)).result()

    def tokens(self) -> list[int]:
        """The log so far."""
        return self.do(lambda stream: list(stream.log.ids), at_rest=False).result()

    def info(self) -> SessionInfo:
        return self.do(describe, at_rest=False).result()

    def close(self) -> None:
        """Free everything it holds; a generation under way is cancelled."""
        self.close_later().result()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # ------------------------------------------------------------------------ the same without waiting; see also `aio`

    def do(self, command: Callable[[Stream], T], *, at_rest: bool = True) -> Future[T]:
        """Have something done to the session by the loop's thread."""

        def run() -> T:
            if at_rest:
                self.engine.core.settle(self._stream)
            return command(self._stream)

        return self.engine.post(run)

    def append_later(self, content: Log) -> None:
        if self.closed:
            raise UnknownSession(f"session {self.id!r} is closed")
        if self.busy:
            raise SessionBusy(f"session {self.id!r} is generating; wait for it or cancel it")

        def command(stream: Stream) -> None:
            if stream.fault is not None:
                return  # something is missing before it already
            try:
                self.engine.core.settle(stream)
                self._books.append(stream, content)
                if self.engine.config.prefetch:
                    self.engine.core.prefetch(stream)
            except HolotronError as error:
                stream.fault = error

        self.do(command, at_rest=False)

    def generate_later(
        self, sampling: SamplingParams, matcher: Matcher | None, timeout: float | None
    ) -> Future[Generation]:
        def command(stream: Stream) -> Generation:
            self._generation = self.engine.start(stream, sampling, matcher, timeout)
            return self._generation

        return self.do(command)

    def rewind_later(self, to: Mark | int) -> Future[None]:
        return self.do(lambda stream: self._books.rewind(stream, self._books.position(stream, to)))

    def screen_later(self) -> Future[list[tuple[Picture, list[TileSpan]]]]:
        return self.do(lambda stream: stream.log.screen_parts(), at_rest=False)

    def fork_later(self, n: int, ids: Sequence[str] | None) -> Future[list[Session]]:
        names = list(ids) if ids is not None else [uuid.uuid4().hex for _ in range(n)]
        return self.do(lambda stream: [self.engine.register(twin) for twin in self._books.fork(stream, names)])

    def prepare_keep(self, keep: Sequence[Span | Part]) -> list[Span | Log]:
        return [part if isinstance(part, Span) else self.engine.prepare(part) for part in keep]

    def compact_later(self, keep: list[Span | Log]) -> Future[int]:
        def command(stream: Stream) -> int:
            self._books.compact(stream, keep)
            return len(stream.log)

        return self.do(command)

    def close_later(self) -> Future[None]:
        return self.do(lambda stream: None if stream.closed else self.engine.core.close(stream), at_rest=False)
