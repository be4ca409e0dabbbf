"""The gated delta rule in Triton: decodes and prompts of a batch have their own kernels and write into one output."""

import torch
from torch import Tensor

from holotron.kernels.delta.triton_decode import step_tokens
from holotron.kernels.delta.triton_prefill import supported, walk
from holotron.kernels.delta.triton_prepare import Prepared
from holotron.kernels.layout import Layout

__all__ = ["gated_delta_rule", "supported"]


def gated_delta_rule(
    q_TGK: Tensor,
    k_TGK: Tensor,
    v_THV: Tensor,
    a_TH: Tensor,
    dt_bias_H: Tensor,
    A_H: Tensor,
    b_TH: Tensor,
    state_RHVK: Tensor | None,
    layout: Layout,
) -> Tensor:
    y_THV = torch.empty(v_THV.shape, dtype=v_THV.dtype, device=v_THV.device)
    if layout.num_decodes:
        assert state_RHVK is not None, "a decode needs a state"
        step_tokens(q_TGK, k_TGK, v_THV, a_TH, dt_bias_H, A_H, b_TH, state_RHVK, y_THV, layout)
    if layout.num_prefills:
        prepared = Prepared(q_TGK, k_TGK, a_TH, dt_bias_H, A_H, b_TH, layout)
        walk(q_TGK, k_TGK, v_THV, prepared, state_RHVK, y_THV, layout)
    return y_THV
