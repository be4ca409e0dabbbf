"""The scan in Triton: decodes and prompts of a batch each have their own kernel and write into one output."""

import torch
from torch import Tensor

from holotron.kernels.layout import Layout
from holotron.kernels.scan import triton_replay
from holotron.kernels.scan.replay import Ring
from holotron.kernels.scan.triton_decode import step_tokens
from holotron.kernels.scan.triton_prefill import scan_prompts, supported

__all__ = ["state_space_scan", "supported"]


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
    ring: Ring | None = None,
) -> Tensor:
    y_THP = torch.empty(x_THP.shape, dtype=x_THP.dtype, device=x_THP.device)
    if layout.num_decodes:
        assert state_RHPN is not None, "a decode needs a state"
        if ring is None:
            step_tokens(x_THP, dt_TH, dt_bias_H, A_H, B_TGN, C_TGN, D_H, state_RHPN, y_THP, layout)
        else:
            triton_replay.step_tokens(x_THP, dt_TH, dt_bias_H, A_H, B_TGN, C_TGN, D_H, state_RHPN, ring, y_THP, layout)
    if layout.num_prefills:
        scan_prompts(x_THP, dt_TH, dt_bias_H, A_H, B_TGN, C_TGN, D_H, state_RHPN, y_THP, layout)
    return y_THP
