"""Grouped-query attention over packed sequences with paged keys and values, and the vision tower's inside a tile."""

from __future__ import annotations

from torch import Tensor

from holotron.kernels.attention import packed, reference
from holotron.kernels.dispatch import train_with_triton, use_triton
from holotron.kernels.layout import Layout

__all__ = ["attend", "attend_looks", "attend_tiles"]


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


def attend_tiles(qkv_nLC: Tensor, heads: int) -> Tensor:
    """Every token of a tile sees the whole tile: queries, keys and values beside each other, [n, L, 3 * heads * D], to
    [n, L, heads * D]."""
    if use_triton(qkv_nLC):
        from holotron.kernels.attention import triton_tiles

        return triton_tiles.attend_tiles(qkv_nLC, heads)
    return reference.attend_tiles(qkv_nLC, heads)


def attend_looks(qkv_TC: Tensor, heads: int, starts_S1: Tensor, lengths: tuple[int, ...], longest: int) -> Tensor:
    """The same for tiles of which only a part is read, packed one after the other, [T, 3 * heads * D] to [T, heads *
    D]. `longest`: no look has more tokens."""
    if qkv_TC.is_cuda and packed.supported(qkv_TC.unflatten(-1, (3, heads, -1))):
        return packed.attend_looks(qkv_TC, heads, starts_S1, longest)
    return reference.attend_looks(qkv_TC, heads, lengths)
