"""Who runs in the next iteration, and how many tokens of each.

Every iteration serves all sequences that are generating, one token each, and spends the rest of its token budget on
prompts; so weights are read once for both. The rules:

* **Fair**: whoever has been served least goes first (tokens computed for the session, counted from where the least
  served active session stood when it arrived, so that neither a newcomer nor a veteran can starve the other). Within
  that, first come, first served; a prompt that has begun is not interrupted by its equals.
* **Admission by bytes**: a request enters when its memory fits on the device together with what the running ones are
  expected to grow to. Otherwise it waits. If it could not even run alone, it fails with a clear error.
* **Arriving**: what a request remembers may have to come from the host first. That runs beside the computation: it
  joins an iteration as soon as it is there, and the others do not wait for it.
* **Yielding**: when the expectation was wrong and a sequence cannot grow, the most served one is unpinned: it waits,
  its blocks may move to the host, and it continues later exactly where it was.
* **Changing places**: room is made by those who will be needed last, not by the least recently used, who in a round of
  agents is the next to be served. Those on the device go before those who would push them out, for a while.
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
from functools import partial

from holotron.engine.api import EngineConfig, Overloaded
from holotron.engine.drafts import Drafter
from holotron.engine.pieces import Piece, Plan, Repeat, Reserves
from holotron.engine.pools import Demand, Pools
from holotron.engine.sequence import Request, Sequence

AHEAD = 16  # tokens that decodes have pages for beforehand
PATIENCE = 5.0  # seconds for which a session on the host lets those on the device go before it
LONG_PATIENCE = 30.0  # and one that has to be computed again


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
        drafter: Drafter | None = None,
    ) -> None:
        """Pieces of prompts end at multiples of `align`; `filler` says how many tokens a number of decodes is filled up
        with beside prompts. `repeats`: iterations of decodes may be repeated. `drafter` guesses what follows."""
        self._config = config
        self._pools = pools
        self._context_limit = context_limit
        self._align = align
        self._reserves = reserves
        self._filler = filler
        self._drafter = drafter
        self.waiting: dict[Request, None] = {}
        self.running: dict[Request, None] = {}
        self.arriving: dict[Request, None] = {}  # admitted; what they remember is on its way to the device
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
        if request in self.waiting:
            del self.waiting[request]
            return
        del (self.running if request in self.running else self.arriving)[request]
        self._order = None
        request.sequence.memory.unpin()

    def disturb(self) -> None:
        """The next iteration is not the last one again."""
        self.repeat, self._repeats_left = None, 0

    @property
    def queue_length(self) -> int:
        return sum(not request.background for request in self.waiting)

    def active(self) -> list[Request]:
        return [*self.running, *self.arriving, *self.waiting]

    def admitted(self) -> list[Request]:
        """Those whose memory is pinned."""
        return [*self.running, *self.arriving]

    # --------------------------------------------------------------------------------------------------- deciding

    def plan_again(self) -> Repeat | None:
        """The last iteration once more, if that is all there is to do."""
        if self._repeats_left == 0:
            return None
        self._repeats_left -= 1
        return self.repeat

    def plan(self) -> Plan:
        plan = self._plan()
        self._keep_spare()
        if self._repeats:
            self._look_ahead(plan)
        return plan

    def _look_ahead(self, plan: Plan) -> None:
        """How often this iteration can be repeated before somebody's reply is long enough or needs another page. Pages
        that are needed soon are taken now, as long as there are free ones: with many sequences, one of them is always
        close to the end of a page."""
        self.disturb()
        decodes = plan.decodes
        if self.waiting or self.arriving or not decodes or len(decodes) < len(self.running):
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
            self.repeat, self._repeats_left = Repeat.of(decodes), left

    def _take_ahead(self, piece: Piece, wanted: int) -> int:
        """How many tokens beyond this one a decode's pages have room for: so many as are wanted, if pages are free."""
        memory, page_size = piece.request.sequence.memory, self._pools.page_size
        missing = self._pools.pages_for(piece.end + wanted) - len(memory.pages)
        if 0 < missing <= self._pools.pages.free:
            memory.grow(piece.end + wanted)
        return len(memory.pages) * page_size - piece.end

    def _plan(self) -> Plan:
        plan = Plan()
        self._pools.collect()
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
            guessed = 0
            if self._drafter is not None and pending > 0 and length >= request.prompt - 1 and not promised:
                guessed = self._drafter.begin(request, self._pools, pending, budget - len(order))
            if guessed:
                plan.prefills.append(Piece(request, length, pending + guessed))
                placed.add(request)
                budget -= pending + guessed
            elif pending > 1 or length == 0:
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

    def _keep_spare(self) -> None:
        """While others wait for room: free slots for the next iterations. Whoever has to wait until one has been left
        is late."""
        if not self.waiting:
            return
        pools = self._pools
        spare = Demand(2, 2 * self._config.token_budget // pools.page_size)
        missing = pools.missing(spare)
        if (missing.rows and pools.rows.idle) or (missing.pages and pools.pages.idle):
            rows, pages = min(missing.rows, pools.rows.idle), min(missing.pages, pools.pages.idle)
            if rows * pools.rows.block_bytes + pages * pools.pages.block_bytes <= pools.host.free:
                self._reserves.move_out(lambda: pools.missing(spare), keep=None, waiting=self._behind(None, True))
        if pools.disk is not None and pools.host.free < pools.host.limit // 8:
            self._reserves.file_away(keep=None, waiting=self._behind(None, True))

    def _in_order(self) -> list[Request]:
        """Who runs, least served first. The order changes only when somebody comes or goes."""
        if self._order is None:
            self._order = sorted(self.running, key=lambda request: request.order)
        return self._order

    def _admit(self, plan: Plan) -> None:
        if self.waiting:
            self._admit_some(plan)
        for request in list(self.arriving):
            # With nobody else to compute for, the device may as well wait for it.
            if request.sequence.memory.arrived or not self.running:
                del self.arriving[request]
                self._run(request)

    def _run(self, request: Request) -> None:
        request.sequence.memory.settle()
        self.running[request] = None
        self._order = None

    def _admit_some(self, plan: Plan) -> None:
        if any(not request.background for request in self.waiting):
            for request in [request for request in self.running if request.background]:
                self._yield(request)
        expected = Demand()
        for request in self.admitted():
            expected += self._expected(request)
        reading = False  # one at a time comes back from files
        for request in self._queue():
            if len(self.running) + len(self.arriving) >= self._config.max_running:
                return
            if not self._reserves.resume(request):
                continue
            memory, alone = request.sequence.memory, not self.running and not self.arriving
            if memory.filed or memory.lost:
                reading = reading or self._reserves.read_back(request.sequence, self._behind(request, True), alone)
                if reading:
                    continue
            if self.running or self.arriving:
                if not self._make_room(lambda r=request, e=expected: e + self._expected(r), request):  # type: ignore[misc]
                    return
            elif not self._make_room(self._least(request), request, alone=True):
                if not self._waits_for_others():
                    plan.failed.append((request, self._no_room(request)))
                continue
            del self.waiting[request]
            request.sequence.forgotten = request.sequence.returning = False
            memory.pin()
            if memory.arrived:
                self._run(request)
            else:
                self.arriving[request] = None
            expected += self._expected(request)
            if request.admitted_at is None:
                request.admitted_at = time.monotonic()

    def _queue(self) -> list[Request]:
        """Who is next. Those whose memory is on the device go before others who would push it out to have their own
        brought back, but nobody waits long for that."""
        now = time.monotonic()

        def patient(request: Request) -> bool:
            sequence, waited = request.sequence, now - request.submitted_at
            return waited < (LONG_PATIENCE if sequence.forgotten else PATIENCE if sequence.memory.away else 0.0)

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
                if not self._waits_for_others():
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
            if pools.could_fit(demand()):
                if reserves.evict():
                    continue
                if reserves.file_away(keep=request.sequence, waiting=self._behind(request, alone)):
                    return False  # there will be room
                if self._have_forgotten(request, alone):
                    continue
            if not alone or not reserves.drop_snapshots(request.sequence):
                return False
        reserves.move_out(lambda: pools.missing(demand()), keep=request.sequence, waiting=self._behind(request, alone))
        return True

    def _waits_for_others(self) -> bool:
        """Whether somebody who waits can only forget what it remembers when the token on its way has been read; or a
        file is being written."""
        return self._pools.filing or any(other.sequence.promised for other in self.waiting)

    def _have_forgotten(self, request: Request, alone: bool) -> bool:
        """Those at rest first; then those who wait."""
        return self._reserves.forget(keep=request.sequence, waiting=self._behind(request, alone))

    def _behind(self, request: Request | None, alone: bool) -> Iterable[Sequence]:
        """Who waits, from the end of the queue up to this request."""
        behind = [other for other in self.waiting if alone or request is None or other.order > request.order]
        behind.sort(key=lambda other: other.order, reverse=True)
        return (other.sequence for other in behind)

    def _no_room(self, request: Request) -> Overloaded:
        tokens = len(request.sequence.log)
        return Overloaded(
            f"no memory for a session of {tokens:,} tokens, not even with nothing else there: "
            "give the engine more kv_tokens and state_rows, or shorten the session",
            retry_after=5.0,
        )
