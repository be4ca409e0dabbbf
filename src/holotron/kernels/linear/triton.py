"""What surrounds a matrix product: activations and row-wise quantisation in Triton, one pass over memory each.

The products themselves are the vendor library's (`torch._scaled_mm` for 8 bits), which is hard to beat on large shapes;
those of a few rows are ours (`triton_skinny`).
"""
# mypy: disable-error-code="no-untyped-def"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.dispatch import two_powers
from holotron.kernels.linear import triton_skinny
from holotron.kernels.linear.reference import FP8, FP8_MAX, SMALLEST, Quantized

_MAX: tl.constexpr = tl.constexpr(FP8_MAX)
_SMALLEST: tl.constexpr = tl.constexpr(SMALLEST)


@triton.jit
def scale_of(largest):
    """What a row is divided by before it is rounded to e4m3, from the largest magnitude in it."""
    return tl.maximum(largest, _SMALLEST) / _MAX


@triton.jit
def to_fp8(y, scale):
    return tl.minimum(tl.maximum(y * (1.0 / scale), -_MAX), _MAX).to(tl.float8e4nv)


@triton.jit
def _activated(x_ptr, FIRST: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, ACTIVATION: tl.constexpr):
    column = FIRST + tl.arange(0, SIZE)
    x = tl.load(x_ptr + column, column < WIDTH, other=0.0).to(tl.float32)
    if ACTIVATION == "relu2":
        x = tl.maximum(x, 0.0)
        x = x * x
    if ACTIVATION == "gelu":  # by tanh, as the library's epilogue: off by 5e-4 at most, which 8 bits do not see
        x = x / (1.0 + tl.exp2(-2.302208198 * (x + 0.044715 * x * x * x)))
    return x


@triton.jit
def _quantize(
    x_ptr, out_ptr, scale_ptr, stride,
    WIDTH: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    """One row, held in registers as two powers of two (20480 = 16384 + 4096): its scale, then its rounded values."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride
    out_ptr += row * WIDTH
    left = _activated(x_ptr, 0, LEFT, WIDTH, ACTIVATION)
    largest = tl.max(tl.abs(left), axis=0)
    if RIGHT > 0:
        right = _activated(x_ptr, LEFT, RIGHT, WIDTH, ACTIVATION)
        largest = tl.maximum(largest, tl.max(tl.abs(right), axis=0))
    scale = scale_of(largest)
    tl.store(scale_ptr + row, scale)
    column = tl.arange(0, LEFT)
    tl.store(out_ptr + column, to_fp8(left, scale), column < WIDTH)
    if RIGHT > 0:
        column = LEFT + tl.arange(0, RIGHT)
        tl.store(out_ptr + column, to_fp8(right, scale), column < WIDTH)


@triton.jit
def _relu2(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.maximum(tl.load(x_ptr + at, at < count, other=0.0).to(tl.float32), 0.0)
    tl.store(out_ptr + at, (x * x).to(out_ptr.dtype.element_ty), at < count)


@triton.jit(do_not_specialize=["count"])
def _relu2_backward(x_ptr, dy_ptr, dx_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.maximum(tl.load(x_ptr + at, at < count, other=0.0).to(tl.float32), 0.0)
    dy = tl.load(dy_ptr + at, at < count, other=0.0).to(tl.float32)
    tl.store(dx_ptr + at, (2.0 * x * dy).to(dx_ptr.dtype.element_ty), at < count)


def _quantize_rows(x: Tensor, activation: str) -> Quantized:
    x_TI = x.reshape(-1, x.shape[-1])
    rows, width = x_TI.shape
    out = torch.empty(x.shape, dtype=FP8, device=x.device)
    scale = torch.empty((*x.shape[:-1], 1), dtype=torch.float32, device=x.device)
    if rows:
        left, right = two_powers(width)
        warps = min(max(left // 512, 1), 32)
        _quantize[(rows,)](x_TI, out, scale, x_TI.stride(0), width, left, right, activation, num_warps=warps)
    return Quantized(out, scale)


def quantize(x: Tensor) -> Quantized:
    return _quantize_rows(x, "none")


def gelu_quantized(x: Tensor) -> Quantized:
    return _quantize_rows(x, "gelu")


def linear(x: Tensor | Quantized, weight_OI: Quantized, bias_O: Tensor | None = None) -> Tensor:
    narrow = quantize(x) if isinstance(x, Tensor) else x
    if narrow.values.dim() == 2 and len(narrow.values) <= triton_skinny.MOST_ROWS:
        return triton_skinny.linear(narrow, weight_OI, bias_O)
    out = torch._scaled_mm(
        narrow.values.view(-1, narrow.shape[-1]),
        weight_OI.values.t(),
        bias=bias_O.to(torch.bfloat16) if bias_O is not None else None,
        scale_a=narrow.scale.view(-1, 1),
        scale_b=weight_OI.scale.t(),
        out_dtype=torch.bfloat16,
        use_fast_accum=True,
    )
    return out.view(*narrow.shape[:-1], -1)


def relu2(x_TI: Tensor, quantized: bool = False) -> Tensor | Quantized:
    if quantized:
        return _quantize_rows(x_TI, "relu2")
    out = torch.empty(x_TI.shape, dtype=x_TI.dtype, device=x_TI.device)
    if out.numel():
        _relu2[(triton.cdiv(out.numel(), 4096),)](x_TI.contiguous(), out, out.numel(), 4096, num_warps=8)
    return out


class ReLU2(torch.autograd.Function):
    """`relu2` with its gradient, 2 max(x, 0)."""

    @staticmethod
    def forward(ctx: Any, x_TI: Tensor) -> Tensor:
        x_TI = x_TI.contiguous()
        ctx.save_for_backward(x_TI)
        out = relu2(x_TI)
        assert isinstance(out, Tensor)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        if dx.numel():
            grid = (triton.cdiv(dx.numel(), 4096),)
            _relu2_backward[grid](x, gradients[0].contiguous(), dx, dx.numel(), 4096, num_warps=8)
        return dx


def linear_gelu(x: Tensor, weight_OI: Tensor, bias_O: Tensor) -> Tensor:
    """The library's product ends with the activation by tanh, on sums that are not rounded yet. That is nearer to the
    exact function of exact sums than the exact function of rounded ones, and saves a pass over the widest tensor."""
    out = torch._addmm_activation(bias_O, x.reshape(-1, x.shape[-1]), weight_OI.t(), use_gelu=True)
    return out.view(*x.shape[:-1], -1)
