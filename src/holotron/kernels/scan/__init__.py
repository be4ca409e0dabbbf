"""The Mamba-2 state-space scan over packed sequences: recurrent for single tokens, chunked matrix form for prompts."""

from __future__ import annotations

from torch import Tensor

from holotron.kernels.dispatch import use_triton
from holotron.kernels.layout import Layout
from holotron.kernels.scan import reference

__all__ = ["state_space_scan"]


def state_space_scan(
    x_THP: Tensor,
    dt_TH: Tensor,
    dt_bias_H: Tensor,
    A_H: Tensor,
    B_TGN: Tensor,
    C_TGN: Tensor,
    D_H: Tensor,
    state_RHPN: Tensor | None,
    layout: Layout,
    chunk: int = 128,
) -> Tensor:
    """S <- exp(dt A) S + dt x B^T and y = S C + D x for every token, continuing from and updating the rows of
    `state_RHPN`. `dt` is raw; softplus(dt + dt_bias) happens inside. `chunk` only concerns the reference."""
    if use_triton(x_THP, dt_TH, A_H, D_H):
        from holotron.kernels.scan import triton

        if triton.supported(x_THP, B_TGN):
            return triton.state_space_scan(
                x_THP, dt_TH, dt_bias_H, A_H, B_TGN, C_TGN, D_H, state_RHPN, layout
            )
    return reference.state_space_scan(
        x_THP, dt_TH, dt_bias_H, A_H, B_TGN, C_TGN, D_H, state_RHPN, layout, chunk
    )
