"""The likeliest token of every row of logits, and how likely it is."""

from __future__ import annotations

from torch import Tensor

from holotron.kernels.choice import reference
from holotron.kernels.dispatch import use_triton

__all__ = ["likeliest"]


def likeliest(logits_BV: Tensor, never_V: Tensor | None = None) -> Tensor:
    """[2, B] in float64, which holds a token id exactly: the id of the largest logit of each row (the first of equals),
    and the logarithm of its share in the softmax of the whole row. `never_V` (bool) tells ids that are not to be
    chosen. A row that is not a number has an id all the same, and a logarithm that is none."""
    if use_triton(logits_BV):
        from holotron.kernels.choice import triton

        return triton.likeliest(logits_BV, never_V)
    return reference.likeliest(logits_BV, never_V)
