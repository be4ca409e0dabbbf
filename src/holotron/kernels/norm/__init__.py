"""Root-mean-square norms: plain, fused with the residual sum, gated over groups as Mamba-2 wants it, and gated by head
as Gated DeltaNet does. And the vision tower's LayerNorm, fused with the residual sum."""

from __future__ import annotations

from torch import Tensor

from holotron.kernels.dispatch import train_with_triton, use_cpu, use_triton
from holotron.kernels.linear.reference import Quantized
from holotron.kernels.norm import cpu, reference

__all__ = ["add_layer_norm", "add_rms_norm", "gated_rms_norm", "rms_norm", "rms_norm_gated"]


def rms_norm(x: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    """x / rms(x) * weight over the last dimension."""
    if use_triton(x, weight_D):
        from holotron.kernels.norm import triton

        return triton.rms_norm(x, weight_D, eps)
    if train_with_triton(x, weight_D):
        from holotron.kernels.norm import triton_backward

        flat = x.reshape(-1, x.shape[-1])
        return triton_backward.AddRMSNorm.apply(flat, None, weight_D, eps)[0].view(x.shape)
    return (cpu if use_cpu(x, weight_D) else reference).rms_norm(x, weight_D, eps)


def add_rms_norm(
    x_TD: Tensor, residual_TD: Tensor | None, weight_D: Tensor, eps: float, quantized: bool = False
) -> tuple[Tensor | Quantized, Tensor]:
    """(norm(x + residual), x + residual). Without a residual yet, x starts the stream."""
    if use_triton(x_TD, weight_D):
        from holotron.kernels.norm import triton

        return triton.add_rms_norm(x_TD, residual_TD, weight_D, eps, quantized)
    if not quantized and train_with_triton(x_TD, weight_D):
        from holotron.kernels.norm import triton_backward

        return triton_backward.AddRMSNorm.apply(x_TD, residual_TD, weight_D, eps)
    if not quantized and use_cpu(x_TD, weight_D):
        total = x_TD if residual_TD is None else x_TD + residual_TD
        return cpu.rms_norm(total, weight_D, eps), total
    return reference.add_rms_norm(x_TD, residual_TD, weight_D, eps, quantized)


def gated_rms_norm(
    y_TD: Tensor, gate_TD: Tensor, weight_D: Tensor, groups: int, eps: float, quantized: bool = False
) -> Tensor | Quantized:
    """norm(y * silu(gate)) * weight, the norm taken over each of `groups` slices of the channels."""
    if use_triton(y_TD, gate_TD, weight_D):
        from holotron.kernels.norm import triton

        return triton.gated_rms_norm(y_TD, gate_TD, weight_D, groups, eps, quantized)
    if not quantized and train_with_triton(y_TD, gate_TD, weight_D):
        from holotron.kernels.norm import triton_backward

        return triton_backward.GatedRMSNorm.apply(y_TD, gate_TD, weight_D, groups, eps)
    if not quantized and use_cpu(y_TD, gate_TD, weight_D):
        return cpu.gated_rms_norm(y_TD, gate_TD, weight_D, groups, eps)
    return reference.gated_rms_norm(y_TD, gate_TD, weight_D, groups, eps, quantized)


def rms_norm_gated(y_THD: Tensor, gate_THD: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    """norm(y) * weight * silu(gate), the norm taken over the last dimension."""
    if use_triton(y_THD, gate_THD, weight_D):
        from holotron.kernels.norm import triton

        return triton.rms_norm_gated(y_THD, gate_THD, weight_D, eps)
    return reference.rms_norm_gated(y_THD, gate_THD, weight_D, eps)


def add_layer_norm(
    x: Tensor, residual: Tensor | None, weight_D: Tensor, bias_D: Tensor, eps: float, quantized: bool = False
) -> tuple[Tensor | Quantized, Tensor]:
    """(layer_norm(x + residual), x + residual) over the last dimension. Without a residual yet, x starts the stream."""
    if use_triton(x, weight_D):
        from holotron.kernels.norm import triton_layer

        return triton_layer.add_layer_norm(x, residual, weight_D, bias_D, eps, quantized)
    return reference.add_layer_norm(x, residual, weight_D, bias_D, eps, quantized)
