"""Head norms and rotary positions, for the transformers that the hybrid is compared with."""

from __future__ import annotations

from torch import Tensor

from holotron.kernels.dispatch import use_triton
from holotron.kernels.rotary import reference
from holotron.kernels.rotary.reference import rotate

__all__ = ["norm_and_rotate", "rotate"]


def norm_and_rotate(
    q_THD: Tensor,
    k_TKD: Tensor,
    q_weight_D: Tensor,
    k_weight_D: Tensor,
    eps: float,
    positions_T: Tensor,
    theta: float,
    dim: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Norm every head, then rotate it (or its first `dim` dimensions) by its token's position."""
    if use_triton(q_THD, k_TKD, q_weight_D, k_weight_D):
        from holotron.kernels.rotary import triton

        if triton.supported(q_THD, dim):
            return triton.norm_and_rotate(q_THD, k_TKD, q_weight_D, k_weight_D, eps, positions_T, theta, dim)
    return reference.norm_and_rotate(q_THD, k_TKD, q_weight_D, k_weight_D, eps, positions_T, theta, dim)
