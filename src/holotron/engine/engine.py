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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Literal, TypeVar

import numpy as np
from PIL import Image
from torch import Tensor

from holotron.engine.aio import AsyncEngine
from holotron.engine.api import (
    EngineConfig,
    EngineStats,
    EngineStopped,
    Grammar,
    SamplingParams,
    StepReport,
    UnknownSession,
)
from holotron.engine.core import Core
from holotron.engine.generation import Generation, Outbox
from holotron.engine.grammar import GrammarCompiler, Matcher
from holotron.engine.log import Log
from holotron.engine.sampler import mix64
from holotron.engine.sequence import Request
from holotron.engine.sequence import Sequence as Stream
from holotron.engine.session import Session
from holotron.engine.text import TextStream
from holotron.errors import HolotronError, InputError
from holotron.model.model import Holotron
from holotron.model.processor import Deltas, Processor, Prompt

Part = str | Sequence[int] | Prompt | bytes | np.ndarray | Image.Image  # text, token ids, rendered, or an image
Policy = Literal["keep", "refresh"]
T = TypeVar("T")
log = logging.getLogger(__name__)


class Engine:
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
        self.core = Core(model, self.config, on_step)
        self._tokenizer = processor.tokenizer if processor is not None else None
        self._grammars = (
            GrammarCompiler(self._tokenizer, model.config.decoder.vocab, model.config.tokens.eos)
            if self._tokenizer is not None
            else None
        )
        self._outbox = Outbox()
        self.aio = AsyncEngine(self)
        self._sessions: dict[str, Session] = {}
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._draining = self._stopped = False
        self._thread = threading.Thread(target=self._loop, name="holotron-engine", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------------------------------------ sessions

    def open(self, session_id: str | None = None) -> Session:
        """A new, empty session. Close it when done: it holds memory."""
        return self.open_later(session_id).result()

    def open_later(self, session_id: str | None = None) -> Future[Session]:
        id = session_id if session_id is not None else uuid.uuid4().hex

        def command() -> Session:
            self._accepting()
            return self.register(self.core.sessions.open(id))

        return self.post(command)

    def session(self, session_id: str) -> Session:
        """The open session of this name."""
        session = self._sessions.get(session_id)
        if session is None or session.closed:
            raise UnknownSession(f"there is no session {session_id!r}; it was never opened, was closed, or expired")
        return session

    def register(self, stream: Stream) -> Session:
        """A handle for an open session (on the loop's thread)."""
        session = self._sessions[stream.id] = Session(self, stream)
        for id in [id for id, other in self._sessions.items() if other.closed]:
            del self._sessions[id]
        return session

    # ------------------------------------------------------------------------------------------ stateless requests

    def complete(
        self,
        prompt: Part | Sequence[Part],
        sampling: SamplingParams | None = None,
        *,
        grammar: Grammar | None = None,
        n: int = 1,
        timeout: float | None = None,
    ) -> list[Generation]:
        """Continue a prompt, `n` times. It resumes whatever known log the prompt extends, and is itself remembered
        (as far as there is room) for the next request that extends it."""
        matchers = [self.compile(grammar) for _ in range(n)]
        return self.complete_later(self.prepare(prompt), sampling or SamplingParams(), matchers, timeout).result()

    def complete_later(
        self, prompt: Log, sampling: SamplingParams, matchers: Sequence[Matcher | None], timeout: float | None = None
    ) -> Future[list[Generation]]:
        """The same for what is prepared already; one reply per matcher."""
        if not matchers:
            raise InputError("n must be at least 1")

        def command() -> list[Generation]:
            # Equal prompts are computed once: the others wait for the first one's snapshot (see `Sessions.resume`).
            started: list[Generation] = []
            seed = new_seed(sampling)
            for n, matcher in enumerate(matchers):
                try:
                    stream = self.core.sessions.stateless(prompt.copy())
                    started.append(self.start(stream, sampling, matcher, timeout, seed if n == 0 else mix64(seed + n)))
                except HolotronError:
                    for generation in started:
                        generation.cancel()
                    raise
            return started

        return self.post(command)

    # ------------------------------------------------------------------------------------- what happens beforehand

    def prepare(self, parts: Part | Sequence[Part], deltas: Deltas | None = None) -> Log:
        """Content as the log keeps it. Text is taken literally: control tokens in it are letters; a `Prompt` made by
        the processor has real ones. With `deltas`, images are told as changes to the screen before. Decodes and cuts
        images, so it may take a while; call it from any thread."""
        content = Log()
        for part in as_parts(parts):
            if deltas is not None and isinstance(part, bytes | np.ndarray | Image.Image) and self.processor is not None:
                prompt = self.processor.encode_image(part, deltas)
                part, deltas = prompt, deltas.after(prompt)
            content.extend(self._prepare(part))
        self._check(content)
        return content

    def _prepare(self, part: Part) -> Log:
        if isinstance(part, Prompt):
            return Log.of(part, self.core.tiles)
        if isinstance(part, list | tuple):
            if bad := [token for token in part if type(token) is not int]:
                raise InputError(f"{bad[0]!r} is not a token id")
            return Log(part)
        if self.processor is None:
            raise InputError("this engine has no processor: append token ids, not text or images")
        if isinstance(part, str):
            return Log(self.processor.encode_text(part))
        if isinstance(part, bytes | np.ndarray | Image.Image):
            return Log.of(self.processor.encode_image(part), self.core.tiles)
        raise InputError(f"cannot append a {type(part).__name__}: give text, token ids, an image or a Prompt")

    def _check(self, content: Log) -> None:
        """Nothing that the network cannot read may get into a batch: it would break the others' iteration too."""
        config, eyes = self.model.config, self.model.vision_model is not None
        if content.tiles and not eyes:
            raise InputError(f"{config.name or 'this model'} has no vision tower: it reads text only")
        shown, parts = np.zeros(len(content), bool), np.zeros(len(content), bool)
        for picture in content.pictures:
            parts[picture.start : picture.end] = picture.runs is not None  # changes show parts of tiles
        for span in content.tiles:
            shown[span.start : span.end] = True
            tokens = config.image.tokens(*span.tile.pixels.shape[-2:])
            if span.offset + span.count > tokens or (span.count != tokens and not parts[span.start]):
                raise InputError("the image was cut for another model: its tiles make another number of tokens")
        ids = np.array(content.ids, np.int64)
        wrong = ids[~shown & ((ids < 0) | (ids >= config.decoder.vocab))]
        if wrong.size:
            raise InputError(
                f"{wrong[0]} is not a token id of this model: they go from 0 to {config.decoder.vocab - 1}"
            )
        if eyes and (~shown & (ids == config.tokens.image)).any():
            raise InputError(f"token {config.tokens.image} stands for an image; append the image itself")

    def compile(self, grammar: Grammar | None) -> Matcher | None:
        """A grammar ready for one generation; may take a while the first time. Call it from any thread."""
        if grammar is None:
            return None
        if self._grammars is None:
            raise InputError("this engine has no processor: a grammar needs its tokenizer")
        return self._grammars.compile(grammar)

    # ---------------------------------------------------------------------------------------------- the whole engine

    def update_weights(self, tensors: Mapping[str, Tensor], policy: Policy = "keep") -> int:
        """New parameters, in place, between two iterations; returns the new version. See `Core.update_weights`."""
        return self.post(lambda: self.core.update_weights(tensors, policy)).result()

    def stats(self) -> EngineStats:
        return self.post(self.core.stats).result()

    def check_integrity(self) -> None:
        self.post(self.core.check_integrity).result()

    @property
    def context_limit(self) -> int:
        """Tokens one session may have."""
        return self.core.context_limit

    def drain(self, timeout: float | None = None) -> bool:
        """Accept nothing new and wait for what runs. False: not everything was finished in time."""
        self._draining = True
        until = time.monotonic() + timeout if timeout is not None else None
        while self.post(lambda: bool(self.core.scheduler.active())).result():
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
        self.workers.shutdown(cancel_futures=True)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -------------------------------------------------------------------------------------------- the loop's thread

    def post(self, command: Callable[[], T]) -> Future[T]:
        """Have something done by the loop, between two iterations."""
        future: Future[T] = Future()

        def obey() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                if self._stopped:
                    raise EngineStopped("the engine was closed")
                future.set_result(command())
            except BaseException as error:
                future.set_exception(error)

        self._commands.put(obey)
        if self._stopped and not self._thread.is_alive():
            obey()
        return future

    def start(
        self,
        stream: Stream,
        sampling: SamplingParams,
        matcher: Matcher | None,
        timeout: float | None,
        seed: int | None = None,
    ) -> Generation:
        """Submit a request (on the loop's thread)."""
        self._accepting()
        if sampling.stop and self._tokenizer is None:
            raise InputError("this engine has no processor: stop strings need its tokenizer")

        def cancel() -> None:
            self._commands.put(lambda: self.core.finish(request, "cancelled"))

        generation = Generation(self._outbox, cancel)
        request = Request(
            stream,
            sampling,
            seed=seed if seed is not None else new_seed(sampling),
            text=TextStream(self._tokenizer, sampling.stop),
            matcher=matcher,
            deadline=time.monotonic() + timeout if timeout is not None else None,
            deliver=generation._push,
        )
        self.core.submit(request)
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
                worked = self.core.step() or worked
            except Exception as error:  # a bug; but the others' sessions must not die of it
                log.exception("the scheduler failed; all requests are given up")
                self.core.abort(HolotronError(f"the engine failed: {error}"))
            self._outbox.flush()
            if worked:
                idle = checked = False
            elif not idle:
                idle = True
            elif not checked:
                self.core.check_when_idle()
                checked = True
        self.core.abort(EngineStopped("the engine was closed"))
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


def as_parts(parts: Part | Sequence[Part]) -> Sequence[Part]:
    """One part or several; a list of numbers is one part."""
    if isinstance(parts, list | tuple) and not (parts and isinstance(parts[0], int)):
        return parts
    return [parts]  # type: ignore[list-item]


def new_seed(sampling: SamplingParams) -> int:
    return sampling.seed if sampling.seed is not None else secrets.randbits(63)
