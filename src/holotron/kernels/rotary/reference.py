"""Head norms and rotary positions in torch.

Every pair of dimensions turns by the position of its token divided by a period of its own. With M-RoPE a token has
three positions, in time, row and column, and the pairs take them in turn (`Rotation.axes`): 0 1 2 0 1 2 ..., until the
shares of rows and columns are used up; the rest turns with time. Text has the same position three times.

Legend: T tokens, H query heads, K key heads, D head dim.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from holotron.kernels.norm.reference import rms_norm


class Rotation(NamedTuple):
    """How heads are rotated."""

    theta: float
    dim: int | None = None  # only the first so many dimensions; None: all
    sections: tuple[int, int, int] | None = None  # M-RoPE: how many pairs turn with time, row and column

    def axes(self, pairs: int) -> list[int]:
        """Which of the three positions turns each pair."""
        _, rows, columns = self.sections or (pairs, 0, 0)
        return [1 if i % 3 == 1 and i < 3 * rows else 2 if i % 3 == 2 and i < 3 * columns else 0 for i in range(pairs)]


def periods(dim: int, theta: float, device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    """theta^(2i/dim) for i < dim/2: a position divided by this is an angle."""
    return theta ** (torch.arange(0, dim, 2, device=device, dtype=dtype) / dim)


@functools.lru_cache(maxsize=16)
def _axes(rotation: Rotation, pairs: int, device: torch.device) -> Tensor:
    """Made once: a captured graph cannot copy from the host."""
    with torch.inference_mode(False):
        return torch.tensor(rotation.axes(pairs), device=device)


def rotate(
    q_THD: Tensor, k_TKD: Tensor, positions_T: Tensor, rotation: Rotation, shift_3T: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Rotary positions, half-split convention, angles in fp32 (float64 for a float64 model). `shift_3T`: how far a
    token's time, row and column are from its index in the sequence; None: not at all."""
    dtype, dim = torch.promote_types(q_THD.dtype, torch.float32), rotation.dim or q_THD.shape[-1]
    place_Ti = positions_T[:, None]
    if shift_3T is not None:
        place_Ti = place_Ti + shift_3T.index_select(0, _axes(rotation, dim // 2, shift_3T.device)).T
    angle = place_Ti.to(dtype) / periods(dim, rotation.theta, q_THD.device, dtype)
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
    rotation: Rotation,
    shift_3T: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Norm every head, then rotate it by its token's position."""
    q, k = rms_norm(q_THD, q_weight_D, eps), rms_norm(k_TKD, k_weight_D, eps)
    return rotate(q, k, positions_T, rotation, shift_3T)
