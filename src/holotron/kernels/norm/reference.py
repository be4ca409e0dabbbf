"""RMS norms in torch.

Legend: T tokens, H heads, D width, G groups.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from holotron.kernels.linear.reference import Quantized, quantize


def _at_least_fp32(x: Tensor) -> Tensor:
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def rms_norm(x_TD: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    """x / rms(x) * weight. Statistics and the product with the weight in fp32, one rounding at the end."""
    return _normed(x_TD, weight_D, eps).to(x_TD.dtype)


def add_rms_norm(
    x_TD: Tensor, residual_TD: Tensor | None, weight_D: Tensor, eps: float, quantized: bool = False
) -> tuple[Tensor | Quantized, Tensor]:
    """The step from one layer to the next: add the last mixer's output to the residual stream (rounded to its dtype),
    then norm. Returns both; `quantized` gives the normed half ready for an 8-bit product."""
    total = x_TD if residual_TD is None else x_TD + residual_TD
    normed = _normed(total, weight_D, eps)
    return (quantize(normed) if quantized else normed.to(total.dtype)), total


def gated_rms_norm(
    y_TD: Tensor, gate_TD: Tensor, weight_D: Tensor, groups: int, eps: float, quantized: bool = False
) -> Tensor | Quantized:
    """Gate first, then normalise each of `groups` slices of the channels on its own."""
    y = _at_least_fp32(y_TD) * F.silu(_at_least_fp32(gate_TD))
    grouped = y.unflatten(-1, (groups, -1))
    normed = F.rms_norm(grouped, grouped.shape[-1:], None, eps).flatten(-2) * _at_least_fp32(weight_D)
    return quantize(normed) if quantized else normed.to(gate_TD.dtype)


def rms_norm_gated(y_THD: Tensor, gate_THD: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    """The other order, as Gated DeltaNet has it: normalise over the last dimension, then gate."""
    return (_normed(y_THD, weight_D, eps) * F.silu(_at_least_fp32(gate_THD))).to(gate_THD.dtype)


def add_layer_norm(
    x: Tensor, residual: Tensor | None, weight_D: Tensor, bias_D: Tensor, eps: float, quantized: bool = False
) -> tuple[Tensor | Quantized, Tensor]:
    """Like `add_rms_norm`, with the mean taken off as well and a bias added."""
    total = x if residual is None else x + residual
    if quantized:
        return quantize(F.layer_norm(total.float(), total.shape[-1:], weight_D.float(), bias_D.float(), eps)), total
    return F.layer_norm(total, total.shape[-1:], weight_D, bias_D, eps), total


def _normed(x_TD: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    x = _at_least_fp32(x_TD)
    return F.rms_norm(x, x.shape[-1:], _at_least_fp32(weight_D), eps)
