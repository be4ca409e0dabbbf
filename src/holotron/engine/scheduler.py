"""Who runs in the next iteration, and how many tokens of each.

Every iteration serves all sequences that are generating, one token each, and spends the rest of its token budget on
prompts; so weights are read once for both. The rules:

* **Fair**: whoever has been served least goes first (tokens computed for the session, counted from where the least
  served active session stood when it arrived, so that neither a newcomer nor a veteran can starve the other). Within
  that, first come, first served; a prompt that has begun is not interrupted by its equals.
* **Admission by bytes**: a request enters when its memory fits on the device together with what the running ones are
  expected to grow to. Otherwise it waits. If it could not even run alone, it fails with a clear error.
* **Yielding**: when the expectation was wrong and a sequence cannot grow, the most served one is unpinned: it waits,
  its blocks may move to the host, and it continues later exactly where it was.
* **Forgetting**: when the host is full too, sessions that are needed last forget what they remember, and compute it
  again (`forgetting`).
* **Gathering**: prompts in every iteration suit a large network, whose weights are read once for both. A small one
  takes longer to launch than to compute, and only decodes alone run from captured graphs. With `gather`, prompts wait
  for so many iterations of decodes, and are then computed together.

The scheduler decides, and takes blocks from the pools; `runner` computes.

Most iterations are the last one once more, with every sequence one token further. That is decided without looking at
anybody (`Repeat`): how often it can be done is known beforehand, and whoever comes, goes or yields ends it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from holotron.engine.api import EngineConfig, Overloaded
from holotron.engine.blocks import Demand, Pools
from holotron.engine.sequence import Request, Sequence

AHEAD = 16  # tokens that decodes have pages for beforehand
PATIENCE = 5.0  # seconds for which a session on the host lets those on the device go before it


class Piece(NamedTuple):  # cheaper to make than a dataclass, and every token takes one
    """`count` tokens of a request's log from `start` on. None at all: only sample, from what is remembered."""

    request: Request
    start: int
    count: int  # type: ignore[assignment]  # tuples have a method of that name

    @property
    def end(self) -> int:
        return self.start + self.count


@dataclass(slots=True)
class Plan:
    decodes: list[Piece] = field(default_factory=list)  # one token each, after a context
    prefills: list[Piece] = field(default_factory=list)
    waiting_to_sample: list[Piece] = field(default_factory=list)  # nothing to compute
    failed: list[tuple[Request, Overloaded]] = field(default_factory=list)

    @property
    def pieces(self) -> list[Piece]:
        """In the order the network wants them."""
        return self.decodes + self.prefills

    @property
    def all(self) -> list[Piece]:
        return self.decodes + self.prefills + self.waiting_to_sample


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """The decodes of an iteration, to be done again."""

    pieces: list[Piece]  # of the first time
    requests: list[Request]  # theirs, in this order
    due: list[tuple[Request, int]]  # everybody, with their places
    greedy: bool  # nobody wants more than the likeliest token


class Reserves(Protocol):
    """Whatever is remembered for somebody who does not run now, and how it is given up (see `sessions`)."""

    def resume(self, request: Request) -> bool:
        """Give a request what memory is known for its log, or say that it should wait for it."""

    def evict(self, *, stale: bool = False) -> bool:
        """Drop something nobody holds, or say there is nothing left; `stale`: something nobody will want."""

    def forget(self, *, keep: Sequence, waiting: Iterable[Sequence]) -> bool:
        """Have another session forget what it remembers, to be computed again, or say that nobody can."""

    def drop_snapshots(self, sequence: Sequence) -> bool:
        """Forget what a sequence remembers of earlier positions."""


class Scheduler:
    def __init__(
        self,
        config: EngineConfig,
        pools: Pools,
        *,
        context_limit: int,
        align: int,
        reserves: Reserves,
        filler: Callable[[int], int] = lambda decodes: 0,
        repeats: bool = False,
    ) -> None:
        """Pieces of prompts end at multiples of `align`; `filler` says how many tokens a number of decodes is filled up
        with beside prompts. `repeats`: iterations of decodes may be repeated."""
        self._config = config
        self._pools = pools
        self._context_limit = context_limit
        self._align = align
        self._reserves = reserves
        self._filler = filler
        self.waiting: dict[Request, None] = {}
        self.running: dict[Request, None] = {}
        self._order: list[Request] | None = None
        self.preemptions = 0
        self.repeat: Repeat | None = None  # as long as nobody comes or goes
        self._repeats = repeats
        self._repeats_left = 0
        self._alone = 0  # iterations of decodes while prompts wait
        self._arrivals = 0
        self._floor = 0.0

    # --------------------------------------------------------------------------------------------- coming and going

    def add(self, request: Request) -> None:
        self._arrivals += 1
        sequence = request.sequence
        served = [other.sequence.service for other in self.active() if not other.background]
        self._floor = max(self._floor, min(served, default=self._floor))
        sequence.service = max(sequence.service, self._floor)
        request.order = (math.inf if request.background else sequence.service, self._arrivals)
        self.waiting[request] = None
        self.disturb()

    def remove(self, request: Request) -> None:
        """It has ended, however it did. Its memory is free to move from now on."""
        self.disturb()
        if request in self.running:
            del self.running[request]
            self._order = None
            request.sequence.memory.unpin()
        else:
            del self.waiting[request]

    def disturb(self) -> None:
        """The next iteration is not the last one again."""
        self.repeat, self._repeats_left = None, 0

    @property
    def queue_length(self) -> int:
        return sum(not request.background for request in self.waiting)

    def active(self) -> list[Request]:
        return [*self.running, *self.waiting]

    # --------------------------------------------------------------------------------------------------- deciding

    def plan_again(self) -> Repeat | None:
        """The last iteration once more, if that is all there is to do."""
        if self._repeats_left == 0:
            return None
        self._repeats_left -= 1
        return self.repeat

    def plan(self) -> Plan:
        plan = self._plan()
        if self._repeats:
            self._look_ahead(plan)
        return plan

    def _look_ahead(self, plan: Plan) -> None:
        """How often this iteration can be repeated before somebody's reply is long enough or needs another page. Pages
        that are needed soon are taken now, as long as there are free ones: with many sequences, one of them is always
        close to the end of a page."""
        self.disturb()
        decodes = plan.decodes
        if self.waiting or not decodes or len(decodes) < len(self.running):
            return
        left = self._context_limit
        for request, start, _ in decodes:
            sequence = request.sequence
            if request.matcher is not None or start < request.prompt:
                return
            reply = request.params.max_tokens - len(request.events)
            room = self._context_limit - len(sequence.log.ids)
            left = min(left, reply - sequence.promised - 1, room - sequence.promised - 1)
        if self._pools.has_attention:
            left = min([left, *(self._take_ahead(piece, min(left, AHEAD)) for piece in decodes)])
        if left > 0:
            requests = [request for request, _, _ in decodes]
            due = [(request, n) for n, request in enumerate(requests)]
            greedy = all(map(_greedy, requests))
            self.repeat, self._repeats_left = Repeat(decodes, requests, due, greedy), left

    def _take_ahead(self, piece: Piece, wanted: int) -> int:
        """How many tokens beyond this one a decode's pages have room for: so many as are wanted, if pages are free."""
        memory, page_size = piece.request.sequence.memory, self._pools.page_size
        missing = self._pools.pages_for(piece.end + wanted) - len(memory.pages)
        if 0 < missing <= self._pools.pages.free:
            memory.grow(piece.end + wanted)
        return len(memory.pages) * page_size - piece.end

    def _plan(self) -> Plan:
        plan = Plan()
        self._admit(plan)
        order = self._in_order()
        placed: set[Request] = set()
        budget = self._config.token_budget
        prompts: list[Request] = []
        running, decodes, limit = self.running, plan.decodes, self._context_limit
        for request in order:
            if request not in running:
                continue  # it had to yield to one before it
            sequence = request.sequence
            memory, promised = sequence.memory, sequence.promised
            length, known = memory.length, len(sequence.log.ids) + promised
            pending = known - length
            if pending > 1 or length == 0:
                prompts.append(request)
            elif promised and (known >= limit or len(request.events) + promised >= request.params.max_tokens):
                continue  # it ends with the token that is on its way, whatever that is
            elif pending == 0:
                plan.waiting_to_sample.append(Piece(request, length, 0))
                placed.add(request)
            elif memory.ready(length + 1):  # nearly always
                memory.hidden = None
                decodes.append(Piece(request, length, 1))
                placed.add(request)
                budget -= 1
            elif self._place(plan, plan.decodes, request, 1, order, placed):
                budget -= 1
        if prompts and decodes and self._alone < self._config.gather:
            self._alone += 1
            return plan
        self._alone = 0
        if prompts and budget > (filler := self._filler(len(decodes))):
            budget -= filler
        for request in prompts:
            if budget == 0 or (request.background and placed):
                break
            count = self._piece(request, budget)
            if self._place(plan, plan.prefills, request, count, order, placed):
                budget -= count
        return plan

    def _in_order(self) -> list[Request]:
        """Who runs, least served first. The order changes only when somebody comes or goes."""
        if self._order is None:
            self._order = sorted(self.running, key=lambda request: request.order)
        return self._order

    def _admit(self, plan: Plan) -> None:
        if not self.waiting:
            return
        if any(not request.background for request in self.waiting):
            for request in [request for request in self.running if request.background]:
                self._yield(request)
        expected = Demand()
        for request in self.running:
            expected += self._expected(request)
        for request in self._queue():
            if len(self.running) >= self._config.max_running:
                return
            if not self._reserves.resume(request):
                continue
            memory = request.sequence.memory
            if self.running:
                if not self._make_room(lambda r=request, e=expected: e + self._expected(r), request):  # type: ignore[misc]
                    return
            elif not self._make_room(self._least(request), request, alone=True):
                if not self._promised():
                    plan.failed.append((request, self._no_room(request)))
                continue
            del self.waiting[request]
            self.running[request] = None
            self._order = None
            memory.pin()
            expected += self._expected(request)
            if request.admitted_at is None:
                request.admitted_at = time.monotonic()

    def _queue(self) -> list[Request]:
        """Who is next. Those whose memory is on the device go before others who would push it out to have their own
        brought back, but nobody waits long for that."""
        now = time.monotonic()

        def patient(request: Request) -> bool:
            return request.sequence.memory.away and now - request.submitted_at < PATIENCE

        return sorted(self.waiting, key=lambda request: (patient(request), request.order))

    def _place(
        self, plan: Plan, to: list[Piece], request: Request, count: int, order: list[Request], placed: set[Request]
    ) -> bool:
        """Put a piece into the plan, with room for what it writes."""
        if request not in self.running:
            return False
        memory = request.sequence.memory
        piece = Piece(request, memory.length, count)
        while not memory.ready(piece.end) and not self._make_room(partial(memory.demand, piece.end), request):
            victim = next((r for r in reversed(order) if r in self.running and r not in placed | {request}), None)
            if victim is not None:
                self._yield(victim)
                self.preemptions += 1
            elif placed:  # those go first; it may fit when they are done
                return False
            elif not self._make_room(partial(memory.demand, piece.end), request, alone=True):
                if not self._promised():
                    plan.failed.append((request, self._no_room(request)))
                return False
        memory.grow(piece.end)
        to.append(piece)
        placed.add(request)
        return True

    def _yield(self, request: Request) -> None:
        """Back to the queue. Its memory stays as it is, and where it is until somebody needs the room."""
        del self.running[request]
        self._order = None
        request.sequence.memory.unpin()
        self.waiting[request] = None
        self.disturb()

    def _piece(self, request: Request, budget: int) -> int:
        sequence = request.sequence
        start, end = sequence.memory.length, sequence.next_cut()
        if end - start <= budget:
            return end - start
        whole = (start + budget) // self._align * self._align
        return whole - start if whole > start else budget

    def _least(self, request: Request) -> Callable[[], Demand]:
        """What it needs to get on at all."""
        sequence = request.sequence
        return lambda: sequence.memory.demand(len(sequence.log) + 1)

    def _expected(self, request: Request) -> Demand:
        """What it will still need, as far as one plans ahead."""
        sequence = request.sequence
        ahead = min(request.params.max_tokens - len(request.events), self._config.expected_tokens)
        demand = sequence.memory.demand(min(len(sequence.log) + max(1, ahead), self._context_limit))
        # Each snapshot to be taken on the way makes the live memory copy a row and perhaps a page.
        copies = len(sequence.wanted())
        demand.rows += copies
        demand.pages += copies if self._pools.has_attention else 0
        return demand

    def _make_room(self, demand: Callable[[], Demand], request: Request, *, alone: bool = False) -> bool:
        """`alone`: nobody runs whose end could be waited for. Then whoever waits has to forget, and in the end the
        request itself what it has set aside."""
        reserves, pools = self._reserves, self._pools
        while pools.short(demand()) and reserves.evict(stale=True):
            pass  # rather than move it to the host
        while not pools.fits(demand()):
            # Dropping what nobody holds, or needs soon, relieves the host; it does not add slots to the device.
            if pools.could_fit(demand()) and (reserves.evict() or self._have_forgotten(request, alone)):
                continue
            if not alone or not reserves.drop_snapshots(request.sequence):
                return False
        return True

    def _promised(self) -> bool:
        """Whether somebody who waits can only forget what it remembers when the token on its way has been read."""
        return any(other.sequence.promised for other in self.waiting)

    def _have_forgotten(self, request: Request, alone: bool) -> bool:
        """Those at rest first; then those who wait, from the end of the queue, up to this request."""
        behind = [other for other in self.waiting if alone or other.order > request.order]
        behind.sort(key=lambda other: other.order, reverse=True)
        return self._reserves.forget(keep=request.sequence, waiting=(other.sequence for other in behind))

    def _no_room(self, request: Request) -> Overloaded:
        tokens = len(request.sequence.log)
        return Overloaded(
            f"no memory for a session of {tokens:,} tokens, not even with nothing else there: "
            "give the engine more kv_tokens and state_rows, or shorten the session",
            retry_after=5.0,
        )


def _greedy(request: Request) -> bool:
    params = request.params
    return params.temperature == 0 and not params.top_logprobs and request.penalties is None
