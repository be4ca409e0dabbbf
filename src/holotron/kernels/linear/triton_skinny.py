"""Products of few rows (one to sixteen sequences that decode): every weight is read once, and that is all the time.

The library's kernels are made for tall matrices; with one row their tiles are nearly empty, and too few to keep the
memory busy. Here a program owns 64 output channels and walks along their inputs, several pieces ahead of what it
multiplies (`stages`), so that every multiprocessor has tens of kilobytes on their way at any time. The weight is the
left factor: 64 of its rows are what Hopper's matrix unit takes, straight from where they were fetched to, 8-bit numbers
included; the rows of x, filled up to sixteen, are the columns of the right one.

Where there are fewer channels than that keeps busy, several programs share the inputs (`splits`). Each leaves its sums
in memory, and the last to come adds them up, always in the same order: the result depends on nobody's speed.
"""
# mypy: disable-error-code="no-untyped-def"

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.dispatch import multiprocessors
from holotron.kernels.linear.reference import Quantized

MOST_ROWS = 16
CHANNELS = 64
_ROWS: tl.constexpr = tl.constexpr(MOST_ROWS)


@triton.jit
def _finished(
    total, x_scale_ptr, weight_scale_ptr, bias_ptr, out_ptr, channel, row, there, live,
    OUTPUTS: tl.constexpr, SCALED: tl.constexpr, BIASED: tl.constexpr,
):  # fmt: skip
    if SCALED:
        total *= tl.load(weight_scale_ptr + channel, there, other=0.0)[:, None]
        total *= tl.load(x_scale_ptr + row, live, other=0.0)[None, :]
    if BIASED:
        total += tl.load(bias_ptr + channel, there, other=0.0).to(tl.float32)[:, None]
    out_at = out_ptr + row[None, :] * OUTPUTS + channel[:, None]
    tl.store(out_at, total.to(out_ptr.dtype.element_ty), there[:, None] & live[None, :])


@triton.jit(do_not_specialize=["rows"])
def _skinny(
    x_ptr, x_scale_ptr, weight_ptr, weight_scale_ptr, bias_ptr, out_ptr, sums_ptr, done_ptr, rows, stride_x,
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, CHANNELS: tl.constexpr, DEPTH: tl.constexpr, SPLITS: tl.constexpr,
    STAGES: tl.constexpr, SCALED: tl.constexpr, BIASED: tl.constexpr,
):  # fmt: skip
    block, split = tl.program_id(0), tl.program_id(1)
    channel = block * CHANNELS + tl.arange(0, CHANNELS)
    row = tl.arange(0, _ROWS)
    there, live = channel < OUTPUTS, row < rows
    x_at = x_ptr + row[:, None] * stride_x
    weight_at = weight_ptr + channel[:, None].to(tl.int64) * INPUTS
    share: tl.constexpr = (INPUTS + DEPTH * SPLITS - 1) // (DEPTH * SPLITS) * DEPTH  # inputs of one program
    total = tl.zeros([CHANNELS, _ROWS], tl.float32)
    for first in tl.range(split * share, (split + 1) * share, DEPTH, num_stages=STAGES):
        i = first + tl.arange(0, DEPTH)
        if INPUTS % (DEPTH * SPLITS) == 0 and OUTPUTS % CHANNELS == 0:
            weight = tl.load(weight_at + i[None, :])
            x = tl.load(x_at + i[None, :], live[:, None], other=0.0)
        else:
            weight = tl.load(weight_at + i[None, :], there[:, None] & (i < INPUTS)[None, :], other=0.0)
            x = tl.load(x_at + i[None, :], live[:, None] & (i < INPUTS)[None, :], other=0.0)
        total = tl.dot(weight, x.trans(), acc=total, input_precision="ieee")
    if SPLITS == 1:
        _finished(
            total, x_scale_ptr, weight_scale_ptr, bias_ptr, out_ptr, channel, row, there, live, OUTPUTS, SCALED, BIASED
        )
        return
    sums_ptr += row[None, :] * OUTPUTS + channel[:, None]
    seen = there[:, None] & live[None, :]
    tl.store(sums_ptr + split * _ROWS * OUTPUTS, total, seen)
    tl.debug_barrier()  # all of the program's threads have stored theirs
    before = tl.atomic_add(done_ptr + block, 1, sem="acq_rel")
    if before == SPLITS - 1:
        total = tl.zeros([CHANNELS, _ROWS], tl.float32)
        for n in tl.static_range(SPLITS):
            total += tl.load(sums_ptr + n * _ROWS * OUTPUTS, seen, other=0.0, cache_modifier=".cg")
        tl.store(done_ptr + block, 0)  # for the next call
        _finished(
            total, x_scale_ptr, weight_scale_ptr, bias_ptr, out_ptr, channel, row, there, live, OUTPUTS, SCALED, BIASED
        )


class Cut(NamedTuple):
    """How a product is shared out."""

    depth: int  # inputs of a piece
    splits: int  # programs that share the same channels
    stages: int  # pieces on their way


def cut_for(inputs: int, outputs: int, itemsize: int, device: torch.device) -> Cut:
    """Pieces of 16 KiB, three at a time (60 KiB with those of x: three programs share a multiprocessor), and two
    programs for every multiprocessor."""
    depth = (16 << 10) // (CHANNELS * itemsize)
    programs, wanted = triton.cdiv(outputs, CHANNELS), 2 * multiprocessors(device)
    splits = 1
    while programs * splits < wanted and splits < 8 and inputs // (2 * splits) >= 4 * depth:
        splits *= 2
    return Cut(depth, splits, 3)


_spaces: dict[tuple[torch.device, int], tuple[Tensor, Tensor]] = {}


def _space(device: torch.device, outputs: int, splits: int) -> tuple[Tensor, Tensor]:
    """Where programs leave their sums, and how many have done so: zero, before and after every call. One for each size,
    so calls of one size must follow each other, as they do in one stream."""
    key = (device, outputs * splits)
    if key not in _spaces:
        sums = torch.empty(splits * MOST_ROWS * outputs, dtype=torch.float32, device=device)
        _spaces[key] = (sums, torch.zeros(triton.cdiv(outputs, CHANNELS), dtype=torch.int32, device=device))
    return _spaces[key]


def linear(
    x: Tensor | Quantized, weight: Tensor | Quantized, bias_O: Tensor | None = None, cut: Cut | None = None
) -> Tensor:
    """x W^T + b for at most `MOST_ROWS` rows; both in 8 bits or neither. 8-bit products give bf16."""
    x_TI = x.values if isinstance(x, Quantized) else x
    weight_OI = weight.values if isinstance(weight, Quantized) else weight
    scaled = isinstance(weight, Quantized)
    assert scaled == isinstance(x, Quantized)
    (rows, inputs), outputs = x_TI.shape, len(weight_OI)
    assert rows <= MOST_ROWS
    out = torch.empty((rows, outputs), dtype=torch.bfloat16 if scaled else x_TI.dtype, device=x_TI.device)
    depth, splits, stages = cut or cut_for(inputs, outputs, weight_OI.element_size(), x_TI.device)
    sums, done = _space(x_TI.device, outputs, splits) if splits > 1 else (out, out)
    if rows:
        _skinny[(triton.cdiv(outputs, CHANNELS), splits)](
            x_TI,
            x.scale if isinstance(x, Quantized) else x_TI,
            weight_OI,
            weight.scale if isinstance(weight, Quantized) else weight_OI,
            bias_O if bias_O is not None else weight_OI,
            out,
            sums,
            done,
            rows,
            x_TI.stride(0),
            inputs,
            outputs,
            CHANNELS,
            depth,
            splits,
            stages,
            scaled,
            bias_O is not None,
            num_warps=4,
        )
    return out
