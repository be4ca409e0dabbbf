"""A session as a program holds it: a conversation that only ever grows, forks, and goes back to where it was.

Appending is lazy: tokens wait in the log until a generation needs them, and are then computed together, once. What has
been computed is never computed again; between two generations of an append-only session the network sees exactly the
new tokens and the one it sampled last.

A session does one thing at a time: while it generates, everything but `close` and cancelling raises `SessionBusy`.

One object in two styles of calling: `Session` waits, `aio.AsyncSession` is awaited. Both hand commands to the loop's
thread, where the session is a `Sequence`: a log and what the network remembers of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from holotron.engine.api import Grammar, Mark, Result, SamplingParams, SessionBusy, SessionInfo, Span, UnknownSession
from holotron.engine.core import Core
from holotron.engine.exported import ExportedSession, export
from holotron.engine.generation import Generation
from holotron.engine.grammar import Matcher
from holotron.engine.log import Log, Picture, TileSpan, compose_screen
from holotron.engine.sequence import Sequence
from holotron.engine.sessions import describe
from holotron.errors import HolotronError
from holotron.model.processor import Deltas, ShownScreen

if TYPE_CHECKING:
    from holotron.engine.content import Part
    from holotron.engine.engine import Engine

T = TypeVar("T")


class SessionCommands:
    """What both styles of a session share: its commands to the loop, each as a future."""

    def __init__(self, engine: Engine, sequence: Sequence) -> None:
        self.id = sequence.id
        self._engine = engine
        self._sequence = sequence

    @property
    def scope(self) -> bytes:
        return self._sequence.scope

    @property
    def closed(self) -> bool:
        return self._sequence.closed

    @property
    def busy(self) -> bool:
        """It is generating."""
        request = self._sequence.request
        return request is not None and not request.background

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionCommands) and other._sequence is self._sequence

    def __hash__(self) -> int:
        return hash(self._sequence)

    def _do(self, command: Callable[[Core, Sequence], T], *, at_rest: bool = True) -> Future[T]:
        """Have something done to the session by the loop's thread."""

        def run(core: Core) -> T:
            if at_rest:
                core.settle(self._sequence)
            return command(core, self._sequence)

        return self._engine.on_loop(run)

    def _append(self, content: Log) -> Future[None]:
        return self._do(lambda core, sequence: core.append(sequence, content))

    def _append_unseen(self, content: Log) -> None:
        """Nobody waits: should the engine refuse it, the next call says so."""
        if self.closed:
            raise UnknownSession(f"session {self.id!r} is closed")
        if self.busy:
            raise SessionBusy(f"session {self.id!r} is generating; wait for it or cancel it")

        def command(core: Core, sequence: Sequence) -> None:
            if sequence.fault is not None:
                return  # something is missing before it already
            try:
                core.settle(sequence)
                core.append(sequence, content)
            except HolotronError as error:
                sequence.fault = error

        self._do(command, at_rest=False)

    def _generate(
        self,
        sampling: SamplingParams | None,
        matcher: Matcher | None,
        timeout: float | None,
        said: Iterable[int] = (),
    ) -> Future[Generation]:
        params, begun = sampling or SamplingParams(), tuple(said)
        return self._do(lambda core, sequence: self._engine.start(sequence, params, matcher, timeout, said=begun))

    def _export(self) -> Future[ExportedSession]:
        return self._do(
            lambda core, sequence: export(sequence, core.pools, core.model.config, core.sessions.weights_version)
        )

    def _log(self) -> Future[Log]:
        return self._do(lambda core, sequence: sequence.log.copy(), at_rest=False)

    def _mark(self) -> Future[Mark]:
        return self._do(lambda core, sequence: core.sessions.mark(sequence))

    def _unmark(self, mark: Mark) -> Future[None]:
        return self._do(lambda core, sequence: core.sessions.unmark(sequence, mark))

    def _rewind(self, to: Mark | int) -> Future[None]:
        return self._do(lambda core, sequence: core.sessions.rewind(sequence, core.sessions.position(sequence, to)))

    def _fork(self, n: int, ids: Iterable[str] | None) -> Future[list[Sequence]]:
        names = list(ids) if ids is not None else [uuid.uuid4().hex for _ in range(n)]
        return self._do(lambda core, sequence: core.sessions.fork(sequence, names))

    def _prepare_keep(self, keep: Iterable[Span | Part]) -> list[Span | Log]:
        return [part if isinstance(part, Span) else self._engine.prepare(part, scope=self.scope) for part in keep]

    def _compact(self, keep: list[Span | Log]) -> Future[int]:
        return self._do(lambda core, sequence: core.sessions.compact(sequence, keep))

    def _screen(self) -> Future[list[tuple[Picture, list[TileSpan]]]]:
        return self._do(lambda core, sequence: sequence.log.screen_parts(), at_rest=False)

    def _tokens(self) -> Future[list[int]]:
        return self._do(lambda core, sequence: list(sequence.log.ids), at_rest=False)

    def _info(self) -> Future[SessionInfo]:
        return self._do(lambda core, sequence: describe(sequence), at_rest=False)

    def _close(self) -> Future[None]:
        return self._do(lambda core, sequence: None if sequence.closed else core.close(sequence), at_rest=False)


class Session(SessionCommands):
    def append(self, *parts: Part, deltas: Deltas | None = None, confirm: bool = False) -> int:
        """Add text, token ids, images or rendered prompts to the end; how many tokens that made. Does not wait: should
        the engine have to refuse it (the context is full), the next call says so; with `confirm` it waits, and says so
        itself. With `deltas`, images are told as changes to the session's last one; for rendered prompts that is up to
        the processor."""
        if deltas is not None and deltas.screen is None:
            deltas = replace(deltas, screen=self.screen())
        content = self._engine.prepare(parts, deltas, self.scope)
        if confirm:
            self._append(content).result()
        else:
            self._append_unseen(content)
        return len(content)

    def screen(self) -> ShownScreen | None:
        """What has been shown of the screen so far, from the log: the last screenshot, put together from the changes
        where it was told as such. None: nothing, or not all of it is in the log any more."""
        return compose_screen(self._screen().result(), self._engine.model.config.image)

    def generate(
        self,
        sampling: SamplingParams | None = None,
        *,
        grammar: Grammar | Matcher | None = None,
        timeout: float | None = None,
        said: Iterable[int] = (),
    ) -> Generation:
        """Continue the log. What is generated becomes part of it, token by token. `grammar` may be compiled already
        (`Engine.compile`). After `timeout` seconds it ends with finish_reason "deadline". `said`: the reply was begun
        elsewhere with these tokens; it says them again, whatever it would have sampled, and goes on."""
        return self._generate(sampling, self._engine.compile(grammar), timeout, said).result()

    def prefill(self, timeout: float | None = None) -> Result:
        """Compute everything appended so far, and wait for that."""
        return self.generate(SamplingParams(max_tokens=0), timeout=timeout).result()

    def mark(self) -> Mark:
        """Remember this position. Returning to it later computes nothing again (but the last token, if that was just
        sampled). A mark holds memory until `unmark`, a rewind before it, or the end of the session."""
        return self._mark().result()

    def unmark(self, mark: Mark) -> None:
        """Free what a mark holds."""
        self._unmark(mark).result()

    def rewind(self, to: Mark | int) -> None:
        """Forget everything after a mark, or after any number of tokens: then the part since the last mark before it
        is computed again (see `EngineStats.recomputed_tokens`)."""
        self._rewind(to).result()

    def fork(self, n: int = 1, *, ids: Iterable[str] | None = None) -> list[Session]:
        """Sessions that go on from here on their own. Nothing is copied but what one of them then changes."""
        return [Session(self._engine, fork) for fork in self._fork(n, ids).result()]

    def compact(self, keep: Iterable[Span | Part]) -> int:
        """Rebuild the log from pieces of itself and new content, in the given order, and return its length. Whatever
        follows the unchanged beginning is computed again when needed."""
        return self._compact(self._prepare_keep(keep)).result()

    def export(self) -> ExportedSession:
        """Everything it is, to go on from in another engine of the same model (`Engine.restore`)."""
        return self._export().result()

    def tokens(self) -> list[int]:
        """The log so far."""
        return self._tokens().result()

    def info(self) -> SessionInfo:
        return self._info().result()

    def close(self) -> None:
        """Free everything it holds; a generation under way is cancelled."""
        self._close().result()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
