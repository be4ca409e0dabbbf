"""The engine as a program uses it: a background thread that runs the loop, and the calls that talk to it.

Every call becomes a command in one queue; the loop obeys between two iterations. So nothing in `core` needs a lock, and
commands take effect in the order they were given. What takes time and needs no accelerator (decoding images, compiling
grammars) happens before, on the caller's thread or a worker's.
"""

from __future__ import annotations

import logging
import queue
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

from holotron.engine.aio import AsyncEngine
from holotron.engine.api import (
    EngineConfig,
    EngineStats,
    EngineStopped,
    Grammar,
    OnUpdate,
    SamplingParams,
    StepReport,
)
from holotron.engine.content import ContentEncoder, Parts
from holotron.engine.core import Core
from holotron.engine.exported import ExportedSession, log_of
from holotron.engine.generation import Generation, Outbox
from holotron.engine.grammar import GrammarCompiler, Matcher
from holotron.engine.log import Log
from holotron.engine.sampler import mix64
from holotron.engine.sequence import Request, Sequence
from holotron.engine.session import Session
from holotron.engine.sizes import free_host_memory
from holotron.engine.text import TextStream
from holotron.engine.weights import Change
from holotron.errors import HolotronError, InputError
from holotron.model.model import Holotron
from holotron.model.processor import Deltas, Processor

T = TypeVar("T")
log = logging.getLogger(__name__)


class Engine:
    """Serves many sessions of one model at once. What a session holds is computed once, and remembered.

        model, processor = load_model("tiny")
        with Engine(model, processor, EngineConfig(max_running=32)) as engine:
            with engine.open() as session:                          # a conversation the engine remembers
                session.append("The capital of France is")          # text, token ids, images, rendered prompts; lazy
                reply = session.generate(SamplingParams(max_tokens=8))
                print(reply.result().text)                          # or: for event in reply
                left, right = session.fork(2)                       # each goes on on its own, nothing is copied
            [reply] = engine.complete("Once upon a time")           # one request, resuming whatever prefix is known

    Start with `open` and `complete`; `aio` has the same calls to be awaited. `SamplingParams` say how to choose tokens,
    `EngineConfig` how much memory there is. Every method may be called from any thread. The work is done by one thread
    of the engine's own, in iterations: each gives every running request its next token, and prompts the rest.

    `update_weights` puts new weights in while it runs, and every token says by which `version` it was computed.
    `close` ends everything; `drain` lets what runs finish first.
    """

    def __init__(
        self,
        model: Holotron,
        processor: Processor | None = None,
        config: EngineConfig | None = None,
        *,
        on_step: Callable[[StepReport], None] | None = None,
    ) -> None:
        """Without a processor everything works on token ids alone. `on_step` is called from the loop's thread."""
        self.model = model.eval()
        self.processor = processor
        self.config = config or EngineConfig()
        self.workers = ThreadPoolExecutor(self.config.workers, thread_name_prefix="holotron-worker")
        self._core = Core(model, self.config, on_step)
        if processor is not None:
            wanted = self.config.picture_cache_bytes
            processor.seen.limit_bytes = free_host_memory() // 16 if wanted is None else wanted
        self._content = ContentEncoder(model, processor, self._core.tiles)
        self._tokenizer = processor.tokenizer if processor is not None else None
        self._grammars = (
            GrammarCompiler(self._tokenizer, model.config.decoder.vocab, model.config.tokens.eos)
            if self._tokenizer is not None
            else None
        )
        self._outbox = Outbox()
        self.aio = AsyncEngine(self)
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._draining = self._stopped = False
        self._thread = threading.Thread(target=self._loop, name="holotron-engine", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------------------------------------ sessions

    def open(self, session_id: str | None = None, *, scope: bytes = b"") -> Session:
        """A new, empty session. Close it when done: it holds memory. What sessions and requests of different scopes
        have in common is computed for each, so that none can tell from the time it takes what another one holds."""
        return Session(self, self.open_later(session_id, scope).result())

    def open_later(self, session_id: str | None = None, scope: bytes = b"") -> Future[Sequence]:
        """The same without waiting, for `aio`."""
        id = session_id if session_id is not None else uuid.uuid4().hex

        def command(core: Core) -> Sequence:
            self._accepting()
            return core.sessions.open(id, scope)

        return self.on_loop(command)

    def restore(self, exported: ExportedSession, session_id: str | None = None, *, scope: bytes = b"") -> Session:
        """A session that another engine exported goes on here, under its own name or another one."""
        return Session(self, self.restore_later(exported, self.log_of(exported), session_id, scope).result())

    def log_of(self, exported: ExportedSession) -> Log:
        """Its log, checked; takes a while, call it from any thread."""
        log = log_of(exported, self._core.tiles, self.model.config)
        self._content.check(log)
        return log

    def restore_later(
        self, exported: ExportedSession, log: Log, session_id: str | None, scope: bytes
    ) -> Future[Sequence]:
        def command(core: Core) -> Sequence:
            self._accepting()
            return core.sessions.adopt(exported, session_id or exported.id, log, scope)

        return self.on_loop(command)

    def session(self, session_id: str) -> Session:
        """The open session of this name."""
        return Session(self, self.on_loop(lambda core: core.sessions.get(session_id)).result())

    # ------------------------------------------------------------------------------------------ stateless requests

    def complete(
        self,
        prompt: Parts,
        sampling: SamplingParams | None = None,
        *,
        grammar: Grammar | None = None,
        n: int = 1,
        timeout: float | None = None,
        scope: bytes = b"",
    ) -> list[Generation]:
        """Continue a prompt, `n` times. It resumes whatever known log the prompt extends, and is itself remembered
        (as far as there is room) for the next request of this scope that extends it."""
        matchers = [self.compile(grammar, scope) for _ in range(n)]
        content = self.prepare(prompt, scope=scope)
        return self.complete_later(content, sampling or SamplingParams(), matchers, timeout, scope).result()

    def complete_later(
        self,
        prompt: Log,
        sampling: SamplingParams,
        matchers: list[Matcher | None],
        timeout: float | None = None,
        scope: bytes = b"",
        said: Mapping[int, Iterable[int]] | None = None,
    ) -> Future[list[Generation]]:
        """The same for what is prepared (for this scope) already; one reply per matcher. `said`: how replies begin, by
        their number (see `Session.generate`)."""
        if not matchers:
            raise InputError("n must be at least 1")

        def command(core: Core) -> list[Generation]:
            # Equal prompts are computed once: the others wait for the first one's snapshot (see `Sessions.resume`).
            started: list[Generation] = []
            seed = new_seed(sampling)
            for n, matcher in enumerate(matchers):
                try:
                    sequence = core.sessions.stateless(prompt.copy(), scope)
                    own = seed if n == 0 else mix64(seed + n)
                    begun = tuple((said or {}).get(n, ()))
                    started.append(self.start(sequence, sampling, matcher, timeout, own, begun))
                except HolotronError:
                    for generation in started:
                        generation.cancel()
                    raise
            return started

        return self.on_loop(command)

    # ------------------------------------------------------------------------------------- what happens beforehand

    def prepare(self, parts: Parts, deltas: Deltas | None = None, scope: bytes = b"") -> Log:
        """Content as the log keeps it, checked. Text is taken literally: control tokens in it are letters; a `Prompt`
        made by the processor has real ones. With `deltas`, images are told as changes to the screen before. Decodes and
        cuts images, so it may take a while; call it from any thread."""
        return self._content.encode(parts, deltas, scope)

    def compile(self, grammar: Grammar | Matcher | None, scope: bytes = b"") -> Matcher | None:
        """A grammar ready for one generation; may take a while the first time. Call it from any thread."""
        if grammar is None or isinstance(grammar, Matcher):
            return grammar
        if self._grammars is None:
            raise InputError("this engine has no processor: a grammar needs its tokenizer")
        return self._grammars.compile(grammar, scope)

    # ---------------------------------------------------------------------------------------------- the whole engine

    @property
    def weights(self) -> str:
        """Which they were when it was made: the same name means the same numbers."""
        return self._core.sessions.weights

    @property
    def version(self) -> int:
        """Of the weights: how often they were updated."""
        return self._core.version

    def update_weights(
        self, changes: Mapping[str, Change], on_update: OnUpdate = "keep", version: int | None = None
    ) -> int:
        """New parameters, in place, between two iterations; returns the new version, which is the next one unless it is
        told. A change is a tensor, or less than that (see `weights`). Open sessions keep what they remember, or have it
        computed again when it is next needed (`refresh`)."""
        return self.on_loop(lambda core: core.update_weights(changes, on_update, version)).result()

    def clear_prefix_cache(self) -> None:
        """Forget all finished stateless requests. Open sessions stay as they are."""
        self.on_loop(lambda core: core.clear_prefix_cache()).result()

    def stats(self) -> EngineStats:
        return self.counted().result()

    def counted(self) -> Future[EngineStats]:
        return self.on_loop(self._count)

    def _count(self, core: Core) -> EngineStats:
        stats = core.stats()
        if self.processor is not None:
            stats.pictures_reused, stats.picture_bytes_used = self.processor.seen.found, self.processor.seen.bytes_used
        return stats

    def check_integrity(self) -> None:
        """Count every reference to every block of memory; raises `IntegrityError` if one is wrong."""
        self.on_loop(lambda core: core.check_integrity()).result()

    @property
    def context_limit(self) -> int:
        """Tokens one session may have."""
        return self._core.context_limit

    def drain(self, timeout: float | None = None) -> bool:
        """Accept nothing new and wait for what runs. False: not everything was finished in time."""
        self._draining = True
        until = time.monotonic() + timeout if timeout is not None else None
        while self.on_loop(lambda core: bool(core.scheduler.active())).result():
            if until is not None and time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True

    def close(self) -> None:
        """Stop. Whatever still runs ends with `EngineStopped`."""
        self._stopped = True
        self._commands.put(lambda: None)
        self._thread.join()
        self._obey(wait=0.0)  # what came too late for the loop
        self._core.shut_down()
        self.workers.shutdown(cancel_futures=True)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -------------------------------------------------------------------------------------------- the loop's thread

    def on_loop(self, command: Callable[[Core], T]) -> Future[T]:
        """Have something done to the core by the loop's thread, between two iterations. For this room, and for tools
        that measure it; everybody else finds a method above, or on a session."""
        future: Future[T] = Future()

        def obey() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                if self._stopped:
                    raise EngineStopped("the engine was closed")
                future.set_result(command(self._core))
            except BaseException as error:
                future.set_exception(error)

        self._commands.put(obey)
        if self._stopped and not self._thread.is_alive():
            self._obey(wait=0.0)  # unless `close` has just done it
        return future

    def start(
        self,
        sequence: Sequence,
        sampling: SamplingParams,
        matcher: Matcher | None,
        timeout: float | None,
        seed: int | None = None,
        said: tuple[int, ...] = (),
    ) -> Generation:
        """Submit a request (on the loop's thread)."""
        self._accepting()
        if sampling.stop and self._tokenizer is None:
            raise InputError("this engine has no processor: stop strings need its tokenizer")

        def cancel() -> None:
            self._commands.put(lambda: self._core.finish(request, "cancelled"))

        generation = Generation(self._outbox, cancel)
        request = Request(
            sequence,
            sampling,
            seed=seed if seed is not None else new_seed(sampling),
            text=TextStream(self._tokenizer, sampling.stop),
            matcher=matcher,
            deadline=time.monotonic() + timeout if timeout is not None else None,
            deliver=generation._push,
            said=said,
        )
        self._core.submit(request)
        return generation

    def _accepting(self) -> None:
        if self._draining:
            raise EngineStopped("the engine is shutting down and accepts nothing new")

    def _loop(self) -> None:
        idle = checked = False
        while not self._stopped:
            # Not for long even when there is nothing to do: sessions expire.
            worked = self._obey(wait=0.5 if checked else 0.05 if idle else 0.0)
            try:
                worked = self._core.step() or worked
            except Exception as error:  # a bug; but the others' sessions must not die of it
                log.exception("the scheduler failed; all requests are given up")
                self._core.abort(HolotronError(f"the engine failed: {error}"))
            self._outbox.flush()
            if worked:
                idle = checked = False
            elif not idle:
                idle = True
            elif not checked:
                self._core.check_when_idle()
                checked = True
        self._core.abort(EngineStopped("the engine was closed"))
        self._outbox.flush()
        self._obey(wait=0.0)

    def _obey(self, wait: float) -> bool:
        """Carry out what was asked; if nothing was, wait a while for it."""
        worked = False
        try:
            command = self._commands.get(timeout=wait) if wait else self._commands.get_nowait()
            while True:
                command()
                worked = True
                command = self._commands.get_nowait()
        except queue.Empty:
            return worked


def new_seed(sampling: SamplingParams) -> int:
    return sampling.seed if sampling.seed is not None else secrets.randbits(63)
