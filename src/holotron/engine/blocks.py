"""Memory in blocks of one size, on the device first and on the host when the device is full.

Two pools exist: KV *pages* (keys and values of `page_size` tokens across all attention layers) and state *rows* (the
recurrent state of all Mamba and Gated DeltaNet layers at one position). Both work the same way, so there is one class:

* A block is **shared** by counting references: a fork, a mark and the session itself may hold the same block. It is
  written only by a sole holder; others copy it first (copy on write, see `memory`).
* A block is **pinned** while a running sequence holds it; then it stays on the device. Unpinned blocks stay there too
  until somebody needs the slot: then one moves to the host, bit for bit. That is all there is to swapping: a session
  that must yield is unpinned, and comes back exactly as it was.
* The host tier is a number of bytes shared by both pools. Its memory (`swap`) is taken as it is needed. Blocks travel
  beside the computation (`copies`): who pins one is told what to wait for before it is used.

Nothing here decides anything: `Pools.fits` says whether a demand can be met, `take`, `copy` and `pin` meet it.
`move_out` is for those who know better than the least recent use who will not be needed soon.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from holotron.engine.api import IntegrityError
from holotron.engine.copies import Copies, Moment, Pair
from holotron.engine.filing import DiskTier, Files
from holotron.engine.swap import Place, SwapSpace


class Block:
    """One page or one row. On the device `slot` is its index there; on the host `stored` is its place. `moment` is
    the end of the last copy that touched it, if that may not be over yet (see `copies`). In a file it has neither, but
    a place there (`filed`, see `filing`); `job` is what is being done with it and its file."""

    __slots__ = ("filed", "job", "lost", "moment", "pins", "refs", "slot", "stored")

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.refs = 1
        self.pins = 1
        self.stored: Place | None = None
        self.moment: Moment | None = None
        self.filed = -1
        self.job: object | None = None
        self.lost = False  # what the file held could not be read

    @property
    def on_device(self) -> bool:
        return self.slot >= 0

    @property
    def on_its_way(self) -> Moment | None:
        if self.moment is not None and self.moment.passed():
            self.moment = None
        return self.moment


@dataclass(slots=True)
class HostTier:
    limit: int
    used: int = 0

    @property
    def free(self) -> int:
        return self.limit - self.used


class Pool:
    """Blocks over tensors whose first dimension is the slot."""

    def __init__(
        self, name: str, tensors: Sequence[Tensor], host: HostTier, copies: Copies, disk: DiskTier | None = None
    ) -> None:
        self.name = name
        self.slots = tensors[0].shape[0]
        self.block_bytes = sum(t[0].nbytes for t in tensors) if self.slots else 0
        self.to_host_count = 0
        self.to_device_count = 0
        self._tensors = tuple(tensors)
        self._host = host
        self._copies = copies
        self._swap = SwapSpace(self._tensors, host.limit)
        self.files = Files(disk, self.block_bytes, self._swap, host, copies) if disk is not None else None
        self._free = deque(range(self.slots))  # the one that was freed first is used first
        self._idle: OrderedDict[Block, None] = OrderedDict()  # on the device and unpinned, least recently used first
        self._leaving: dict[int, Moment] = {}  # free slots that a copy still reads or writes

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
            self._copies.computed()
        return block

    def copy(self, block: Block) -> Block:
        """A new pinned block on the device with the contents of another one that is there."""
        assert block.on_device
        if (moment := block.on_its_way) is not None:
            self._copies.settle(moment)
        new = Block(self._slot())
        for tensor in self._tensors:
            tensor[new.slot].copy_(tensor[block.slot], non_blocking=True)
        self._copies.computed()
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
            if (moment := block.on_its_way) is not None:
                self._leaving[block.slot] = moment
            self._free.append(block.slot)
        elif block.filed >= 0 and self.files is not None:
            self.files.drop(block)
        elif block.job is None:  # else when it has been written
            self._leave_host(block)
        block.slot = -1

    def pin(self, blocks: Sequence[Block]) -> list[Moment]:
        """Keep blocks on the device, and begin to bring there what is not; what to wait for before they are used."""
        away: list[Block] = []
        for block in blocks:
            block.pins += 1
            if block.pins == 1:
                if block.on_device:
                    del self._idle[block]
                else:
                    away.append(block)
        if away:
            self._bring(away)
        return list({moment for block in blocks if (moment := block.on_its_way) is not None})

    def unpin(self, block: Block) -> None:
        block.pins -= 1
        if block.pins == 0:
            self._idle[block] = None

    def move_out(self, blocks: Iterable[Block], most: int) -> int:
        """Move at most so many of these to the host, of those that are idle; how many were."""
        if most <= 0:
            return 0
        idle = self._idle
        chosen = list(islice((block for block in blocks if block in idle), most))
        for block in chosen:
            del idle[block]
        self._move_out(chosen)
        return len(chosen)

    def close(self) -> None:
        if self.files is not None:
            self.files.close()
        self._swap.close()

    # ----------------------------------------------------------------------------------------------- leaving, arriving

    def contents(self, blocks: Sequence[Block]) -> list[Tensor]:
        """What these blocks hold, wherever they are: for each tensor of the pool one, [blocks, ...], which nobody else
        writes to. On a GPU it is put together there, so that the loop need not wait for the bus; unless there is no
        room."""
        if not blocks:
            return []
        contents = [self._contents(block) for block in blocks]
        if not self._tensors[0].is_cuda:
            return [torch.stack(parts) for parts in zip(*contents, strict=True)]
        try:
            whole = [self._gathered(n, blocks, contents) for n in range(len(self._tensors))]
        except torch.OutOfMemoryError:
            return [torch.stack([part.cpu() for part in parts]) for parts in zip(*contents, strict=True)]
        self._copies.computed()
        return whole

    def _gathered(self, n: int, blocks: Sequence[Block], contents: Sequence[tuple[Tensor, ...]]) -> Tensor:
        tensor = self._tensors[n]
        slots = torch.tensor([max(block.slot, 0) for block in blocks], device=tensor.device)
        whole = _raw(tensor).index_select(0, slots).view(tensor.dtype)
        for at, (block, parts) in enumerate(zip(blocks, contents, strict=True)):
            if not block.on_device:
                whole[at].copy_(parts[n])  # waits: its place may be another block's next
        return whole

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
            slots = torch.tensor([block.slot for block in blocks], device=self._tensors[0].device)
            for tensor, part in zip(self._tensors, parts, strict=True):
                _raw(tensor).index_copy_(0, slots, _raw(part.to(tensor.device)))
                if part.is_cuda:
                    part.record_stream(torch.cuda.current_stream(part.device))  # it was made on another one
            for block in blocks:
                self.unpin(block)
            self._copies.computed()
            return blocks
        if count * self.block_bytes > self._host.free:
            return None
        return [self._on_host([part[n] for part in parts]) for n in range(count)]

    def _on_host(self, contents: Sequence[Tensor]) -> Block:
        block = Block(-1)
        block.pins = 0
        [(block.stored, moment)] = self._swap.take(1)
        if moment is not None:
            self._copies.wait(moment)
        for stored, part in zip(self._swap.at(block.stored), contents, strict=True):
            stored[0].copy_(part)
        self._host.used += self.block_bytes
        return block

    # -------------------------------------------------------------------------------------------------------- inside

    def _contents(self, block: Block) -> tuple[Tensor, ...]:
        """Where they are; what is launched from here on may read it."""
        moment = block.on_its_way
        if block.on_device:
            if moment is not None:
                self._copies.settle(moment)
            return tuple(tensor[block.slot] for tensor in self._tensors)
        if moment is not None:
            self._copies.wait(moment)
        if block.stored is None and self.files is not None:
            return tuple(part[0] for part in self.files.contents(block))
        assert block.stored is not None
        return tuple(part[0] for part in self._swap.at(block.stored))

    def _bring(self, blocks: list[Block]) -> None:
        """From the host to the device."""
        self._make_free(len(blocks))
        blocks.sort(key=_place)
        # Those that were freed last: a copy may wait for their contents to leave, while others compute with the rest.
        slots = sorted(self._free.pop() for _ in blocks)
        moments = [self._leaving.pop(slot, None) for slot in slots] + [block.on_its_way for block in blocks]
        pairs = self._side_by_side(slots, list(map(_place, blocks)))
        moment = self._copies.back(pairs, [moment for moment in moments if moment is not None])
        for slot, block in zip(slots, blocks, strict=True):
            block.slot = slot
            block.moment = moment
            block.job = None  # should it be on its way to a file, nobody wants it there any more
            self._leave_host(block)
        self.to_device_count += len(blocks)

    def _move_out(self, blocks: list[Block]) -> None:
        """From the device to the host; their slots are free."""
        if not blocks:
            return
        blocks.sort(key=lambda block: block.slot)
        taken = self._swap.take(len(blocks))
        moments = [moment for _, moment in taken] + [block.on_its_way for block in blocks]
        pairs = self._side_by_side([block.slot for block in blocks], [place for place, _ in taken])
        moment = self._copies.out([(here, there) for there, here in pairs], [m for m in moments if m is not None])
        for block, (place, _) in zip(blocks, taken, strict=True):
            if moment is not None:
                self._leaving[block.slot] = moment
            self._free.append(block.slot)
            block.slot, block.stored, block.moment = -1, place, moment
        self._host.used += len(blocks) * self.block_bytes
        self.to_host_count += len(blocks)

    def _side_by_side(self, slots: list[int], places: list[Place]) -> list[Pair]:
        """The memory of these slots and of these places, both in order: as few pairs as there are gaps."""
        pairs: list[Pair] = []
        first = 0
        for n in range(1, len(slots) + 1):
            run, (slab, place) = n - first, places[first]
            if n < len(slots) and (slots[n], places[n]) == (slots[first] + run, (slab, place + run)):
                continue
            there = (tensor[slots[first] : slots[first] + run] for tensor in self._tensors)
            pairs += zip(there, self._swap.at(places[first], run), strict=True)
            first = n
        return pairs

    def _leave_host(self, block: Block) -> None:
        assert block.stored is not None
        self._swap.give(block.stored, block.moment)
        block.stored = None
        self._host.used -= self.block_bytes

    def _make_free(self, count: int) -> None:
        """So many free slots; where there are none, the least recently used idle blocks go to the host."""
        missing = count - len(self._free)
        self._move_out([self._idle.popitem(last=False)[0] for _ in range(missing)])

    def _slot(self) -> int:
        """A slot that what is computed from here on may write to."""
        self._make_free(1)
        slot = self._free.popleft()
        if (moment := self._leaving.pop(slot, None)) is not None:
            self._copies.settle(moment)
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
                _must(block.stored is None and block.filed < 0, f"{self.name}: a block is in two places")
                slots.add(block.slot)
            else:
                _must((block.stored is None) != (block.filed < 0), f"{self.name}: a block lost its contents")
                host += self.block_bytes if block.stored is not None else 0
        _must(set(self._leaving) <= set(self._free), f"{self.name}: a slot in use is still being left")
        _must(slots == set(range(self.slots)), f"{self.name}: {self.slots - len(slots)} slots leaked")
        _must(set(pins) <= set(refs), f"{self.name}: a block is pinned but not held")
        _must(set(self._idle) <= set(refs), f"{self.name}: the idle list holds a dead block")
        return host + (self.files.check(refs) if self.files is not None else 0)


def _place(block: Block) -> Place:
    assert block.stored is not None
    return block.stored


def _raw(tensor: Tensor) -> Tensor:
    """8-bit floats cannot be indexed everywhere; bytes can."""
    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor


def _count(blocks: Iterable[Block]) -> dict[Block, int]:
    counts: dict[Block, int] = {}
    for block in blocks:
        counts[block] = counts.get(block, 0) + 1
    return counts


def _must(good: bool, message: str) -> None:
    if not good:
        raise IntegrityError(message)
