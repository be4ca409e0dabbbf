"""Causal depthwise convolution + SiLU over packed sequences, with a memory of the last K-1 inputs per sequence."""

from __future__ import annotations

from torch import Tensor

from holotron.kernels.conv import reference
from holotron.kernels.dispatch import train_with_triton, use_triton
from holotron.kernels.layout import Layout

__all__ = ["causal_conv"]


def causal_conv(
    x_TC: Tensor, weight_CK: Tensor, bias_C: Tensor | None, state_RKC: Tensor | None, layout: Layout
) -> Tensor:
    """silu(bias + sum_k weight[k] * x[t-K+1+k]), continuing from and updating each sequence's row of `state_RKC`."""
    if use_triton(x_TC, weight_CK):
        from holotron.kernels.conv import triton

        if triton.supported(weight_CK):
            return triton.causal_conv(x_TC, weight_CK, bias_C, state_RKC, layout)
    if state_RKC is None and train_with_triton(x_TC, weight_CK):
        from holotron.kernels.conv import triton_backward

        if triton_backward.supported(weight_CK):
            return triton_backward.Conv.apply(x_TC, weight_CK, bias_C, layout)
    return reference.causal_conv(x_TC, weight_CK, bias_C, state_RKC, layout)
