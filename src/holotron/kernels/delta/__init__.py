"""The gated delta rule of Gated DeltaNet over packed sequences: recurrent for single tokens, chunked matrix form for
prompts.

    y_THV = gated_delta_rule(q_TGK, k_TGK, v_THV, a_TH, dt_bias_H, A_H, b_TH, state_RHVK, layout)
"""

from __future__ import annotations

from torch import Tensor

from holotron.kernels.delta import reference
from holotron.kernels.dispatch import train_with_triton, use_triton
from holotron.kernels.layout import Layout

__all__ = ["gated_delta_rule"]


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
    chunk: int = 64,
) -> Tensor:
    """S <- exp(g) S, then S <- S + beta (v - S k) k^T and y = S q for every token, continuing from and updating the
    rows of `state_RHVK`. Everything is raw: g = A softplus(a + dt_bias), beta = sigmoid(b), and the lengths of queries
    and keys are taken inside. `chunk` only concerns the reference."""
    # Without matrix instructions the kernels for prompts are slow, and take minutes to compile.
    matrices = v_THV.element_size() == 2
    if (matrices or not layout.num_prefills) and use_triton(q_TGK, k_TGK, v_THV, a_TH, A_H, b_TH):
        from holotron.kernels.delta import triton

        if triton.supported(k_TGK.shape[-1], v_THV.shape[-1]):
            return triton.gated_delta_rule(q_TGK, k_TGK, v_THV, a_TH, dt_bias_H, A_H, b_TH, state_RHVK, layout)
    if matrices and state_RHVK is None and train_with_triton(q_TGK, k_TGK, v_THV, a_TH, A_H, b_TH):
        from holotron.kernels.delta import triton_backward

        if triton_backward.supported(k_TGK.shape[-1], v_THV.shape[-1]):
            return triton_backward.Delta.apply(q_TGK, k_TGK, v_THV, a_TH, dt_bias_H, A_H, b_TH, layout)
    return reference.gated_delta_rule(q_TGK, k_TGK, v_THV, a_TH, dt_bias_H, A_H, b_TH, state_RHVK, layout, chunk)
