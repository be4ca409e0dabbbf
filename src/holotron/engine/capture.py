"""Recording what the device is told to do, to tell it again in one call: CUDA graphs.

A graph is a recording of kernels and the addresses they read. Whoever wants to replay one keeps its inputs at fixed
addresses and writes new contents there. The first time a computation is wanted it runs kernel by kernel, which compiles
and loads whatever is missing; the second time it is captured. Capturing computes nothing, so no state is moved on
twice. All graphs of one recorder share a pool of memory: they never run at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor


class Replayed(Protocol):
    def replay(self) -> None: ...


Capture = tuple[Replayed, Tensor]  # and what it writes


class Recorder:
    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)

    def capture(self, compute: Callable[[], Tensor]) -> Capture:
        # `torch.cuda.graph` would also collect garbage and empty the allocator's cache, which takes longer than this.
        graph = torch.cuda.CUDAGraph()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                out = compute()
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(self._stream)
        return graph, out

    def clear(self) -> None:
        """All that was captured is about to be dropped: wait for what may be running, and begin a new pool (the old one
        is gone with the last graph in it)."""
        torch.cuda.synchronize(self._device)
        self._pool = torch.cuda.graph_pool_handle()


class Captured:
    """A computation that is captured the second time it is wanted (`seen`: the first time), and replayed from then
    on."""

    def __init__(self, compute: Callable[[], Tensor], recorder: Recorder, *, seen: bool = False) -> None:
        self._compute = compute
        self._recorder = recorder
        self._seen = seen
        self.capture: Capture | None = None

    def __call__(self) -> Tensor:
        if self.capture is None:
            if not self._seen:
                self._seen = True
                return self._compute()
            self.capture = self._recorder.capture(self._compute)
        graph, out = self.capture
        graph.replay()
        return out
