"""RMS norms in Triton: one pass over memory, whole rows in registers.

A program owns one row (or several short ones), so that the sum of squares, the weight and, for 8-bit outputs, the row's
scale need no second pass and no second kernel. Tiles have powers of two as sides; a row is held as two of them, which
fits the published widths exactly (5120 = 4096 + 1024, groups of 1280 = 1024 + 256).
"""
# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.dispatch import next_power_of_two, two_powers
from holotron.kernels.linear.reference import FP8, Quantized
from holotron.kernels.linear.triton import scale_of, to_fp8
from holotron.kernels.triton_math import silu

FEW = 16  # rows: sequences that decode, fewer than there are multiprocessors


@triton.jit
def _load(ptr, at_R, live_R, FIRST: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    """SIZE columns of a few rows that begin at `at_R` elements from `ptr`."""
    column = FIRST + tl.arange(0, SIZE)[None, :]
    return tl.load(ptr + at_R + column, live_R & (column < WIDTH), other=0.0)


@triton.jit
def _store(ptr, y, at_R, live_R, FIRST: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    column = FIRST + tl.arange(0, SIZE)[None, :]
    tl.store(ptr + at_R + column, y.to(ptr.dtype.element_ty), live_R & (column < WIDTH))


@triton.jit
def _sum(
    x_ptr, residual_ptr, total_ptr, x_at, residual_at, out_at, live,
    FIRST: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    """x + residual, rounded to the stream's own precision and stored."""
    x = _load(x_ptr, x_at, live, FIRST, SIZE, WIDTH)
    if ADD:
        residual = _load(residual_ptr, residual_at, live, FIRST, SIZE, WIDTH)
        x = (x.to(tl.float32) + residual.to(tl.float32)).to(x.dtype)
        _store(total_ptr, x, out_at, live, FIRST, SIZE, WIDTH)
    return x.to(tl.float32)


@triton.jit(do_not_specialize=["rows"])
def _add_rms_norm(
    x_ptr,
    residual_ptr,
    weight_ptr,
    out_ptr,
    total_ptr,
    scale_ptr,
    rows,
    eps,
    stride_x,
    stride_residual,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
    ADD: tl.constexpr,
    QUANTIZED: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    live = row < rows
    x_at, residual_at, out_at = row * stride_x, row * stride_residual, row * WIDTH
    left = _sum(x_ptr, residual_ptr, total_ptr, x_at, residual_at, out_at, live, 0, LEFT, WIDTH, ADD)
    square = tl.sum(left * left, axis=1, keep_dims=True)
    if RIGHT > 0:
        right = _sum(x_ptr, residual_ptr, total_ptr, x_at, residual_at, out_at, live, LEFT, RIGHT, WIDTH, ADD)
        square += tl.sum(right * right, axis=1, keep_dims=True)
    shrink = tl.rsqrt(square / WIDTH + eps)
    left = left * shrink * _load(weight_ptr, row * 0, live, 0, LEFT, WIDTH).to(tl.float32)
    if RIGHT > 0:
        right = right * shrink * _load(weight_ptr, row * 0, live, LEFT, RIGHT, WIDTH).to(tl.float32)
    if QUANTIZED:
        largest = tl.max(tl.abs(left), axis=1, keep_dims=True)
        if RIGHT > 0:
            largest = tl.maximum(largest, tl.max(tl.abs(right), axis=1, keep_dims=True))
        scale = scale_of(largest)
        tl.store(scale_ptr + row, scale, live)
        left = to_fp8(left, scale)
        if RIGHT > 0:
            right = to_fp8(right, scale)
    _store(out_ptr, left, out_at, live, 0, LEFT, WIDTH)
    if RIGHT > 0:
        _store(out_ptr, right, out_at, live, LEFT, RIGHT, WIDTH)


@triton.jit
def _gate(y_ptr, gate_ptr, at, live, FIRST: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    y = _load(y_ptr, at, live, FIRST, SIZE, WIDTH).to(tl.float32)
    return y * silu(_load(gate_ptr, at, live, FIRST, SIZE, WIDTH).to(tl.float32))


@triton.jit
def _gated_rms_norm(
    y_ptr,
    gate_ptr,
    weight_ptr,
    out_ptr,
    scale_ptr,
    eps,
    stride_y,
    stride_gate,
    WIDTH: tl.constexpr,
    GROUPS: tl.constexpr,
    BLOCK_G: tl.constexpr,
    LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
    QUANTIZED: tl.constexpr,
):
    """One token; its groups, of WIDTH channels each, are the rows of the tile."""
    token = tl.program_id(0).to(tl.int64)
    y_ptr += token * stride_y
    gate_ptr += token * stride_gate
    out_ptr += token * (GROUPS * WIDTH)
    group = tl.arange(0, BLOCK_G)[:, None]
    live = group < GROUPS
    at = group * WIDTH
    left = _gate(y_ptr, gate_ptr, at, live, 0, LEFT, WIDTH)
    square = tl.sum(left * left, axis=1, keep_dims=True)
    if RIGHT > 0:
        right = _gate(y_ptr, gate_ptr, at, live, LEFT, RIGHT, WIDTH)
        square += tl.sum(right * right, axis=1, keep_dims=True)
    shrink = tl.rsqrt(square / WIDTH + eps)
    left = left * shrink * _load(weight_ptr, at, live, 0, LEFT, WIDTH).to(tl.float32)
    if RIGHT > 0:
        right = right * shrink * _load(weight_ptr, at, live, LEFT, RIGHT, WIDTH).to(tl.float32)
    if QUANTIZED:  # one scale for the whole token, across its groups
        largest = tl.max(tl.abs(left))
        if RIGHT > 0:
            largest = tl.maximum(largest, tl.max(tl.abs(right)))
        scale = scale_of(largest)
        tl.store(scale_ptr + token, scale)
        left = to_fp8(left, scale)
        if RIGHT > 0:
            right = to_fp8(right, scale)
    _store(out_ptr, left, at, live, 0, LEFT, WIDTH)
    if RIGHT > 0:
        _store(out_ptr, right, at, live, LEFT, RIGHT, WIDTH)


def _outputs(like: Tensor, dtype: torch.dtype, quantized: bool) -> tuple[Tensor, Tensor]:
    out = torch.empty(like.shape, dtype=FP8 if quantized else dtype, device=like.device)
    scale = torch.empty((like.shape[0], 1) if quantized else (), dtype=torch.float32, device=like.device)
    return out, scale


def rms_norm(x: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    width = x.shape[-1]
    normed, _ = add_rms_norm(x.reshape(-1, width), None, weight_D, eps)
    assert isinstance(normed, Tensor)
    return normed.view(x.shape)


def add_rms_norm(
    x_TD: Tensor, residual_TD: Tensor | None, weight_D: Tensor, eps: float, quantized: bool = False
) -> tuple[Tensor | Quantized, Tensor]:
    rows, width = x_TD.shape
    out, scale = _outputs(x_TD, x_TD.dtype, quantized)
    total = x_TD if residual_TD is None else torch.empty(x_TD.shape, dtype=x_TD.dtype, device=x_TD.device)
    residual = x_TD if residual_TD is None else residual_TD
    left, right = two_powers(width)
    # Short rows (the head norms of a transformer) share a program; long ones get a warp for every 512 columns or so, or
    # more where there are only a few rows: then nothing counts but how long one takes.
    rows_per_program = max(1, 1024 // left)
    warps = min(max(left * rows_per_program // (512 if rows > FEW else 256), 1), 16)
    if rows:
        _add_rms_norm[(triton.cdiv(rows, rows_per_program),)](
            x_TD,
            residual,
            weight_D,
            out,
            total,
            scale,
            rows,
            eps,
            x_TD.stride(0),
            residual.stride(0),
            width,
            rows_per_program,
            left,
            right,
            residual_TD is not None,
            quantized,
            num_warps=warps,
        )
    return (Quantized(out, scale) if quantized else out), total


def gated_rms_norm(
    y_TD: Tensor, gate_TD: Tensor, weight_D: Tensor, groups: int, eps: float, quantized: bool = False
) -> Tensor | Quantized:
    rows, width = y_TD.shape
    out, scale = _outputs(y_TD, gate_TD.dtype, quantized)
    left, right = two_powers(width // groups)
    block_g = next_power_of_two(groups)
    if rows:
        _gated_rms_norm[(rows,)](
            y_TD,
            gate_TD,
            weight_D,
            out,
            scale,
            eps,
            y_TD.stride(0),
            gate_TD.stride(0),
            width // groups,
            groups,
            block_g,
            left,
            right,
            quantized,
            num_warps=min(max(block_g * left // (1024 if rows > FEW else 512), 1), 16),
        )
    return Quantized(out, scale) if quantized else out


@triton.jit(do_not_specialize=["rows"])
def _rms_norm_gated(
    y_ptr,
    gate_ptr,
    weight_ptr,
    out_ptr,
    rows,
    eps,
    stride_gate,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    SIZE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    live = row < rows
    y = _load(y_ptr, row * WIDTH, live, 0, SIZE, WIDTH).to(tl.float32)
    gate_at = row // HEADS * stride_gate + row % HEADS * WIDTH
    gate = _load(gate_ptr, gate_at, live, 0, SIZE, WIDTH).to(tl.float32)
    column = tl.arange(0, SIZE)[None, :]
    weight = tl.load(weight_ptr + column, column < WIDTH, other=0.0).to(tl.float32)
    shrink = tl.rsqrt(tl.sum(y * y, axis=1, keep_dims=True) / WIDTH + eps)
    _store(out_ptr, y * shrink * weight * silu(gate), row * WIDTH, live, 0, SIZE, WIDTH)


def rms_norm_gated(y_THD: Tensor, gate_THD: Tensor, weight_D: Tensor, eps: float) -> Tensor:
    """Several short rows (heads of a token) per program."""
    tokens, heads, width = y_THD.shape
    size = next_power_of_two(width)
    per_program = max(1, 1024 // size)
    out = torch.empty((tokens, heads, width), dtype=gate_THD.dtype, device=y_THD.device)
    _rms_norm_gated[(triton.cdiv(tokens * heads, per_program),)](
        y_THD.contiguous(),
        gate_THD,
        weight_D,
        out,
        tokens * heads,
        eps,
        gate_THD.stride(0),
        heads,
        width,
        per_program,
        size,
        num_warps=2,
    )
    return out
