"""Head norms and rotary positions, of one number per token or (pictures, in M-RoPE) of three: time, row, column."""

from __future__ import annotations

from torch import Tensor

from holotron.kernels.dispatch import use_triton
from holotron.kernels.rotary import reference
from holotron.kernels.rotary.reference import Rotation, rotate

__all__ = ["Rotation", "norm_and_rotate", "rotate"]


def norm_and_rotate(
    q_THD: Tensor,
    k_TKD: Tensor,
    q_weight_D: Tensor,
    k_weight_D: Tensor,
    eps: float,
    positions_T: Tensor,
    rotation: Rotation,
    shift_3T: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Norm every head, then rotate it by its token's position; see `reference.rotate`."""
    if use_triton(q_THD, k_TKD, q_weight_D, k_weight_D):
        from holotron.kernels.rotary import triton

        if triton.supported(q_THD, rotation):
            return triton.norm_and_rotate(q_THD, k_TKD, q_weight_D, k_weight_D, eps, positions_T, rotation, shift_3T)
    return reference.norm_and_rotate(q_THD, k_TKD, q_weight_D, k_weight_D, eps, positions_T, rotation, shift_3T)
