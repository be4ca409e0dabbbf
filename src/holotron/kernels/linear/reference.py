"""Matrix products with 16-bit or 8-bit operands, in torch.

An 8-bit operand is a matrix of e4m3 floats with one scale per row. Activations are scaled row by row as they come
(one scale per token), weights once when they are loaded (one scale per output channel); so the scales factor out of the
product and the inner loop runs on plain 8-bit numbers:  y[t, o] = scale_x[t] * scale_w[o] * sum_i x8[t, i] w8[o, i].

Legend: T tokens, I inputs, O outputs.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

FP8 = torch.float8_e4m3fn
FP8_MAX = 448.0
SMALLEST = 1e-12  # the largest magnitude a row is assumed to have at least, so that a row of zeros has a scale


class Quantized(NamedTuple):
    values: Tensor  # e4m3, [..., rows, columns]
    scale: Tensor  # fp32, [..., rows, 1]: what the values are multiplied by

    @property
    def shape(self) -> torch.Size:
        return self.values.shape

    def dequantize(self) -> Tensor:
        return self.values.float() * self.scale


def quantize(x: Tensor) -> Quantized:
    """Each row is scaled so that its largest magnitude becomes the largest e4m3 number."""
    x = x.float()
    scale = x.abs().amax(-1, keepdim=True).clamp_min(SMALLEST) / FP8_MAX
    return Quantized((x / scale).clamp(-FP8_MAX, FP8_MAX).to(FP8), scale)


def linear(x: Tensor | Quantized, weight_OI: Tensor | Quantized, bias_O: Tensor | None = None) -> Tensor:
    """x W^T + b. With an 8-bit weight the activations are quantised as well, unless they already are, and the result is
    bf16 (accumulated in fp32)."""
    if isinstance(weight_OI, Tensor):
        assert isinstance(x, Tensor), "8-bit activations need an 8-bit weight"
        return F.linear(x, weight_OI, bias_O)
    narrow = quantize(x) if isinstance(x, Tensor) else x
    bias = bias_O.float() if bias_O is not None else None
    return F.linear(narrow.dequantize(), weight_OI.dequantize(), bias).to(torch.bfloat16)


def relu2(x_TI: Tensor, quantized: bool = False) -> Tensor | Quantized:
    """The squared ReLU between the two products of an MLP."""
    if quantized:
        return quantize(F.relu(x_TI.float()).square())
    return F.relu(x_TI).square()


def gelu_quantized(x: Tensor) -> Quantized:
    return quantize(F.gelu(x.float()))


def linear_gelu(x: Tensor, weight_OI: Tensor, bias_O: Tensor) -> Tensor:
    return F.gelu(F.linear(x, weight_OI, bias_O))
