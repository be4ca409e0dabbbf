"""RMS norms on a CPU, for inference: torch's own makes eight passes (and calls) of it, these make three."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def rms_norm(x: Tensor, weight_D: Tensor | None, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) = x sqrt(D) / hypot(|x|, sqrt(D eps))."""
    width = x.shape[-1]
    size = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    scale = torch.hypot(size, size.new_tensor((width * eps) ** 0.5)).reciprocal_().mul_(width**0.5)
    normed = x * scale
    return normed if weight_D is None else normed.mul_(weight_D)


def gated_rms_norm(y_TD: Tensor, gate_TD: Tensor, weight_D: Tensor, groups: int, eps: float) -> Tensor:
    gated = F.silu(gate_TD).mul_(y_TD)
    if groups == 1:
        return rms_norm(gated, weight_D, eps)
    return rms_norm(gated.view(-1, groups, gated.shape[-1] // groups), None, eps).view(gated.shape).mul_(weight_D)
