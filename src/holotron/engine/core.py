"""The engine without threads: requests, and `step()` that advances all of them.

Everything here runs on one thread (that of `engine.Engine`, or a test's own) and never waits. Read `step` first: it is
the whole loop. `sessions` keeps the books, `scheduler` decides, `runner` computes, `sampler` chooses, `replies` takes
what was chosen.
"""

from __future__ import annotations

import logging
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
    UnknownSession,
)
from holotron.engine.flight import Flight
from holotron.engine.integrity import check_integrity
from holotron.engine.log import TileStore
from holotron.engine.replies import Replies
from holotron.engine.runner import Runner
from holotron.engine.sampler import Choice, draw, never_sampled
from holotron.engine.scheduler import Plan, Repeat, Scheduler
from holotron.engine.sequence import Request, Sequence
from holotron.engine.sessions import Sessions
from holotron.engine.sizes import allocate, context_limit
from holotron.engine.text import TextStream
from holotron.engine.vision import VisionCache
from holotron.engine.weights import load_weights
from holotron.errors import CapacityError, HolotronError, InputError
from holotron.model.model import Holotron

log = logging.getLogger(__name__)


class Core:
    def __init__(
        self, model: Holotron, config: EngineConfig, on_step: Callable[[StepReport], None] | None = None
    ) -> None:
        self.model = model
        self.config = config
        self._never = never_sampled(model)
        self._on_step = on_step or (lambda report: None)
        self._totals = EngineStats()
        self._speed = 0.0  # tokens per second, smoothed
        self._finished = self._tiles = 0  # so far
        self._waited = 0.0  # seconds
        self._flight: Flight | None = None  # what the device is computing
        self._overlap = config.overlap if config.overlap is not None else model.device.type == "cuda"
        if config.weight_dtype is not None:
            model.language_model.quantize()
            if model.device.type == "cuda":
                torch.cuda.empty_cache()  # the pools below need what the wide weights took
        self.pools = allocate(model, config)
        self.context_limit = context_limit(model.config.decoder, config)
        self.sessions = Sessions(config, self.pools, self.context_limit)
        self.tiles = TileStore()
        self.vision = VisionCache(model, config.vision_cache_bytes, config.vision_batch)
        self.replies = Replies(model.config.tokens.eos, self.context_limit, self._totals, self.finish)
        self.runner = Runner(model, self.pools, self.vision, config, self.context_limit)
        mamba = model.config.decoder.mamba
        self.scheduler = Scheduler(
            config,
            self.pools,
            context_limit=self.context_limit,
            align=mamba.chunk if mamba is not None else config.page_size,
            resume=self.sessions.resume,
            evict=self.sessions.evict,
            repeats=self._overlap and self.runner.repeats,
        )

    @property
    def version(self) -> int:
        return self.sessions.version

    # -------------------------------------------------------------------------------------------------- the loop

    @torch.inference_mode()
    def step(self) -> bool:
        """One iteration for everybody. False: there was nothing to do.

        With overlap, the next iteration is launched before the tokens of the last one are read, so that host and device
        work at the same time. What the device samples it reads itself; the host learns of it one iteration late:

            device   | network n | sample n | network n+1       | sample n+1 | ...
            host       ... launch network n+1 | read n | launch sample n+1 | plan n+2 | launch network n+2 ...
        """
        started, waited = time.perf_counter(), self._waited
        self._expire()
        before = self._flight
        if repeat := self.scheduler.plan_again():
            plan = Plan(decodes=repeat.pieces)
            self._flight = self._launch_again(repeat)
        else:
            plan = self.scheduler.plan()
            for request, error in plan.failed:
                self.finish(request, "error", error=error)
            self._flight = self._launch(plan) if plan.all else None
        if before is None and self._flight is None:
            return bool(plan.failed)
        finished = self._finished
        if before is not None:
            self._land(before)
        if self._flight is not None:
            self._choose(self._flight)
            if not self._overlap:
                self.land()
        seconds = time.perf_counter() - started
        self._totals.wait_seconds += self._waited - waited
        self._totals.host_seconds += seconds - (self._waited - waited)
        self._report(plan, seconds, self._finished - finished)
        return True

    def land(self) -> None:
        """Read whatever is on its way."""
        if self._flight is not None:
            flight, self._flight = self._flight, None
            self._land(flight)

    def _launch(self, plan: Plan) -> Flight | None:
        """Start the network, book what it writes, take the snapshots due here."""
        flight, version = Flight(plan.all, self.version), self.version
        pieces, due = plan.pieces, flight.due
        try:
            if pieces:
                flight.hidden_SD = self.runner.run(pieces)
        except Exception as error:
            self._give_up([piece.request for piece in plan.all], error)
            return None
        for n, (request, start, count) in enumerate(pieces):
            sequence = request.sequence
            end = start + count
            sequence.memory.wrote(end, version)
            sequence.service += count
            if start < request.prompt:
                self._read_prompt(flight, n)
            if end == len(sequence.log.ids) + sequence.promised:
                sequence.promised += 1
                due.append((request, n))
        for piece in plan.waiting_to_sample:
            piece.request.sequence.promised += 1
            flight.due.append((piece.request, -1))
        return flight

    def _launch_again(self, repeat: Repeat) -> Flight | None:
        flight = Flight(repeat.pieces, self.version, repeat)
        try:
            flight.hidden_SD = self.runner.again()
        except Exception as error:
            self._give_up([piece.request for piece in repeat.pieces], error)
            return None
        flight.due = repeat.due
        for request, _ in repeat.due:
            sequence = request.sequence
            sequence.memory.length += 1
            sequence.service += 1
            sequence.promised += 1
        return flight

    def _read_prompt(self, flight: Flight, n: int) -> None:
        """Count the prompt tokens of a piece, and keep its memory where somebody wants it; nobody does further on."""
        request, start, count = flight.pieces[n]
        sequence, end = request.sequence, start + count
        computed = min(end, request.prompt) - start
        request.computed += computed
        self._totals.computed_tokens += computed
        if end <= request.prompt:
            for place in sequence.wanted():
                if place.position == end:
                    sequence.memory.hidden = flight.vector(n)
                    self.sessions.keep(sequence, place)

    def _choose(self, flight: Flight) -> None:
        """Sample for everybody whose log is computed to its end."""
        wanted: list[tuple[Request, int]] = []
        undisturbed = flight.repeat is not None and flight.repeat is self.scheduler.repeat
        for request, n in flight.due if not undisturbed else ():
            sequence = request.sequence
            if request.done:
                continue
            if len(request.events) >= request.params.max_tokens:
                self.finish(request, "length")  # nothing was asked for but to compute the prompt
            elif len(sequence.log.ids) > sequence.memory.length:
                sequence.break_promise()  # a grammar has forced tokens meanwhile: the next choice comes after those
            else:
                wanted.append((request, n))
        try:
            if flight.repeat is not None and undisturbed:
                self._sample_again(flight, flight.repeat)
            elif wanted:
                self._sample(flight, wanted)
            flight.mark()
        except Exception as error:
            self._flight = None
            self._give_up([piece.request for piece in flight.pieces], error)

    def _sample(self, flight: Flight, wanted: list[tuple[Request, int]]) -> None:
        logits_BV = self.runner.logits(flight.vectors(wanted))
        allowed: dict[int, Tensor] = {}
        for n, (request, _) in enumerate(wanted):  # while a GPU still computes the logits
            if request.matcher is not None:
                try:
                    allowed[n] = request.matcher.allowed()
                except InputError as error:
                    self.finish(request, "error", error=error)
        choices = [Choice(request.params, request.seed, len(request.events)) for request, _ in wanted]
        flight.draw = draw(logits_BV, choices, never=self._never, allowed=allowed)
        flight.sampled = [request for request, _ in wanted]
        self.runner.feed_back(flight.draw.tokens_B)
        for n, request in enumerate(flight.sampled):
            if not request.done:
                request.sequence.source = n

    def _sample_again(self, flight: Flight, repeat: Repeat) -> None:
        """For the same requests in the same places, none of which has a grammar."""
        assert flight.hidden_SD is not None
        requests = [request for request, _ in repeat.due]
        choices = [Choice(r.params, r.seed, len(r.events)) for r in requests] if not repeat.greedy else []
        flight.draw = draw(self.runner.logits(flight.hidden_SD), choices, never=self._never)
        flight.sampled = requests
        self.runner.feed_back(flight.draw.tokens_B)

    def _land(self, flight: Flight) -> None:
        """Read what was sampled, and append."""
        started = time.perf_counter()
        try:
            sampled = flight.read()
            self._waited += time.perf_counter() - started
        except Exception as error:
            later = self._flight.pieces if self._flight is not None else []
            self._flight = None
            self._give_up([piece.request for piece in [*flight.pieces, *later]], error)
            return
        if sampled is None:
            return
        version = flight.version
        for request, token, logprob, top in zip(
            flight.sampled, sampled.tokens, sampled.logprobs, sampled.top, strict=True
        ):
            if request.done:
                continue
            sequence = request.sequence
            sequence.promised -= 1
            if not sequence.promised:
                sequence.source = -1
            self.replies.accept(request, token, logprob, top, version)
            if fresh := request.fresh:
                request.fresh = []
                request.deliver(fresh, None)

    def _give_up(self, requests: list[Request], error: Exception) -> None:
        """Something broke in the middle. What these sequences remember is in doubt, so it is dropped; their logs are
        sound, and everybody else goes on."""
        log.error("iteration failed; %d requests are given up", len(requests), exc_info=error)
        for request in requests:
            if not request.done:
                request.sequence.break_promise()
                request.sequence.memory.release()
                self.finish(request, "error", error=HolotronError(f"the iteration failed: {error}"))

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
        self.sessions.wake(sequence)
        sequence.request = request
        request.prompt = len(sequence.log)
        request.cached = sequence.memory.length
        self._totals.requests += not request.background
        self.scheduler.add(request)
        if request.matcher is not None:
            try:
                self.replies.follow(request, request.matcher, self.version)
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
                if sequence.memory.hidden is None and self._flight is not None:
                    sequence.memory.hidden = self._flight.vector_of(request)
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
        self._flight = None

    # ------------------------------------------------------------------------------------------------- the whole

    def update_weights(self, tensors: Mapping[str, Tensor], policy: Literal["keep", "refresh"]) -> int:
        """Between two iterations. `keep`: open sessions go on with what they remember, each token saying by which
        version it was computed. `refresh`: everything remembered is void and computed again when needed. What is
        cached for nobody in particular is dropped either way."""
        self.land()
        self.scheduler.disturb()
        if load_weights(self.model, tensors):
            self.vision.clear()
        self.runner.forget_graphs()
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
        running = {request.sequence.memory for request in self.scheduler.running}
        check_integrity(self.pools, self.sessions, self._alive(), running)
