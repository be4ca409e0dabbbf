"""Gradients of the RMS norms in Triton: a row's sums and its gradient in one pass.

With r = 1 / rms(x):   d(x r w) gives x the gradient   r (g w) - x r^3 mean(x g w).
A program owns several rows; the weight's gradient is summed over them, written per program and added up afterwards.
"""
# mypy: disable-error-code="no-untyped-def"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.dispatch import next_power_of_two
from holotron.kernels.norm.triton import add_rms_norm, gated_rms_norm

__all__ = ["AddRMSNorm", "GatedRMSNorm"]

ELEMENTS = 8192  # that a program holds at once, about


@triton.jit
def _norm_gradient(x, g, weight, live, eps, WIDTH: tl.constexpr):
    """The gradient of x for rows of WIDTH, and each row's part in the weight's."""
    shrink = tl.rsqrt(tl.sum(x * x, axis=1, keep_dims=True) / WIDTH + eps)
    push = g * weight
    mean = tl.sum(x * push, axis=1, keep_dims=True) / WIDTH
    return shrink * push - x * (shrink * shrink * shrink * mean), g * x * shrink


@triton.jit(do_not_specialize=["rows"])
def _add_rms_norm(
    total_ptr,
    weight_ptr,
    dout_ptr,
    dtotal_ptr,
    dx_ptr,
    sums_ptr,
    rows,
    eps,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_TOTAL: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    live = (row < rows) & (column < WIDTH)
    at = row * WIDTH + column
    x = tl.load(total_ptr + at, live, other=0.0).to(tl.float32)
    g = tl.load(dout_ptr + at, live, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + column, column < WIDTH, other=0.0).to(tl.float32)
    dx, part = _norm_gradient(x, g, weight, live, eps, WIDTH)
    if HAS_TOTAL:
        dx += tl.load(dtotal_ptr + at, live, other=0.0).to(tl.float32)
    tl.store(dx_ptr + at, dx.to(dx_ptr.dtype.element_ty), live)
    own = tl.arange(0, BLOCK)
    tl.store(sums_ptr + tl.program_id(0) * WIDTH + own, tl.sum(part, axis=0), own < WIDTH)


@triton.jit(do_not_specialize=["rows"])
def _gated_rms_norm(
    y_ptr,
    gate_ptr,
    weight_ptr,
    dout_ptr,
    dy_ptr,
    dgate_ptr,
    sums_ptr,
    rows,
    eps,
    stride_y,
    stride_gate,
    WIDTH: tl.constexpr,
    GROUPS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Some tokens of one group of channels."""
    group = tl.program_id(1)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    live = (row < rows) & (column < WIDTH)
    mine = group * WIDTH + column
    at = row * (GROUPS * WIDTH) + mine
    y = tl.load(y_ptr + row * stride_y + mine, live, other=0.0).to(tl.float32)
    gate = tl.load(gate_ptr + row * stride_gate + mine, live, other=0.0).to(tl.float32)
    g = tl.load(dout_ptr + at, live, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + mine, column < WIDTH, other=0.0).to(tl.float32)
    open = tl.sigmoid(gate)
    dgated, part = _norm_gradient(y * gate * open, g, weight, live, eps, WIDTH)
    tl.store(dy_ptr + at, (dgated * gate * open).to(dy_ptr.dtype.element_ty), live)
    dgate = dgated * y * open * (1.0 + gate * (1.0 - open))
    tl.store(dgate_ptr + at, dgate.to(dgate_ptr.dtype.element_ty), live)
    own = tl.arange(0, BLOCK)
    sums = sums_ptr + (tl.program_id(0) * GROUPS + group) * WIDTH
    tl.store(sums + own, tl.sum(part, axis=0), own < WIDTH)


def _tile(width: int) -> tuple[int, int]:
    """Rows and columns that a program takes."""
    block = next_power_of_two(width)
    return max(1, ELEMENTS // block), block


class AddRMSNorm(torch.autograd.Function):
    """(norm(x + residual), x + residual)."""

    @staticmethod
    def forward(
        ctx: Any, x_TD: Tensor, residual_TD: Tensor | None, weight_D: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        normed, total = add_rms_norm(x_TD, residual_TD, weight_D, eps)
        assert isinstance(normed, Tensor)
        ctx.save_for_backward(total, weight_D)
        ctx.eps, ctx.added = eps, residual_TD is not None
        ctx.set_materialize_grads(False)
        return normed, (total if residual_TD is not None else x_TD.view_as(x_TD))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        dout, dtotal = gradients
        total, weight = ctx.saved_tensors
        if dout is None:
            return dtotal, (dtotal if ctx.added else None), None, None
        total, dout = total.contiguous(), dout.contiguous()
        count, width = total.shape
        rows, block = _tile(width)
        programs = triton.cdiv(count, rows)
        dx = torch.empty_like(total)
        sums = torch.empty((programs, width), dtype=torch.float32, device=total.device)
        _add_rms_norm[(programs,)](
            total,
            weight,
            dout,
            dout if dtotal is None else dtotal.contiguous(),
            dx,
            sums,
            count,
            ctx.eps,
            width,
            rows,
            block,
            dtotal is not None,
            num_warps=8,
        )
        return dx, (dx if ctx.added else None), sums.sum(0).to(weight.dtype), None


class GatedRMSNorm(torch.autograd.Function):
    """norm(y * silu(gate)) * weight, by groups."""

    @staticmethod
    def forward(ctx: Any, y_TD: Tensor, gate_TD: Tensor, weight_D: Tensor, groups: int, eps: float) -> Tensor:
        out = gated_rms_norm(y_TD, gate_TD, weight_D, groups, eps)
        assert isinstance(out, Tensor)
        ctx.save_for_backward(y_TD, gate_TD, weight_D)
        ctx.groups, ctx.eps = groups, eps
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        y, gate, weight = ctx.saved_tensors
        dout = gradients[0].contiguous()
        count, width = y.shape
        groups = ctx.groups
        rows, block = _tile(width // groups)
        programs = triton.cdiv(count, rows)
        dy = torch.empty((count, width), dtype=y.dtype, device=y.device)
        dgate = torch.empty((count, width), dtype=gate.dtype, device=y.device)
        sums = torch.empty((programs, width), dtype=torch.float32, device=y.device)
        _gated_rms_norm[(programs, groups)](
            y,
            gate,
            weight,
            dout,
            dy,
            dgate,
            sums,
            count,
            ctx.eps,
            y.stride(0),
            gate.stride(0),
            width // groups,
            groups,
            rows,
            block,
            num_warps=8,
        )
        return dy, dgate, sums.sum(0).to(weight.dtype), None, None
