"""What the network remembers of one sequence: a length, a recurrent state, and pages of keys and values.

A session's live memory, a mark and an entry of the prefix index are all `Memory` objects. Making one from another
(`share`) copies nothing: both hold the same blocks. The first to write copies what it is about to change: one state
row and at most one half-filled page. So a fork, a mark and a rewind are free, and an unused one stays free.

A memory is only a cache of its log. Dropping it loses time, never content.
"""

from __future__ import annotations

import itertools

import numpy as np
from torch import Tensor

from holotron.engine.blocks import Block, Pool
from holotron.engine.copies import Moment
from holotron.engine.pools import Demand, Pools

_stamps = itertools.count(1)


class Memory:
    __slots__ = (
        "_arriving", "_pools", "_table", "hidden", "length", "newest", "oldest", "pages", "pinned", "stamp", "state"
    )  # fmt: skip

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self.length = 0  # tokens remembered
        self.state: Block | None = None  # None: nothing remembered yet, or a model without one
        self.pages: list[Block] = []
        self.hidden: Tensor | None = None  # final vector of the last token, where sampling again from here is wanted
        self.pinned = False
        self.oldest = self.newest = -1  # versions of the weights that wrote it; -1: none yet
        self._table = np.zeros(0, np.int32)  # device slots of the pages, while pinned
        self._arriving: list[Moment] = []  # what has to pass before it is computed with
        self.stamp = 0  # another one whenever the table has changed; no two tables share one

    # --------------------------------------------------------------------------------------------- sharing, releasing

    def share(self) -> Memory:
        """Another holder of the same memory."""
        other = Memory(self._pools)
        other.length, other.hidden = self.length, self.hidden
        other.oldest, other.newest = self.oldest, self.newest
        if self.state is not None:
            other.state = self._pools.rows.hold(self.state)
        other.pages = [self._pools.pages.hold(page) for page in self.pages]
        return other

    def release(self) -> None:
        """Forget everything. A pinned memory stays pinned, empty."""
        pinned = self.pinned
        if pinned:
            self.unpin()
        if self.state is not None:
            self._pools.rows.drop(self.state)
        for page in self.pages:
            self._pools.pages.drop(page)
        self.length, self.state, self.pages, self.hidden = 0, None, [], None
        self.oldest = self.newest = -1
        self._arriving = []
        self.pinned = pinned

    def truncate(self, length: int) -> None:
        """Forget the tokens from `length` on. Only a memory without recurrent state can do that."""
        assert not self._pools.has_state
        assert not self.pinned
        if length >= self.length:
            return
        keep = self._pools.pages_for(length)
        for page in self.pages[keep:]:
            self._pools.pages.drop(page)
        del self.pages[keep:]
        self.length, self.hidden = length, None

    # ------------------------------------------------------------------------------------------------ on the device

    def demand(self, upto: int) -> Demand:
        """What `pin` (unless it is pinned) and then `grow(upto)` need."""
        demand = Demand(rows=int(self._copies_state()))
        demand.pages = self._pools.pages_for(upto) - len(self.pages) + self._copies_page()
        if self.pinned:
            return demand
        if self.state is not None:
            if not self.state.on_device:
                demand.rows += 1
                demand.returning_rows = 1
            elif not self.state.pins:
                demand.kept_rows = 1
        for page in self.pages:
            if not page.on_device:
                demand.pages += 1
                demand.returning_pages += 1
            elif not page.pins:
                demand.kept_pages += 1
        return demand

    def ready(self, upto: int) -> bool:
        """Whether tokens up to `upto` can be written as it is: the usual case of a sequence that generates."""
        state, pages = self.state, self.pages
        if self._pools.has_state and (state is None or state.refs > 1):
            return False
        if not self._pools.has_attention:
            return True
        if not pages:
            return False
        return upto <= len(pages) * self._pools.page_size and pages[-1].refs == 1

    def pin(self) -> None:
        """Keep everything on the device, and begin to bring it there. It must `settle` before it is computed with."""
        assert not self.pinned
        self.pinned = True
        self._arriving = self._pools.rows.pin([self.state]) if self.state is not None else []
        self._arriving += self._pools.pages.pin(self.pages)
        self._table = np.array([page.slot for page in self.pages], np.int32)
        self.stamp = next(_stamps)

    @property
    def arrived(self) -> bool:
        """Whether all of a pinned memory is there."""
        self._arriving = [moment for moment in self._arriving if not moment.passed()]
        return not self._arriving

    def settle(self) -> None:
        """What is computed from here on comes after its arrival."""
        for moment in self._arriving:
            self._pools.copies.settle(moment)
        self._arriving = []

    @property
    def filed(self) -> bool:
        """Whether some of it lies in a file."""
        return (self.state is not None and self.state.filed >= 0) or any(page.filed >= 0 for page in self.pages)

    @property
    def lost(self) -> bool:
        """Whether some of it could not be read back."""
        return (self.state is not None and self.state.lost) or any(page.lost for page in self.pages)

    def blocks(self) -> list[Block]:
        return [*self.pages, *([self.state] if self.state is not None else [])]

    def file_away(self, most: int, but: set[Block]) -> int:
        """Begin to write what lies on the host to a file: at most so many bytes, and none of some blocks. How many it
        will be."""
        rows, pages = self._pools.rows.files, self._pools.pages.files
        if rows is None or pages is None:
            return 0
        begun = rows.away([self.state], most) if self.state is not None and self.state not in but else 0
        return begun + pages.away((page for page in self.pages if page not in but), most - begun)

    def read_back(self) -> bool:
        """Begin to bring what lies in a file to the host; False: there is no room for it."""
        rows, pages = self._pools.rows, self._pools.pages
        away = sum(page.filed >= 0 for page in self.pages) * pages.block_bytes
        away += rows.block_bytes if self.state is not None and self.state.filed >= 0 else 0
        if rows.files is None or pages.files is None or away > self._pools.host.free:
            return False
        rows.files.back([self.state] if self.state is not None else [])
        pages.files.back(self.pages)
        return True

    def move_out(self, rows: int, pages: int) -> int:
        """Move at most so much of it to the host, of what nobody else holds; how many blocks it was."""
        moved = 0
        if rows > 0 and self.state is not None and self.state.refs == 1:
            moved = self._pools.rows.move_out([self.state], rows)
        if pages > 0:
            moved += self._pools.pages.move_out((page for page in reversed(self.pages) if page.refs == 1), pages)
        return moved

    def unpin(self) -> None:
        """Allow it to be moved to the host when others need the room. Pages that were taken ahead are given back."""
        assert self.pinned
        self.pinned = False
        ahead = self.pages[self._pools.pages_for(self.length) :]
        del self.pages[len(self.pages) - len(ahead) :]
        for page in ahead:
            self._pools.pages.unpin(page)
            self._pools.pages.drop(page)
        if self.state is not None:
            self._pools.rows.unpin(self.state)
        for page in self.pages:
            self._pools.pages.unpin(page)

    def grow(self, upto: int) -> None:
        """Make ready to write tokens `length` to `upto`: own the state and the half-filled page, add pages."""
        assert self.pinned and not self._arriving
        rows, pages = self._pools.rows, self._pools.pages
        if self._copies_state():
            self.state = _own(rows, self.state) if self.state is not None else rows.take(blank=True)
        if self._copies_page():
            self.pages[-1] = _own(pages, self.pages[-1])
            self._table[len(self.pages) - 1] = self.pages[-1].slot
        missing = self._pools.pages_for(upto) - len(self.pages)
        if missing > 0:
            self.pages.extend(pages.take() for _ in range(missing))
            if len(self.pages) > len(self._table):
                self._table = np.resize(self._table, 2 * len(self.pages))
            for n in range(len(self.pages) - missing, len(self.pages)):
                self._table[n] = self.pages[n].slot
        self.stamp = next(_stamps)
        self.hidden = None

    def wrote(self, upto: int, version: int) -> None:
        """The network has written up to here."""
        self.length = upto
        self.newest = version
        if self.oldest < 0:
            self.oldest = version

    @property
    def away(self) -> bool:
        """Whether it, or its newest part, lies on the host."""
        if self.state is not None and not self.state.on_device:
            return True
        return bool(self.pages) and not self.pages[-1].on_device

    @property
    def row(self) -> int:
        return self.state.slot if self.state is not None else 0

    @property
    def table(self) -> np.ndarray:
        """Device slots of the pages, in order."""
        return self._table[: len(self.pages)]

    def _copies_state(self) -> bool:
        return self._pools.has_state and (self.state is None or self.state.refs > 1)

    def _copies_page(self) -> bool:
        half_filled = self.length % self._pools.page_size != 0
        return half_filled and bool(self.pages) and self.pages[-1].refs > 1

    # ---------------------------------------------------------------------------------------------------- accounting

    @property
    def nbytes(self) -> int:
        rows, pages = self._pools.rows, self._pools.pages
        return (self.state is not None) * rows.block_bytes + len(self.pages) * pages.block_bytes

    @property
    def host_nbytes(self) -> int:
        """Of these, what lies on the host."""
        rows, pages = self._pools.rows, self._pools.pages
        away = sum(not page.on_device for page in self.pages) * pages.block_bytes
        return away + (self.state is not None and not self.state.on_device) * rows.block_bytes


def _own(pool: Pool, shared: Block) -> Block:
    """A copy of a shared, pinned block for the caller alone."""
    new = pool.copy(shared)
    pool.unpin(shared)
    pool.drop(shared)
    return new
