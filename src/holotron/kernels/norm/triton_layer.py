"""The vision tower's LayerNorm in Triton, fused with the residual sum before it: one pass over memory."""
# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.dispatch import two_powers
from holotron.kernels.linear.reference import FP8, Quantized
from holotron.kernels.linear.triton import scale_of, to_fp8
from holotron.kernels.norm.triton import _load, _store, _sum


@triton.jit
def _centred(x, mean, FIRST: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    column = FIRST + tl.arange(0, SIZE)[None, :]
    return tl.where(column < WIDTH, x - mean, 0.0)


@triton.jit
def _scaled(x, shrink, weight_ptr, bias_ptr, row, live, FIRST: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    weight = _load(weight_ptr, row * 0, live, FIRST, SIZE, WIDTH).to(tl.float32)
    return x * shrink * weight + _load(bias_ptr, row * 0, live, FIRST, SIZE, WIDTH).to(tl.float32)


@triton.jit
def _add_layer_norm(
    x_ptr, residual_ptr, weight_ptr, bias_ptr, out_ptr, total_ptr, scale_ptr, eps, stride_x, stride_residual,
    WIDTH: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, ADD: tl.constexpr, QUANTIZED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) + tl.arange(0, 1)[:, None]
    live = row >= 0
    x_at, residual_at, out_at = row * stride_x, row * stride_residual, row * WIDTH
    left = _sum(x_ptr, residual_ptr, total_ptr, x_at, residual_at, out_at, live, 0, LEFT, WIDTH, ADD)
    mean = tl.sum(left, axis=1, keep_dims=True)
    if RIGHT > 0:
        right = _sum(x_ptr, residual_ptr, total_ptr, x_at, residual_at, out_at, live, LEFT, RIGHT, WIDTH, ADD)
        mean += tl.sum(right, axis=1, keep_dims=True)
    mean = mean / WIDTH
    left = _centred(left, mean, 0, LEFT, WIDTH)
    square = tl.sum(left * left, axis=1, keep_dims=True)
    if RIGHT > 0:
        right = _centred(right, mean, LEFT, RIGHT, WIDTH)
        square += tl.sum(right * right, axis=1, keep_dims=True)
    shrink = tl.rsqrt(square / WIDTH + eps)
    left = _scaled(left, shrink, weight_ptr, bias_ptr, row, live, 0, LEFT, WIDTH)
    if RIGHT > 0:
        right = _scaled(right, shrink, weight_ptr, bias_ptr, row, live, LEFT, RIGHT, WIDTH)
    if QUANTIZED:
        largest = tl.max(tl.abs(left), axis=1, keep_dims=True)
        if RIGHT > 0:
            largest = tl.maximum(largest, tl.max(tl.abs(right), axis=1, keep_dims=True))
        scale = scale_of(largest)
        tl.store(scale_ptr + row, scale)
        left = to_fp8(left, scale)
        if RIGHT > 0:
            right = to_fp8(right, scale)
    _store(out_ptr, left, out_at, live, 0, LEFT, WIDTH)
    if RIGHT > 0:
        _store(out_ptr, right, out_at, live, LEFT, RIGHT, WIDTH)


def add_layer_norm(
    x: Tensor, residual: Tensor | None, weight_D: Tensor, bias_D: Tensor, eps: float, quantized: bool = False
) -> tuple[Tensor | Quantized, Tensor]:
    width = x.shape[-1]
    x_TD = x.reshape(-1, width)
    residual_TD = x_TD if residual is None else residual.reshape(-1, width)
    out = torch.empty(x.shape, dtype=FP8 if quantized else x.dtype, device=x.device)
    scale = torch.empty((*x.shape[:-1], 1) if quantized else (1,), dtype=torch.float32, device=x.device)
    total = x if residual is None else torch.empty(x.shape, dtype=x.dtype, device=x.device)
    left, right = two_powers(width)
    if len(x_TD):
        _add_layer_norm[(len(x_TD),)](
            x_TD,
            residual_TD,
            weight_D,
            bias_D,
            out,
            total,
            scale,
            eps,
            x_TD.stride(0),
            residual_TD.stride(0),
            width,
            left,
            right,
            residual is not None,
            quantized,
            num_warps=1 if width <= 2048 else 4,  # a row of one warp is summed up without waiting for others
        )
    return Quantized(out, scale) if quantized else out, total
