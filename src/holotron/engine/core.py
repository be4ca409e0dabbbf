"""The engine without threads: requests, and `step()` that advances all of them.

Everything here runs on one thread (that of `engine.Engine`, or a test's own) and never waits. Read `step` first: it is
the whole loop. `sessions` keeps the books, `scheduler` decides, `runner` computes, `sampler` chooses.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from holotron.engine.api import (
    EngineConfig,
    EngineStats,
    FinishReason,
    IntegrityError,
    Overloaded,
    SamplingParams,
    SessionBusy,
    StepReport,
    TokenEvent,
    UnknownSession,
)
from holotron.engine.grammar import Matcher
from holotron.engine.log import TileStore
from holotron.engine.runner import Runner
from holotron.engine.sampler import Choice, Sampled, sample
from holotron.engine.scheduler import Plan, Scheduler
from holotron.engine.sequence import Request, Sequence
from holotron.engine.sessions import Sessions
from holotron.engine.sizes import allocate, context_limit
from holotron.engine.text import TextStream
from holotron.engine.vision import VisionCache
from holotron.engine.weights import load_weights
from holotron.errors import CapacityError, HolotronError, InputError
from holotron.model.model import Holotron

TopLogprobs = tuple[tuple[int, float], ...]
log = logging.getLogger(__name__)


class Core:
    def __init__(
        self, model: Holotron, config: EngineConfig, on_step: Callable[[StepReport], None] | None = None
    ) -> None:
        self.model = model
        self.config = config
        self.eos = frozenset(model.config.tokens.eos)
        self._never = never_sampled(model)
        self._on_step = on_step or (lambda report: None)
        self._totals = EngineStats()
        self._speed = 0.0  # tokens per second, smoothed
        self.pools = allocate(model, config)
        self.context_limit = context_limit(model.config.decoder, config)
        self.sessions = Sessions(config, self.pools, self.context_limit)
        self.tiles = TileStore()
        self.vision = VisionCache(model, config.vision_cache_bytes, config.vision_batch)
        self.runner = Runner(model, self.pools, self.vision)
        mamba = model.config.decoder.mamba
        self.scheduler = Scheduler(
            config,
            self.pools,
            context_limit=self.context_limit,
            align=mamba.chunk if mamba is not None else config.page_size,
            resume=self.sessions.resume,
            evict=self.sessions.evict,
        )

    @property
    def version(self) -> int:
        return self.sessions.version

    # -------------------------------------------------------------------------------------------------- the loop

    @torch.inference_mode()
    def step(self) -> bool:
        """One iteration for everybody. False: there was nothing to do."""
        started = time.perf_counter()
        self._expire()
        plan = self.scheduler.plan()
        for request, error in plan.failed:
            self.finish(request, "error", error=error)
        if not plan.all:
            return bool(plan.failed)
        encoded = self.vision.encoded
        try:
            hidden_SD = self.runner.run(plan.pieces) if plan.pieces else None
            rows = self._remember(plan, hidden_SD)
            self._choose(rows)
        except Exception as error:
            self._give_up(plan, error)
        self._deliver(plan, time.perf_counter() - started, self.vision.encoded - encoded)
        return True

    def _remember(self, plan: Plan, hidden_SD: Tensor | None) -> list[tuple[Request, Tensor]]:
        """The pieces are written: advance the memories, take the snapshots due here. Returns who is to be sampled
        for, with the vector to sample from."""
        due: list[tuple[Request, Tensor]] = []
        vectors = hidden_SD.unbind() if hidden_SD is not None else ()
        for piece, vector in zip(plan.pieces, vectors, strict=True):
            request, sequence = piece.request, piece.request.sequence
            sequence.memory.wrote(piece.end, self.version)
            sequence.service += piece.count
            if piece.start < request.prompt:
                computed = min(piece.end, request.prompt) - piece.start
                request.computed += computed
                self._totals.computed_tokens += computed
            places = [place for place in sequence.wanted() if place.position == piece.end]
            complete = sequence.pending == 0
            if places or (complete and request.params.max_tokens == 0):
                sequence.memory.hidden = vector.clone()  # a view would keep the whole batch alive
            for place in places:
                self.sessions.keep(sequence, place)
            if complete:
                due.append((request, vector))
        for piece in plan.waiting_to_sample:
            hidden = piece.request.sequence.memory.hidden
            assert hidden is not None, "a sequence has nothing to compute and nothing to sample from"
            due.append((piece.request, hidden))
        return due

    def _choose(self, due: list[tuple[Request, Tensor]]) -> None:
        """Sample for everybody whose log is computed to its end, and append."""
        wanted: list[tuple[Request, Tensor]] = []
        for request, vector in due:
            if len(request.events) < request.params.max_tokens:
                wanted.append((request, vector))
            else:
                self.finish(request, "length")  # nothing was asked for but to compute the prompt
        if not wanted:
            return
        requests = [request for request, _ in wanted]
        sampled = self._sample(self.runner.logits(torch.stack([vector for _, vector in wanted])), requests)
        for n, request in enumerate(requests):
            if not request.done:
                self._accept(request, sampled.tokens[n], sampled.logprobs[n], sampled.top[n])

    def _sample(self, logits_BV: Tensor, requests: list[Request]) -> Sampled:
        allowed: dict[int, Tensor] = {}
        for n, request in enumerate(requests):  # while a GPU still computes the logits
            if request.matcher is not None:
                try:
                    allowed[n] = request.matcher.allowed()
                except InputError as error:
                    self.finish(request, "error", error=error)
        return sample(
            logits_BV,
            [Choice(request.params, request.seed, len(request.events)) for request in requests],
            never=self._never,
            allowed=allowed,
        )

    def _accept(self, request: Request, token: int, logprob: float, top: TopLogprobs) -> None:
        """A token was chosen; with a grammar, more may follow from it without a choice."""
        if math.isnan(logprob):
            request.sequence.memory.release()  # whatever it remembers is not a number either
            self.finish(request, "error", error=HolotronError("the network computed NaN for this session"))
            return
        if request.first_token_at is None:
            request.first_token_at = time.monotonic()
        self._append(request, token, logprob, top)
        if request.matcher is None or request.done:
            return
        try:
            request.matcher.accept(token)
            self._follow(request, request.matcher)
        except InputError as error:
            self.finish(request, "error", error=error)

    def _follow(self, request: Request, matcher: Matcher) -> None:
        """Append what the grammar forces, and end where it ends."""
        forced = matcher.forced()
        if matcher.finished and not request.params.ignore_eos:
            forced = [*forced, self.model.config.tokens.eos[0]]
        for token in forced:
            if not request.done:
                self._append(request, token, 0.0, (), forced=True)
        if matcher.finished and not request.done:
            self.finish(request, "stop")

    def _append(self, request: Request, token: int, logprob: float, top: TopLogprobs, *, forced: bool = False) -> None:
        """One more token for the log and for the reader; perhaps the last."""
        params, sequence = request.params, request.sequence
        sequence.log.append(token)
        self._totals.generated_tokens += 1
        self._totals.forced_tokens += forced
        ends = token in params.stop_token_ids or (token in self.eos and not params.ignore_eos)
        text, stop = (request.text.finish(), None) if ends else request.text.push(token)
        last = len(request.events) + 1 >= params.max_tokens or len(sequence.log) >= self.context_limit
        if last and not ends and stop is None:
            text += request.text.finish()
        request.add(TokenEvent(token, text, logprob, self.version, forced, top))
        if ends or stop is not None:
            self.finish(request, "stop", stop if stop is not None else token)
        elif last:
            self.finish(request, "length")

    def _give_up(self, plan: Plan, error: Exception) -> None:
        """Something broke in the middle. What these sequences remember is in doubt, so it is dropped; their logs are
        sound, and everybody else goes on."""
        log.exception("iteration failed; %d requests are given up", len(plan.all))
        for piece in plan.all:
            if not piece.request.done:
                piece.request.sequence.memory.release()
                self.finish(piece.request, "error", error=HolotronError(f"the iteration failed: {error}"))

    def _deliver(self, plan: Plan, seconds: float, tiles: int) -> None:
        for piece in plan.all:
            if piece.request.fresh:
                piece.request.deliver(piece.request.take_fresh(), None)
        self._totals.iterations += 1
        prefill = sum(piece.count for piece in plan.prefills)
        self._speed += 0.1 * ((prefill + len(plan.decodes)) / max(seconds, 1e-6) - self._speed)
        finished = sum(piece.request.done for piece in plan.all)
        try:
            self._on_step(StepReport(seconds, len(plan.all), len(plan.decodes), prefill, tiles, finished))
        except Exception:
            log.exception("on_step failed")

    # -------------------------------------------------------------------------------------------------- requests

    def submit(self, request: Request) -> None:
        sequence = request.sequence
        self.settle(sequence)
        if len(sequence.log) == 0:
            raise InputError("there is nothing to continue: append something first")
        if len(sequence.log) >= self.context_limit and request.params.max_tokens > 0:
            raise CapacityError(f"the session is full: {len(sequence.log):,} tokens leave no room for a reply")
        if self.scheduler.queue_length >= self.config.max_waiting:
            raise Overloaded(f"{self.scheduler.queue_length} requests are waiting already", self.retry_after())
        self.sessions.wake(sequence)
        sequence.request = request
        request.prompt = len(sequence.log)
        request.cached = sequence.memory.length
        self._totals.requests += not request.background
        self.scheduler.add(request)
        if request.matcher is not None:
            try:
                self._follow(request, request.matcher)
            except InputError as error:
                self.finish(request, "error", error=error)

    def settle(self, sequence: Sequence) -> None:
        """Make sure it is there and nothing is going on with it, before something is done to it."""
        if sequence.closed:
            raise UnknownSession(f"session {sequence.id!r} is closed")
        if sequence.fault is not None:
            fault, sequence.fault = sequence.fault, None
            raise fault
        if sequence.request is None:
            return
        if not sequence.request.background:
            raise SessionBusy(f"session {sequence.id!r} is generating; wait for it or cancel it")
        self.finish(sequence.request, "cancelled")

    def finish(
        self,
        request: Request,
        reason: FinishReason,
        stop: str | int | None = None,
        error: HolotronError | None = None,
    ) -> None:
        """The end of a request, whatever the reason. Its blocks are free to be used by others when this returns."""
        if request.done:
            return
        request.done = True
        self.scheduler.remove(request)
        sequence = request.sequence
        sequence.request = None
        if sequence.cached and reason in ("cancelled", "deadline", "error"):
            self.sessions.close(sequence)
        else:
            self.sessions.rest(sequence)
        if not request.background:
            self._totals.prompt_tokens += request.prompt
            self._totals.cached_tokens += request.cached
        request.deliver(request.take_fresh(), request.result(reason, stop, error))

    def close(self, sequence: Sequence) -> None:
        if sequence.request is not None:
            self.finish(sequence.request, "cancelled")
        self.sessions.close(sequence)

    def retry_after(self) -> float:
        """A guess when there will be room: what waits and runs now, at the speed of late."""
        ahead = sum(r.sequence.pending + r.params.max_tokens for r in self.scheduler.active())
        return min(60.0, max(1.0, ahead / max(1.0, self._speed)))

    def _expire(self) -> None:
        now = time.monotonic()
        for request in self.scheduler.active():
            if request.deadline is not None and now > request.deadline:
                self.finish(request, "deadline")
        for sequence in self.sessions.expired(now):
            self.close(sequence)

    def prefetch(self, sequence: Sequence) -> None:
        """Compute what was appended before anybody asks for a reply, if there is nothing else to do."""
        if sequence.request is None and sequence.pending > 1 and self.scheduler.queue_length < self.config.max_waiting:
            params = SamplingParams(max_tokens=0)
            self.submit(Request(sequence, params, seed=0, text=TextStream(None), background=True))

    def abort(self, error: HolotronError) -> None:
        """End everything that runs or waits."""
        for request in self.scheduler.active():
            self.finish(request, "error", error=error)

    # ------------------------------------------------------------------------------------------------- the whole

    def update_weights(self, tensors: Mapping[str, Tensor], policy: Literal["keep", "refresh"]) -> int:
        """Between two iterations. `keep`: open sessions go on with what they remember, each token saying by which
        version it was computed. `refresh`: everything remembered is void and computed again when needed. What is
        cached for nobody in particular is dropped either way."""
        if load_weights(self.model, tensors):
            self.vision.clear()
        self.sessions.version += 1
        while self.sessions.evict():
            pass
        if policy == "refresh":
            self.sessions.invalidate(self._alive())
        return self.version

    def _alive(self) -> set[Sequence]:
        active = (request.sequence for request in self.scheduler.active())
        return {*self.sessions.open_ones.values(), *self.sessions.cached, *active}

    def stats(self) -> EngineStats:
        pools, sessions = self.pools, self.sessions
        return replace(
            self._totals,
            recomputed_tokens=sessions.recomputed,
            tiles_encoded=self.vision.encoded,
            tiles_reused=self.vision.reused,
            blocks_to_host=pools.rows.to_host_count + pools.pages.to_host_count,
            blocks_to_device=pools.rows.to_device_count + pools.pages.to_device_count,
            preemptions=self.scheduler.preemptions,
            evicted_sessions=sessions.evicted,
            version=self.version,
            running=len(self.scheduler.running),
            waiting=self.scheduler.queue_length,
            sessions=len(sessions.open_ones),
            cached_sessions=len(sessions.cached),
            pages_used=pools.pages.used,
            pages_total=pools.pages.slots,
            rows_used=pools.rows.used,
            rows_total=pools.rows.slots,
            host_bytes_used=pools.host.used,
            vision_bytes_used=self.vision.bytes_used,
            pixel_bytes_used=self.tiles.nbytes,
        )

    def check_when_idle(self) -> None:
        """The engine has come to rest: a good moment to look for leaks. One that is found is reported, not fatal."""
        try:
            self.check_integrity()
        except IntegrityError:
            self._totals.integrity_failures += 1
            log.exception("the accounting of the engine's memory is wrong")

    def check_integrity(self) -> None:
        """Count every reference to every block and compare with the books."""
        memories = [memory for sequence in self._alive() for memory in sequence.memories()]
        pinned = [memory for memory in memories if memory.pinned]
        running = {request.sequence.memory for request in self.scheduler.running}
        if set(pinned) != running:
            raise IntegrityError(f"{len(pinned)} memories are pinned while {len(running)} sequences run")
        states, kept_states = ([m.state for m in some if m.state is not None] for some in (memories, pinned))
        pages, kept_pages = ([page for m in some for page in m.pages] for some in (memories, pinned))
        host = self.pools.rows.check(states, kept_states) + self.pools.pages.check(pages, kept_pages)
        if host != self.pools.host.used:
            raise IntegrityError(f"{host} bytes lie on the host, {self.pools.host.used} are in the books")
        self.sessions.index.check(set(memories), self._alive())


def never_sampled(model: Holotron) -> Tensor | None:
    """Padding rows of the vocabulary, and the placeholder that stands for an image."""
    tokens, vocab = model.config.tokens, model.config.decoder.vocab
    ids = set(range(tokens.first_unsampled, vocab)) if tokens.first_unsampled is not None else set()
    if model.vision_model is not None and tokens.image < vocab:
        ids.add(tokens.image)
    return torch.tensor(sorted(ids), device=model.device) if ids else None
