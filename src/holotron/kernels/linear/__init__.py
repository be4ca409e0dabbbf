"""Matrix products with 16-bit or 8-bit weights, and the squared ReLU or GELU between two of them."""

from __future__ import annotations

import torch
from torch import Tensor

from holotron.errors import ConfigError
from holotron.kernels.dispatch import has_fp8, train_with_triton, use_triton
from holotron.kernels.linear import reference
from holotron.kernels.linear.reference import Quantized

__all__ = ["Quantized", "gelu_quantized", "linear", "linear_gelu", "quantize", "relu2", "supports_fp8"]


def supports_fp8(device: torch.device | str) -> bool:
    """Whether 8-bit products make sense here: fast on a GPU that has them, emulated (for tests) on a CPU."""
    device = torch.device(device)
    return device.type == "cpu" or has_fp8(device)


def quantize(x: Tensor) -> Quantized:
    """e4m3 values with one scale per row (per token, or per output channel of a weight)."""
    if not supports_fp8(x.device):
        raise ConfigError(f"{torch.cuda.get_device_name(x.device)} has no 8-bit floats; use bf16 weights instead")
    if use_triton(x):
        from holotron.kernels.linear import triton

        return triton.quantize(x)
    return reference.quantize(x)


def linear(x: Tensor | Quantized, weight_OI: Tensor | Quantized, bias_O: Tensor | None = None) -> Tensor:
    """x W^T + b; with an 8-bit weight the activations are quantised row by row, unless they already are."""
    if isinstance(weight_OI, Quantized) and use_triton(weight_OI.values):
        from holotron.kernels.linear import triton

        return triton.linear(x, weight_OI, bias_O)
    return reference.linear(x, weight_OI, bias_O)


def relu2(x_TI: Tensor, quantized: bool = False) -> Tensor | Quantized:
    """max(x, 0)^2, optionally quantised for the product that follows."""
    if use_triton(x_TI):
        from holotron.kernels.linear import triton

        return triton.relu2(x_TI, quantized)
    if not quantized and train_with_triton(x_TI):
        from holotron.kernels.linear import triton

        return triton.ReLU2.apply(x_TI)
    return reference.relu2(x_TI, quantized)


def gelu_quantized(x: Tensor) -> Quantized:
    """gelu(x), quantised for the product that follows."""
    if use_triton(x):
        from holotron.kernels.linear import triton

        return triton.gelu_quantized(x)
    return reference.gelu_quantized(x)


def linear_gelu(x: Tensor, weight_OI: Tensor, bias_O: Tensor) -> Tensor:
    """gelu(x W^T + b)."""
    if x.element_size() == 2 and use_triton(x, weight_OI, bias_O):
        from holotron.kernels.linear import triton

        return triton.linear_gelu(x, weight_OI, bias_O)
    return reference.linear_gelu(x, weight_OI, bias_O)
