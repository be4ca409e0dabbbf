"""Grouped-query attention over packed sequences with paged keys and values."""

from __future__ import annotations

from torch import Tensor

from holotron.kernels.attention import packed, reference
from holotron.kernels.dispatch import train_with_triton, use_triton
from holotron.kernels.layout import Layout

__all__ = ["attend"]


def attend(
    q_THD: Tensor,
    k_TKD: Tensor,
    v_TKD: Tensor,
    cache: tuple[Tensor, Tensor] | None,
    layout: Layout,
    scale: float,
) -> Tensor:
    """Store the new keys and values, then let every token see all earlier tokens of its own sequence and itself."""
    if cache is not None and use_triton(q_THD, k_TKD, v_TKD):
        from holotron.kernels.attention import triton

        if triton.supported(q_THD, cache[0]):
            return triton.attend(q_THD, k_TKD, v_TKD, cache, layout, scale)
    if cache is None and train_with_triton(q_THD, k_TKD, v_TKD) and packed.supported(q_THD):
        return packed.attend(q_THD, k_TKD, v_TKD, layout, scale)
    return reference.attend(q_THD, k_TKD, v_TKD, cache, layout, scale)
