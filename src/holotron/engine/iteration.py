"""An iteration in flight: what the device computes and what will be done with it when it is there."""

from __future__ import annotations

from itertools import count

import numpy as np
import torch
from torch import Tensor

from holotron.engine.pieces import Piece, Repeat
from holotron.engine.sampler import Draw, Sampled
from holotron.engine.sequence import Request
from holotron.kernels.layout import upload


class Iteration:
    def __init__(self, pieces: list[Piece], version: int, repeat: Repeat | None = None) -> None:
        self.pieces = pieces
        self.repeat = repeat  # it is this once more
        self.version = version  # of the weights
        self.hidden_SD: Tensor | None = None  # final vectors of the pieces; valid until the next iteration is launched
        self.due: list[tuple[Request, int]] = []  # to be sampled for, from this vector; -1: from what is remembered
        self.sampled: list[Request] = []  # for whom tokens were drawn: one, or one for each guess and one more
        self.draw: Draw | None = None
        self._event: torch.cuda.Event | None = None

    def vector(self, n: int) -> Tensor:
        """A copy of the n-th piece's final vector: a view would not last, and keep the whole batch alive."""
        assert self.hidden_SD is not None
        return self.hidden_SD[n].clone()

    def vector_of(self, request: Request) -> Tensor:
        return self.vector(next(n for other, n in self.due if other is request))

    def vectors(self, wanted: list[tuple[Request, int]]) -> Tensor:
        """What to sample from, [B, D]."""
        remembered = [_remembered(request) for request, n in wanted if n < 0]
        parts = [torch.stack(remembered)] if remembered else []
        if self.hidden_SD is not None:
            parts.insert(0, self.hidden_SD)
        vectors = torch.cat(parts) if len(parts) > 1 else parts[0]
        after = count(len(vectors) - len(remembered))
        rows = [n if n >= 0 else next(after) for _, n in wanted]
        if rows == list(range(len(vectors))):
            return vectors
        return vectors[upload([np.array(rows)], vectors.device)[0]]

    def launched(self) -> None:
        """All that belongs to it has been given to the device."""
        if self.draw is None and self.hidden_SD is not None and self.hidden_SD.is_cuda:
            self._event = torch.cuda.Event()
            self._event.record()

    def read(self) -> Sampled | None:
        """Wait for the end, so that the host is never more than one iteration ahead."""
        if self.draw is not None:
            return self.draw.read()
        if self._event is not None:
            self._event.synchronize()
        return None


def _remembered(request: Request) -> Tensor:
    hidden = request.sequence.memory.hidden
    assert hidden is not None, "a sequence has nothing to compute and nothing to sample from"
    return hidden
