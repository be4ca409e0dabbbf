"""Attention over packed sequences for training on a GPU, and over packed parts of tiles: PyTorch's own FlashAttention,
told where sequences begin.

Its public entry (`torch.nn.attention.varlen`) knows grouped heads only in the newest versions; the operator underneath
has taken them, and has had its gradient, all along.
"""

from __future__ import annotations

import torch
from torch import Tensor

from holotron.kernels.layout import Layout


def supported(q_THD: Tensor) -> bool:
    return q_THD.element_size() == 2 and q_THD.shape[-1] <= 256 and q_THD.shape[-1] % 8 == 0


def attend(q_THD: Tensor, k_TKD: Tensor, v_TKD: Tensor, layout: Layout, scale: float) -> Tensor:
    starts, longest = layout.starts_S1, max(layout.lengths)
    return torch.ops.aten._flash_attention_forward(
        q_THD, k_TKD, v_TKD, starts, starts, longest, longest, 0.0, True, False, scale=scale
    )[0]


def attend_looks(qkv_TC: Tensor, heads: int, starts_S1: Tensor, longest: int) -> Tensor:
    q_THD, k_THD, v_THD = qkv_TC.unflatten(-1, (3, heads, -1)).unbind(1)
    out = torch.ops.aten._flash_attention_forward(
        q_THD, k_THD, v_THD, starts_S1, starts_S1, longest, longest, 0.0, False, False
    )[0]
    return out.flatten(1)
