"""Head norms and rotary positions in torch.

Legend: T tokens, H query heads, K key heads, D head dim.
"""

from __future__ import annotations

import torch
from torch import Tensor

from holotron.kernels.norm.reference import rms_norm


def periods(dim: int, theta: float, device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    """theta^(2i/D) for i < D/2: a position divided by this is an angle."""
    return theta ** (torch.arange(0, dim, 2, device=device, dtype=dtype) / dim)


def rotate(q_THD: Tensor, k_TKD: Tensor, positions_T: Tensor, theta: float) -> tuple[Tensor, Tensor]:
    """Rotary positions, half-split convention, angles in fp32 (float64 for a float64 model)."""
    dtype = torch.promote_types(q_THD.dtype, torch.float32)
    angle = positions_T.to(dtype)[:, None] / periods(q_THD.shape[-1], theta, q_THD.device, dtype)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]

    def turn(t: Tensor) -> Tensor:
        first, second = t.to(dtype).chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(t.dtype)

    return turn(q_THD), turn(k_TKD)


def norm_and_rotate(
    q_THD: Tensor, k_TKD: Tensor, q_weight_D: Tensor, k_weight_D: Tensor, eps: float, positions_T: Tensor, theta: float
) -> tuple[Tensor, Tensor]:
    """Norm every head, then rotate it by its token's position."""
    return rotate(rms_norm(q_THD, q_weight_D, eps), rms_norm(k_TKD, k_weight_D, eps), positions_T, theta)
