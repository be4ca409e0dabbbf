"""What an iteration is made of, as the scheduler decides it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from holotron.engine.api import Overloaded
from holotron.engine.pools import Demand
from holotron.engine.sequence import Request, Sequence


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

    @classmethod
    def of(cls, decodes: list[Piece]) -> Repeat:
        requests = [request for request, _, _ in decodes]
        return cls(decodes, requests, [(one, n) for n, one in enumerate(requests)], all(map(_greedy, requests)))


class Reserves(Protocol):
    """Whatever is remembered for somebody who does not run now, and how it is given up (see `sessions`)."""

    def resume(self, request: Request) -> bool:
        """Give a request what memory is known for its log, or say that it should wait for it."""

    def evict(self, *, stale: bool = False) -> bool:
        """Drop something nobody holds, or say there is nothing left; `stale`: something nobody will want."""

    def forget(self, *, keep: Sequence, waiting: Iterable[Sequence]) -> bool:
        """Have another session forget what it remembers, to be computed again, or say that nobody can."""

    def move_out(self, short: Callable[[], Demand], *, keep: Sequence | None, waiting: Iterable[Sequence]) -> None:
        """Have others move to the host until nothing is missing: who is needed last, first."""

    def file_away(self, *, keep: Sequence | None, waiting: Iterable[Sequence]) -> bool:
        """Begin to write what others have on the host to files, if there are any; whether there will be room."""

    def read_back(self, sequence: Sequence, waiting: Iterable[Sequence], alone: bool) -> bool:
        """Begin to bring what a sequence has in files to the host; whether it has to wait for that."""

    def drop_snapshots(self, sequence: Sequence) -> bool:
        """Forget what a sequence remembers of earlier positions."""


def _greedy(request: Request) -> bool:
    params = request.params
    return params.temperature == 0 and not params.top_logprobs and request.penalties is None
