"""Swap space: host memory for blocks that had to leave the device. Pinned, so that copies run beside the host's work.

Pinning takes time (half a second per gigabyte), and torch's own pinned memory comes in powers of two: a block of 9 MB
would take 16. So memory is taken in slabs of many blocks, when it is first needed, and kept for the next ones.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import torch
from torch import Tensor

SLAB_BYTES, SLAB_BLOCKS = 256 << 20, 64  # at most
ALIGN = 256

Stored = tuple[Tensor, ...]


class SwapSpace:
    def __init__(self, tensors: Sequence[Tensor]) -> None:
        """Places for one slot of each of these tensors."""
        self._like = [(tensor.shape[1:], tensor.dtype) for tensor in tensors]
        self._sizes = [-(-tensor[:1].nbytes // ALIGN) * ALIGN for tensor in tensors]
        self._pinned = tensors[0].is_cuda
        self._free: list[Stored] = []
        self._slabs: list[Tensor] = []
        if self._pinned:
            weakref.finalize(self, _unpin, self._slabs)

    def take(self) -> Stored:
        if not self._free:
            self._add_slab()
        return self._free.pop()

    def give(self, stored: Stored) -> None:
        self._free.append(stored)

    def _add_slab(self) -> None:
        place = sum(self._sizes)
        count = min(max(1, SLAB_BYTES // max(1, place)), SLAB_BLOCKS)
        slab = torch.empty(count * place, dtype=torch.uint8)
        if self._pinned:
            torch.cuda.check_error(torch.cuda.cudart().cudaHostRegister(slab.data_ptr(), slab.nbytes, 0))
        self._slabs.append(slab)
        for start in range(0, count * place, max(1, place)):
            self._free.append(self._place(slab, start))

    def _place(self, slab: Tensor, start: int) -> Stored:
        parts = []
        for (shape, dtype), size in zip(self._like, self._sizes, strict=True):
            there = slab[start : start + shape.numel() * dtype.itemsize]
            parts.append(there.view(dtype).view(shape))
            start += size
        return tuple(parts)


def _unpin(slabs: list[Tensor]) -> None:
    for slab in slabs:
        torch.cuda.cudart().cudaHostUnregister(slab.data_ptr())
