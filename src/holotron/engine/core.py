"""The engine without threads: requests, and `step()` that advances all of them.

Everything here runs on one thread (that of `engine.Engine`, or a test's own) and never waits. Requests come and go
here; what an iteration is, is in `pipeline`. `sessions` holds all sequences and their memories, `scheduler` decides,
`runner` computes, `sampler` chooses, `replies` takes what was chosen.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch

from holotron.engine.api import (
    EngineConfig,
    EngineStats,
    FinishReason,
    IntegrityError,
    OnUpdate,
    Overloaded,
    SamplingParams,
    SessionBusy,
    StepReport,
    UnknownSession,
)
from holotron.engine.drafts import Drafter
from holotron.engine.integrity import check_integrity
from holotron.engine.log import Log, TileStore
from holotron.engine.penalties import penalties_of
from holotron.engine.pieces import Plan
from holotron.engine.pipeline import Pipeline
from holotron.engine.replies import Replies
from holotron.engine.runner import Runner
from holotron.engine.scheduler import Scheduler
from holotron.engine.sequence import Request, Sequence
from holotron.engine.sessions import Sessions
from holotron.engine.sizes import allocate, context_limit, vision_cache_bytes
from holotron.engine.text import TextStream
from holotron.engine.vision import VisionCache
from holotron.engine.weights import Change, WeightLoader
from holotron.errors import CapacityError, HolotronError, InputError
from holotron.model.model import Holotron
from holotron.model.weights.fingerprint import fingerprint_in_memory

log = logging.getLogger(__name__)


class Core:
    def __init__(
        self, model: Holotron, config: EngineConfig, on_step: Callable[[StepReport], None] | None = None
    ) -> None:
        self.model = model
        self.config = config
        self._on_step = on_step or (lambda report: None)
        self._totals = EngineStats()
        self._speed = 0.0  # tokens per second, smoothed
        self._finished = self._tiles = 0  # so far
        overlap = config.overlap if config.overlap is not None else model.device.type == "cuda" and not config.drafts
        if config.weight_dtype is not None:
            model.language_model.quantize()
        if config.vision_dtype is not None:
            model.quantize_vision()
        if model.device.type == "cuda":
            torch.cuda.empty_cache()  # the pools below need what wide weights took
        self.pools = allocate(model, config)
        self.weights = WeightLoader(model)
        self.context_limit = context_limit(model.config.decoder, config)
        self.sessions = Sessions(config, self.pools, self.context_limit, model.config.tokens.image_start)
        self.sessions.weights = fingerprint_in_memory(model)
        self.tiles = TileStore(model.config.image)
        self.vision = VisionCache(model, vision_cache_bytes(model.config, config, model.dtype), config.vision_batch)
        self.runner = Runner(model, self.pools, self.vision, config, self.context_limit)
        drafter = Drafter(config.drafts, self.context_limit) if config.drafts else None
        self.scheduler = Scheduler(
            config,
            self.pools,
            context_limit=self.context_limit,
            align=model.config.decoder.chunk or config.page_size,
            reserves=self.sessions,
            filler=self.runner.filler,
            repeats=overlap and self.runner.repeats,
            drafter=drafter,
        )
        self.replies = Replies(model.config.tokens.eos, self.context_limit, self._totals, self.finish)
        self.pipeline = Pipeline(
            model,
            self.sessions,
            self.scheduler,
            self.runner,
            self.replies,
            self._totals,
            self.finish,
            overlap=overlap,
        )

    @property
    def version(self) -> int:
        return self.sessions.version

    # -------------------------------------------------------------------------------------------------- the loop

    @torch.inference_mode()
    def step(self) -> bool:
        """One iteration for everybody. False: there was nothing to do."""
        pipeline = self.pipeline
        started, waited, finished = time.perf_counter(), pipeline.waited, self._finished
        self._expire()
        plan = pipeline.step()
        if plan is None:
            if self.pools.filing and self.scheduler.active():
                self.pools.collect(wait=0.005)  # somebody waits for a file, or for room that writing one makes
                return True
            return False
        seconds, waited = time.perf_counter() - started, pipeline.waited - waited
        self._totals.wait_seconds += waited
        self._totals.host_seconds += seconds - waited
        self._report(plan, seconds, self._finished - finished)
        return True

    def _report(self, plan: Plan, seconds: float, finished: int) -> None:
        self._totals.iterations += 1
        prefill = sum(piece.count for piece in plan.prefills)
        tiles, self._tiles = self.vision.encoded - self._tiles, self.vision.encoded
        self._speed += 0.1 * ((prefill + len(plan.decodes)) / max(seconds, 1e-6) - self._speed)
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
        request.penalties = penalties_of(request.params, sequence.log.ids, self.model.config.decoder.vocab)
        self.sessions.wake(sequence)
        sequence.request = request
        request.prompt = len(sequence.log)
        request.cached = sequence.memory.length
        self._totals.requests += not request.background
        self.scheduler.add(request)
        try:
            if request.matcher is not None:
                self.replies.follow(request, request.matcher, self.version)
            self.replies.repeat(request, self.version)
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
        self._finished += 1
        self.scheduler.remove(request)
        sequence = request.sequence
        sequence.request = None
        if sequence.promised:
            # The network has read the whole log already. The token it chose after that is dropped; what it was chosen
            # from is kept, so that somebody may choose again.
            try:
                if sequence.memory.hidden is None:
                    sequence.memory.hidden = self.pipeline.vector_of(request)
            except RuntimeError:  # the device is broken: what the sequence remembers is lost, its log is not
                sequence.memory.release()
            sequence.break_promise()
        if sequence.cached and reason in ("cancelled", "deadline", "error"):
            self.sessions.close(sequence)
        else:
            self.sessions.rest(sequence)
        if not request.background:
            self._totals.prompt_tokens += request.prompt
            self._totals.cached_tokens += request.cached
        request.deliver(request.take_fresh(), request.result(reason, stop, error))

    def append(self, sequence: Sequence, content: Log) -> None:
        """More for the end of its log."""
        self.sessions.append(sequence, content)
        if self.config.prefetch:
            self.prefetch(sequence)

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
        self.pipeline.discard()

    # ------------------------------------------------------------------------------------------------- the whole

    def update_weights(self, changes: Mapping[str, Change], on_update: OnUpdate, version: int | None = None) -> int:
        """Between two iterations. `keep`: open sessions go on with what they remember, each token saying by which
        version it was computed. `refresh`: everything remembered is void and computed again when needed. What is
        cached for nobody in particular is dropped either way."""
        self.pipeline.drain()
        self.scheduler.disturb()
        if self.weights.load(changes):
            self.vision.clear()
        self.sessions.version = self.version + 1 if version is None else version
        self.clear_prefix_cache()
        if on_update == "refresh":
            self.sessions.invalidate(self._alive())
        return self.version

    def clear_prefix_cache(self) -> None:
        while self.sessions.evict():
            pass

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
            blocks_to_disk=sum(pool.files.written for pool in (pools.rows, pools.pages) if pool.files is not None),
            blocks_from_disk=sum(pool.files.read for pool in (pools.rows, pools.pages) if pool.files is not None),
            preemptions=self.scheduler.preemptions,
            evicted_sessions=sessions.evicted,
            forgotten_sessions=sessions.forgotten,
            resumed_everything=sessions.resumptions["everything"],
            resumed_prompt=sessions.resumptions["prompt"],
            resumed_window=sessions.resumptions["window"],
            resumed_beginning=sessions.resumptions["beginning"],
            resumed_nothing=sessions.resumptions["nothing"],
            version=self.version,
            running=len(self.scheduler.admitted()),
            waiting=self.scheduler.queue_length,
            sessions=len(sessions.open_ones),
            cached_sessions=len(sessions.cached),
            pages_used=pools.pages.used,
            pages_total=pools.pages.slots,
            rows_used=pools.rows.used,
            rows_total=pools.rows.slots,
            host_bytes_used=pools.host.used,
            disk_bytes_used=pools.disk.used if pools.disk is not None else 0,
            vision_bytes_used=self.vision.bytes_used,
            pixel_bytes_used=self.tiles.nbytes,
        )

    def shut_down(self) -> None:
        """Files go, threads end. What is in the device's memory goes with the last reference to it."""
        self.pools.close()

    def check_when_idle(self) -> None:
        """The engine has come to rest: a good moment to look for leaks. One that is found is reported, not fatal."""
        try:
            self.check_integrity()
        except IntegrityError:
            self._totals.integrity_failures += 1
            log.exception("the accounting of the engine's memory is wrong")

    def check_integrity(self) -> None:
        """Count every reference to every block and compare with the pools' own counts."""
        running = {request.sequence.memory for request in self.scheduler.admitted()}
        check_integrity(self.pools, self.sessions, self._alive(), running)
