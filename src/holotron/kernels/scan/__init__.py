"""The Mamba-2 state-space scan over packed sequences: recurrent for single tokens, chunked matrix form for prompts."""

from __future__ import annotations

from torch import Tensor

from holotron.kernels.dispatch import train_with_triton, use_cpu, use_triton
from holotron.kernels.layout import Layout
from holotron.kernels.scan import cpu, reference, replay
from holotron.kernels.scan.replay import Replay, Ring

__all__ = ["Replay", "Ring", "flush", "state_space_scan"]


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
    ring: Ring | None = None,
) -> Tensor:
    """S <- exp(dt A) S + dt x B^T and y = S C + D x for every token, continuing from and updating the rows of
    `state_RHPN`. `dt` is raw; softplus(dt + dt_bias) happens inside. `chunk` only concerns the reference.
    With a `ring`, decodes mostly leave the state as it is (see `replay`); prompts need rows that have been flushed."""
    if use_triton(x_THP, dt_TH, A_H, D_H):
        from holotron.kernels.scan import triton

        if triton.supported(B_TGN.shape[-1]):
            return triton.state_space_scan(x_THP, dt_TH, dt_bias_H, A_H, B_TGN, C_TGN, D_H, state_RHPN, layout, ring)
    if state_RHPN is None and train_with_triton(x_THP, dt_TH, B_TGN, C_TGN, A_H, D_H):
        from holotron.kernels.scan import triton_backward

        if triton_backward.supported(B_TGN.shape[-1]):
            return triton_backward.Scan.apply(x_THP, dt_TH, dt_bias_H, A_H, B_TGN, C_TGN, D_H, layout)
    if ring is None and state_RHPN is not None and use_cpu(state_RHPN, x_THP, dt_TH, dt_bias_H, A_H, D_H):
        return cpu.state_space_scan(x_THP, dt_TH, dt_bias_H, A_H, B_TGN, C_TGN, D_H, state_RHPN, layout)
    return reference.state_space_scan(x_THP, dt_TH, dt_bias_H, A_H, B_TGN, C_TGN, D_H, state_RHPN, layout, chunk, ring)


def flush(state_RLHPN: Tensor, rings: Replay, rows_S: Tensor) -> None:
    """Bring the states of some rows up to date in all layers and empty their rings: before a prompt, a copy, a swap."""
    if use_triton(state_RLHPN):
        from holotron.kernels.scan import triton_replay

        triton_replay.flush(state_RLHPN, rings, rows_S)
    else:
        replay.flush(state_RLHPN, rings, rows_S)
