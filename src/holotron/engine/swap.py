"""Swap space: host memory for blocks that had to leave the device. Pinned, so that copies run beside the host's work.

Pinning takes time (0.6 s per GiB as it comes, half of that with large pages that are touched before), and torch's own
pinned memory comes in powers of two: a block of 9 MB would take 16. So memory is taken in slabs of many blocks, when it
is first needed, and kept for the next ones; while one is being filled, a thread prepares the next. Blocks that lie side
by side here and there travel in one copy: launching one costs the host as much as a megabyte takes.
"""

from __future__ import annotations

import mmap
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from operator import itemgetter
from typing import NamedTuple

import torch
from torch import Tensor

from holotron.engine.copies import Moment

SLAB_BYTES, SLAB_BLOCKS = 256 << 20, 256  # at most
LARGE_PAGE = 2 << 20
ALIGN = 256


class Place(NamedTuple):
    """Room for one block. Those of one slab that follow each other lie side by side."""

    slab: int
    index: int  # type: ignore[assignment]  # tuples have a method of that name


class SwapSpace:
    def __init__(self, tensors: Sequence[Tensor], limit: int) -> None:
        """Places for one slot of each of these tensors. No slab is prepared beyond the limit before it is needed."""
        self._like = [(tensor.shape[1:], tensor.dtype) for tensor in tensors]
        each = max(1, sum(tensor[:1].nbytes for tensor in tensors))
        self._count = min(max(1, SLAB_BYTES // each), SLAB_BLOCKS)
        self._sizes = [-(-self._count * tensor[:1].nbytes // ALIGN) * ALIGN for tensor in tensors]
        self._pinned = tensors[0].is_cuda
        self._device = tensors[0].device
        self._limit = limit
        self._free: deque[tuple[Place, Moment | None]] = deque()
        self._parts: list[tuple[Tensor, ...]] = []  # of each slab: for each tensor [count, ...]
        self._slabs: list[Tensor] = []  # all that were ever made, the next one too
        self._next: Future[Tensor] | None = None
        self._thread = ThreadPoolExecutor(1, "holotron-pinning") if self._pinned else None
        self._unpin = weakref.finalize(self, _unpin, self._slabs) if self._pinned else None

    @property
    def nbytes(self) -> int:
        """Host memory taken so far."""
        return sum(slab.nbytes for slab in self._slabs)

    def take(self, count: int) -> list[tuple[Place, Moment | None]]:
        """Places, in order, and the moments from which on they may be written to: those that were given back first."""
        while len(self._free) < count:
            self._add_slab()
        scarce = len(self._free) < count + self._count
        more = self.nbytes + sum(self._sizes) <= self._limit
        if scarce and more and self._next is None and self._thread is not None:
            self._next = self._thread.submit(self._slab)
        return sorted((self._free.popleft() for _ in range(count)), key=itemgetter(0))

    def give(self, place: Place, moment: Moment | None = None) -> None:
        """Back, and free to be written to from this moment on."""
        self._free.append((place, moment))

    def at(self, place: Place, count: int = 1) -> tuple[Tensor, ...]:
        """What lies there, and in the places behind it: for each tensor one [count, ...]."""
        return tuple(part[place.index : place.index + count] for part in self._parts[place.slab])

    def blank(self) -> tuple[Tensor, ...]:
        """Fresh memory, not from here, for what a place holds."""
        return tuple(torch.empty((1, *shape), dtype=dtype) for shape, dtype in self._like)

    def close(self) -> None:
        """Nobody takes, gives or reads anything any more."""
        if self._thread is not None:
            self._thread.shutdown()
        if self._unpin is not None:
            self._unpin()

    @torch.inference_mode(False)  # sessions that come from elsewhere are written outside of it
    def _add_slab(self) -> None:
        slab = self._next.result() if self._next is not None else self._slab()
        self._next = None
        self._parts.append(tuple(self._cut(slab)))
        self._free.extend((Place(len(self._parts) - 1, n), None) for n in range(self._count))

    @torch.inference_mode(False)
    def _slab(self) -> Tensor:
        size = sum(self._sizes)
        if not self._pinned:
            self._slabs.append(torch.empty(size, dtype=torch.uint8))
            return self._slabs[-1]
        memory = mmap.mmap(-1, -(-size // LARGE_PAGE) * LARGE_PAGE)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        slab = torch.frombuffer(memory, dtype=torch.uint8).zero_()  # pages that are there are pinned in a tenth
        with torch.cuda.device(self._device):
            torch.cuda.check_error(torch.cuda.cudart().cudaHostRegister(slab.data_ptr(), slab.nbytes, 0))
        self._slabs.append(slab)  # memory that is given back while it is registered could not be registered again
        return slab

    def _cut(self, slab: Tensor) -> Iterator[Tensor]:
        start = 0
        for (shape, dtype), size in zip(self._like, self._sizes, strict=True):
            there = slab[start : start + self._count * shape.numel() * dtype.itemsize]
            yield there.view(dtype).view(self._count, *shape)
            start += size


def _unpin(slabs: list[Tensor]) -> None:
    if slabs:
        torch.cuda.synchronize()  # copies may be on their way
    while slabs:
        slab = slabs.pop()  # held until it is unregistered
        torch.cuda.cudart().cudaHostUnregister(slab.data_ptr())
