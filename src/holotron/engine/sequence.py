"""What the loop works on: sequences (a log and its memory) and requests (a wish to continue one)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holotron.engine.api import FinishReason, Mark, Result, Resumed, SamplingParams, Timings, TokenEvent
from holotron.engine.grammar import Matcher
from holotron.engine.log import Log
from holotron.engine.memory import Memory
from holotron.engine.penalties import Penalties
from holotron.engine.pools import Pools
from holotron.engine.text import TextStream
from holotron.errors import HolotronError

if TYPE_CHECKING:
    from holotron.engine.drafts import Draft

REWRITTEN = 3  # changed histories in a row that are worth a warning


@dataclass(eq=False, slots=True)
class Snapshot:
    """A position of a log to return to, and the memory there as soon as the computation has passed it."""

    position: int
    memory: Memory | None = None

    @property
    def taken(self) -> bool:
        return self.memory is not None


@dataclass(eq=False, slots=True)
class Junction:
    """A position where this log parts from others. The memory there goes to the prefix cache, for all of them."""

    position: int
    taken: bool = False


class Sequence:
    """A session as the loop sees it."""

    def __init__(self, id: str, pools: Pools, *, cached: bool = False, scope: bytes = b"") -> None:
        self.id = id
        self.scope = scope  # whose it is: logs of different scopes learn nothing of each other, see `prefix`
        self.log = Log()
        self.memory = Memory(pools)
        self.marks: dict[int, Snapshot] = {}
        self.prompt_end: Snapshot | None = None  # of a stateless request: where another reply would start
        # Of a stateless request: where its text ends before its first picture. A client that re-sends its last pictures
        # will have dropped that one, and the next request parts from this one here.
        self.window: Snapshot | None = None
        self.lead = 0  # tokens before that picture where earlier requests of this conversation really parted
        self.junctions: list[Junction] = []  # see `prefix`
        self.cached = cached  # nobody holds it: kept only because its log may be continued, dropped when room is needed
        self.root = False  # the common beginning of several logs: forked, never continued
        self.closed = False
        self.forgotten = False  # for lack of memory, and not computed again yet
        self.returning = False  # what it has in files is on its way back
        self.fault: HolotronError | None = None  # an append that failed, to be told with the next call
        self.request: Request | None = None
        self.promised = 0  # tokens chosen for it on the device that the host has not read yet
        self.source = -1  # where the device keeps the last of them
        self.draft: Draft | None = None  # what was guessed to follow, while the network reads it
        self.lookup: object | None = None  # where guesses come from, see `drafts`
        self.service = 0.0  # tokens computed for it, the currency of fairness
        self.used_at = time.monotonic()
        self.pause: float | None = None  # seconds between a reply and the next request, as a rule
        self.rewritten = 0  # requests in a row of this conversation that had changed what was said before

    @property
    def pending(self) -> int:
        """Tokens that the network has not seen: of the log, and those promised to it."""
        return len(self.log.ids) + self.promised - self.memory.length

    def break_promise(self) -> None:
        """The token on its way is not wanted any more."""
        self.promised, self.source = 0, -1

    def snapshots(self) -> list[Snapshot]:
        own = (self.window, self.prompt_end)
        return [*self.marks.values(), *(snapshot for snapshot in own if snapshot is not None)]

    def wanted(self) -> list[Snapshot | Junction]:
        """Where the computation has to pause, because its memory is to be kept there."""
        if not self.marks and not self.junctions and self.prompt_end is None and self.window is None:
            return []  # nearly always, and asked in every iteration
        places: list[Snapshot | Junction] = [*self.snapshots(), *self.junctions]
        return [place for place in places if not place.taken]

    def next_cut(self) -> int:
        here, end = self.memory.length, len(self.log)
        return min((place.position for place in self.wanted() if here < place.position < end), default=end)

    def memories(self) -> list[Memory]:
        """All it holds: the live memory first."""
        return [self.memory, *(s.memory for s in self.snapshots() if s.memory is not None)]

    @property
    def nbytes(self) -> int:
        return sum(memory.nbytes for memory in self.memories())

    def mark_list(self) -> tuple[Mark, ...]:
        return tuple(Mark(id, snapshot.position) for id, snapshot in sorted(self.marks.items()))


@dataclass(eq=False, slots=True)
class Request:
    """One generation, from submission to its end."""

    sequence: Sequence
    params: SamplingParams
    seed: int
    text: TextStream
    matcher: Matcher | None = None
    deadline: float | None = None  # on time.monotonic's clock
    deliver: Callable[[list[TokenEvent], Result | None], None] = lambda events, result: None
    background: bool = False  # computes a prompt ahead of time, when there is nothing else to do
    penalties: Penalties | None = None  # since it was submitted, if it wants any
    said: tuple[int, ...] = ()  # the reply begins with these: it was begun elsewhere, see `Replies.repeat`

    order: tuple[float, int] = (0.0, 0)  # who goes first: least service, then first come
    submitted_at: float = field(default_factory=time.monotonic)
    admitted_at: float | None = None
    first_token_at: float | None = None
    prompt: int = 0  # length of the log when generation began
    cached: int = 0  # of it, remembered when the request was admitted
    computed: int = 0  # of it, computed since
    events: list[TokenEvent] = field(default_factory=list)
    fresh: list[TokenEvent] = field(default_factory=list)  # not delivered yet
    resumed: bool = False  # the prefix index has been asked
    resumption: Resumed = "session"  # and what it gave
    awaits: Awaited | None = None
    done: bool = False

    def take_fresh(self) -> list[TokenEvent]:
        fresh, self.fresh = self.fresh, []
        return fresh

    def result(self, reason: FinishReason, stop: str | int | None, error: HolotronError | None) -> Result:
        now = time.monotonic()
        return Result(
            # Text still held back is in no event; after a stop string there is none.
            text="".join(event.text for event in self.events) + ("" if reason == "stop" else self.text.finish()),
            tokens=tuple(event.token for event in self.events),
            logprobs=tuple(event.logprob for event in self.events),
            versions=tuple(event.version for event in self.events),
            forced=tuple(event.forced for event in self.events),
            finish_reason=reason,
            stop=stop,
            prompt_tokens=self.prompt,
            cached_tokens=self.cached,
            computed_tokens=self.computed,
            seed=self.seed,
            timings=Timings(
                queued=(self.admitted_at or now) - self.submitted_at,
                first_token=(self.first_token_at or now) - self.submitted_at,
                total=now - self.submitted_at,
            ),
            top_logprobs=tuple(event.top_logprobs for event in self.events),
            error=error,
            resumed=self.resumption,
            warning=self._warning(),
        )

    def _warning(self) -> str | None:
        if self.sequence.rewritten < REWRITTEN:
            return None
        return (
            f"the last {self.sequence.rewritten} requests of this conversation had each changed what came before their "
            f"last reply (an older screenshot was dropped): {self.computed:,} of {self.prompt:,} prompt tokens were "
            "computed again this time. Send everything, or use a session and append to it, to compute only what is new"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Awaited:
    """A memory that another request will leave behind on its way."""

    place: Snapshot | Junction
    by: Request

    @property
    def coming(self) -> bool:
        return not self.place.taken and not self.by.done
