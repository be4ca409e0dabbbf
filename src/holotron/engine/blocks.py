"""Memory in blocks of one size, on the device first and on the host when the device is full.

Two pools exist: KV *pages* (keys and values of `page_size` tokens across all attention layers) and state *rows* (the
recurrent state of all Mamba and Gated DeltaNet layers at one position). Both work the same way, so there is one class:

* A block is **shared** by counting references: a fork, a mark and the session itself may hold the same block. It is
  written only by a sole holder; others copy it first (copy on write, see `memory`).
* A block is **pinned** while a running sequence holds it; then it stays on the device. Unpinned blocks stay there too
  until somebody needs the slot: then the least recently used one moves to the host, bit for bit. That is all there is
  to swapping: a session that must yield is unpinned, and comes back exactly as it was.
* The host tier is a number of bytes shared by both pools. Its memory (`swap`) is taken as it is needed.

Nothing here decides anything: `fits` says whether a demand can be met, `take`, `copy` and `pin` meet it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

import torch
from torch import Tensor

from holotron.engine.api import IntegrityError
from holotron.engine.swap import SwapSpace
from holotron.model.cache import Cache
from holotron.model.config import DecoderConfig


class Block:
    """One page or one row. On the device `slot` is its index there; on the host `stored` holds its contents."""

    __slots__ = ("pins", "refs", "slot", "stored")

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.refs = 1
        self.pins = 1
        self.stored: tuple[Tensor, ...] | None = None

    @property
    def on_device(self) -> bool:
        return self.slot >= 0


@dataclass(slots=True)
class HostTier:
    limit: int
    used: int = 0

    @property
    def free(self) -> int:
        return self.limit - self.used


class Pool:
    """Blocks over tensors whose first dimension is the slot."""

    def __init__(self, name: str, tensors: Sequence[Tensor], host: HostTier) -> None:
        self.name = name
        self.slots = tensors[0].shape[0]
        self.block_bytes = sum(t[0].nbytes for t in tensors) if self.slots else 0
        self.to_host_count = 0
        self.to_device_count = 0
        self._tensors = tuple(tensors)
        self._host = host
        self._swap = SwapSpace(self._tensors)
        self._free = list(range(self.slots - 1, -1, -1))
        self._idle: OrderedDict[Block, None] = OrderedDict()  # on the device and unpinned, least recently used first

    @property
    def used(self) -> int:
        """Slots that hold something, pinned or not."""
        return self.slots - len(self._free)

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def idle(self) -> int:
        """Slots that could be freed by moving their contents to the host."""
        return len(self._idle)

    # ------------------------------------------------------------------------------------------------- taking, giving

    def take(self, *, blank: bool = False) -> Block:
        """A new block on the device: referenced once, pinned once. `blank` fills it with zeros."""
        block = Block(self._slot())
        if blank:
            for tensor in self._tensors:
                tensor[block.slot].zero_()
        return block

    def copy(self, block: Block) -> Block:
        """A new pinned block on the device with the contents of another one, wherever that is."""
        new = Block(self._slot())
        for tensor, source in zip(self._tensors, self._contents(block), strict=True):
            tensor[new.slot].copy_(source, non_blocking=True)
        return new

    def hold(self, block: Block) -> Block:
        block.refs += 1
        return block

    def drop(self, block: Block) -> None:
        """Give up one reference (not a pin); the last one frees the block."""
        block.refs -= 1
        if block.refs:
            return
        assert block.pins == 0, f"a {self.name} block was dropped while pinned"
        if block.on_device:
            self._idle.pop(block)
            self._free.append(block.slot)
        else:
            self._leave_host(block)
        block.slot = -1

    def pin(self, block: Block) -> None:
        """Keep on the device, and bring there if need be."""
        block.pins += 1
        if block.pins > 1:
            return
        if block.on_device:
            del self._idle[block]
            return
        slot = self._slot()
        for tensor, source in zip(self._tensors, self._contents(block), strict=True):
            tensor[slot].copy_(source, non_blocking=True)
        block.slot = slot
        self._leave_host(block)
        self.to_device_count += 1

    def unpin(self, block: Block) -> None:
        block.pins -= 1
        if block.pins == 0:
            self._idle[block] = None

    # ----------------------------------------------------------------------------------------------- leaving, arriving

    def contents(self, blocks: Sequence[Block]) -> list[Tensor]:
        """What these blocks hold, wherever they are: for each tensor of the pool one in host memory, [blocks, ...]."""
        if not blocks:
            return []
        return [torch.stack(parts) for parts in zip(*map(self._at_home, blocks), strict=True)]

    def receive(self, parts: Sequence[Tensor]) -> list[Block] | None:
        """New blocks, at rest, with the contents that another pool gave away: on the device if there are free slots,
        else on the host. None: there is no room, or they are not made like ours."""
        if not parts:
            return []
        like = [(tensor.shape[1:], tensor.dtype) for tensor in self._tensors]
        if [(part.shape[1:], part.dtype) for part in parts] != like:
            return None
        count = len(parts[0])
        if count <= self.free:
            blocks = [self.take() for _ in range(count)]
            for n, block in enumerate(blocks):
                for tensor, part in zip(self._tensors, parts, strict=True):
                    tensor[block.slot].copy_(part[n])
                self.unpin(block)
            return blocks
        if count * self.block_bytes > self._host.free:
            return None
        return [self._on_host([part[n] for part in parts]) for n in range(count)]

    def _on_host(self, contents: Sequence[Tensor]) -> Block:
        block = Block(-1)
        block.pins, block.stored = 0, self._swap.take()
        for stored, part in zip(block.stored, contents, strict=True):
            stored.copy_(part)
        self._host.used += self.block_bytes
        return block

    # -------------------------------------------------------------------------------------------------------- inside

    def _contents(self, block: Block) -> tuple[Tensor, ...]:
        if block.on_device:
            return tuple(tensor[block.slot] for tensor in self._tensors)
        assert block.stored is not None
        return block.stored

    def _at_home(self, block: Block) -> tuple[Tensor, ...]:
        return tuple(part.cpu() for part in self._contents(block))

    def _leave_host(self, block: Block) -> None:
        # Copies run in the order of the device's stream: whoever writes to this place next writes after it was read.
        assert block.stored is not None
        self._swap.give(block.stored)
        block.stored = None
        self._host.used -= self.block_bytes

    def _slot(self) -> int:
        """A free slot; when there is none, the least recently used idle block goes to the host."""
        if self._free:
            return self._free.pop()
        block, _ = self._idle.popitem(last=False)
        slot = block.slot
        block.stored = self._swap.take()
        for stored, tensor in zip(block.stored, self._tensors, strict=True):
            stored.copy_(tensor[slot], non_blocking=True)
        block.slot = -1
        self._host.used += self.block_bytes
        self.to_host_count += 1
        return slot

    def check(self, holders: Iterable[Block], pinned: Iterable[Block]) -> int:
        """Compare with the references and pins that really exist; returns the bytes that lie on the host."""
        refs, pins = _count(holders), _count(pinned)
        slots: set[int] = set(self._free)
        _must(len(slots) == len(self._free), f"{self.name}: a slot is free twice")
        host = 0
        for block, count in refs.items():
            _must(block.refs == count, f"{self.name}: a block counts {block.refs} references, {count} exist")
            _must(block.pins == pins.get(block, 0), f"{self.name}: a block counts {block.pins} pins")
            _must((block in self._idle) == (block.on_device and not block.pins), f"{self.name}: idle list is wrong")
            if block.on_device:
                _must(block.slot not in slots, f"{self.name}: slot {block.slot} belongs to two blocks or is free")
                _must(block.stored is None, f"{self.name}: a block is in two places")
                slots.add(block.slot)
            else:
                _must(block.stored is not None, f"{self.name}: a block lost its contents")
                host += self.block_bytes
        _must(slots == set(range(self.slots)), f"{self.name}: {self.slots - len(slots)} slots leaked")
        _must(set(pins) <= set(refs), f"{self.name}: a block is pinned but not held")
        _must(set(self._idle) <= set(refs), f"{self.name}: the idle list holds a dead block")
        return host


def _count(blocks: Iterable[Block]) -> dict[Block, int]:
    counts: dict[Block, int] = {}
    for block in blocks:
        counts[block] = counts.get(block, 0) + 1
    return counts


def _must(good: bool, message: str) -> None:
    if not good:
        raise IntegrityError(message)


@dataclass(slots=True)
class Demand:
    """Blocks somebody needs on the device, of each pool."""

    rows: int = 0  # slots to be filled: new blocks, copies, and those that come back from the host
    pages: int = 0
    returning_rows: int = 0  # of these, the ones that come back from the host
    returning_pages: int = 0
    kept_rows: int = 0  # idle blocks on the device that will be pinned: they cannot make room for the others
    kept_pages: int = 0

    def __add__(self, other: Demand) -> Demand:
        return Demand(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class Pools:
    """Both pools and the host tier behind them."""

    def __init__(
        self, config: DecoderConfig, cache: Cache, *, page_size: int, host_bytes: int, padded: bool = False
    ) -> None:
        """`padded`: the last row and the last page belong to nobody; sequences that fill up a batch work on them."""
        self.cache = cache
        self.page_size = page_size
        self.host = HostTier(host_bytes)
        rows, pages = len(cache.ssm_RLHPN) - padded, len(cache.kv_ZL2zkD) - padded
        self.padding = (rows, pages) if padded else None
        self.rows = Pool("state", [tensor[:rows] for tensor in cache.row_tensors], self.host)
        self.pages = Pool("page", [cache.kv_ZL2zkD[:pages]], self.host)
        self.has_attention = bool(config.layers("*"))
        self.has_state = config.recurrent  # without one, a memory can be cut back to any length

    def pages_for(self, tokens: int) -> int:
        return -(-tokens // self.page_size) if self.has_attention else 0

    def short(self, demand: Demand) -> bool:
        """Whether something has to leave the device to meet the demand."""
        return demand.rows > self.rows.free or demand.pages > self.pages.free

    def could_fit(self, demand: Demand) -> bool:
        """Whether the device has the slots, given room on the host for what is idle there now."""
        rows, pages = self.rows, self.pages
        return (
            demand.rows <= rows.free + rows.idle - demand.kept_rows
            and demand.pages <= pages.free + pages.idle - demand.kept_pages
        )

    def fits(self, demand: Demand) -> bool:
        """Whether the demand can be met by moving idle blocks to the host.

        A block that comes back changes places with one that leaves, so a full host does not stand in the way of it (the
        host tier is over its limit by one block for as long as the exchange takes).
        """
        if not self.could_fit(demand):
            return False
        row, page = self.rows.block_bytes, self.pages.block_bytes
        arriving = max(0, demand.rows - self.rows.free) * row + max(0, demand.pages - self.pages.free) * page
        leaving = demand.returning_rows * row + demand.returning_pages * page
        return arriving - leaving <= self.host.free
