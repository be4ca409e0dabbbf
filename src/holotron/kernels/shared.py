"""Beginnings that sequences of a batch have in common."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor


class Shared(NamedTuple):
    """Sequences that begin alike, in training: what they have in common is one row of the batch instead of many. Layers
    compute token by token on the U different ones, and only where tokens meet (convolution, scan, attention) every
    sequence has all of its own."""

    spread_T: Tensor  # which of the U each token of the sequences is
    first_U: Tensor  # where each of the U is met first

    def spread(self, x_U: Tensor) -> Tensor:
        return _Spread.apply(x_U, self.spread_T)

    def gather(self, x_T: Tensor) -> Tensor:
        """Copies of a token are alike, so the first will do."""
        return x_T.index_select(0, self.first_U)


class _Spread(torch.autograd.Function):
    """`index_select` whose gradient is summed in fp32: in 16 bits a sum over the members of a group would lose digits
    that a product over all of their tokens keeps."""

    @staticmethod
    def forward(ctx: Any, x_U: Tensor, spread_T: Tensor) -> Tensor:
        ctx.save_for_backward(spread_T)
        ctx.rows = len(x_U)
        return x_U.index_select(0, spread_T)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,), (spread_T,) = gradients, ctx.saved_tensors
        wide = torch.promote_types(gradient.dtype, torch.float32)
        total = gradient.new_zeros((ctx.rows, *gradient.shape[1:]), dtype=wide)
        return total.index_add_(0, spread_T, gradient.to(wide)).to(gradient.dtype), None
