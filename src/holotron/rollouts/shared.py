"""Tensors in memory that other processes of this machine read: weights, written once for all of them.

The memory has no name in any folder. Others open it through this process (`/proc/PID/fd/N`), and it is gone when the
last of them is, however that ends.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

_ALIGNED = 64


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where a tensor lies."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int

    def view(self, memory: mmap.mmap) -> Tensor:
        count = 1
        for length in self.shape:
            count *= length
        if not count:
            return torch.empty(self.shape, dtype=self.dtype)
        return torch.frombuffer(memory, dtype=self.dtype, count=count, offset=self.start).view(self.shape)


@dataclass(frozen=True, slots=True)
class LocalOpener:
    pid: int
    descriptor: int
    size: int
    entries: Mapping[str, _Entry]

    def open(self) -> dict[str, Tensor]:
        """As they are right now: whoever reads them says when it has, and before that nobody writes."""
        there = os.open(f"/proc/{self.pid}/fd/{self.descriptor}", os.O_RDONLY)
        try:
            memory = mmap.mmap(there, self.size, flags=mmap.MAP_PRIVATE)
        finally:
            os.close(there)
        return {name: entry.view(memory) for name, entry in self.entries.items()}


class LocalShared:
    def __init__(self) -> None:
        self._descriptor = os.memfd_create("holotron-shared")
        self._memory: mmap.mmap | None = None
        self._size = 0

    def write(self, tensors: Mapping[str, Tensor]) -> LocalOpener:
        entries, size = {}, 0
        for name, tensor in tensors.items():
            entries[name] = _Entry(tensor.dtype, tuple(tensor.shape), size)
            size += -(-tensor.numel() * tensor.element_size() // _ALIGNED) * _ALIGNED
        if self._memory is None or size != self._size:
            os.ftruncate(self._descriptor, max(size, 1))
            self._memory, self._size = mmap.mmap(self._descriptor, max(size, 1)), size
        for name, entry in entries.items():
            entry.view(self._memory).copy_(tensors[name])
        return LocalOpener(os.getpid(), self._descriptor, max(size, 1), entries)

    def close(self) -> None:
        self._memory = None
        os.close(self._descriptor)
