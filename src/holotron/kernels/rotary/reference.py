"""Head norms and rotary positions in torch.

Legend: T tokens, H query heads, K key heads, D head dim.
"""

from __future__ import annotations

import torch
from torch import Tensor

from holotron.kernels.norm.reference import rms_norm


def periods(dim: int, theta: float, device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    """theta^(2i/dim) for i < dim/2: a position divided by this is an angle."""
    return theta ** (torch.arange(0, dim, 2, device=device, dtype=dtype) / dim)


def rotate(
    q_THD: Tensor, k_TKD: Tensor, positions_T: Tensor, theta: float, dim: int | None = None
) -> tuple[Tensor, Tensor]:
    """Rotary positions, half-split convention, angles in fp32 (float64 for a float64 model). Only the first `dim`
    dimensions of a head are rotated, or all."""
    dtype, dim = torch.promote_types(q_THD.dtype, torch.float32), dim or q_THD.shape[-1]
    angle = positions_T.to(dtype)[:, None] / periods(dim, theta, q_THD.device, dtype)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]

    def turn(t: Tensor) -> Tensor:
        first, second = t[..., :dim].to(dtype).chunk(2, dim=-1)
        turned = [first * cos - second * sin, second * cos + first * sin]
        return torch.cat([part.to(t.dtype) for part in turned] + [t[..., dim:]], dim=-1)

    return turn(q_THD), turn(k_TKD)


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
    """Norm every head, then rotate it by its token's position."""
    return rotate(rms_norm(q_THD, q_weight_D, eps), rms_norm(k_TKD, k_weight_D, eps), positions_T, theta, dim)
