"""Routed experts in Triton: every expert's products with its own rows, in one launch for all of them.

A program makes one tile of the result: up to BLOCK rows of one expert by some of its output channels. The rows of the
first product are taken from where the tokens lie (no copy is made), its activation is applied before the sums are
rounded, and the second product leaves its rows sorted by expert, from where each token's sum takes them
(`triton_routing.combine`). No two programs write to the same place, so results do not depend on who finishes first.

How large a tile is depends on how many rows an expert has on average. With few (decodes) the time goes into reading the
weights, once each: narrow tiles, many loads in flight. With many (prompts) it goes into the matrix units: large ones.
"""
# mypy: disable-error-code="no-untyped-def"

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from holotron.kernels.dispatch import has_tensor_copies, roomy
from holotron.kernels.experts.reference import Stacks
from holotron.kernels.experts.triton_routing import Order, combine, order_by_expert
from holotron.kernels.linear.reference import Quantized
from holotron.kernels.linear.triton import quantize
from holotron.kernels.triton_math import silu

NONE, RELU2, SWIGLU = range(3)
_RELU2: tl.constexpr = tl.constexpr(RELU2)
_SWIGLU: tl.constexpr = tl.constexpr(SWIGLU)


BOUNDS = (12, 48)  # rows of an expert on average, up to which tiles are small, and up to which they are medium


class Tiling(NamedTuple):
    rows: int
    columns: int
    depth: int  # inputs per step of the inner loop
    warps: int
    stages: int
    descriptors: bool = False  # load weights, and rows that lie sorted, by Hopper's copy engine instead of pointers
    swapped: bool = False  # compute the tile's transpose: Hopper's matrix unit wants 64 rows or more, columns are wider


@triton.jit
def _weights(
    w, base, k, n, first, at, outputs, inputs,
    TRANSPOSED: tl.constexpr, WHOLE: tl.constexpr, DESCRIPTOR: tl.constexpr,
):  # fmt: skip
    """A step's tile of one expert's matrix, [depth, columns]."""
    if DESCRIPTOR:
        tile = w.load([first, at]).T
    else:
        if TRANSPOSED:
            ptr = w + base + (at + k)[:, None] * outputs + n[None, :]
        else:
            ptr = w + base + n[None, :] * inputs + (at + k)[:, None]
        if WHOLE:
            tile = tl.load(ptr)
        else:
            tile = tl.load(ptr, (at + k)[:, None] < inputs, other=0.0)
    return tile


@triton.jit
def _step(acc, a, b, SWAPPED: tl.constexpr, PRECISION: tl.constexpr):
    if SWAPPED:
        acc = tl.dot(tl.trans(b), tl.trans(a), acc=acc, input_precision=PRECISION)
    else:
        acc = tl.dot(a, b, acc=acc, input_precision=PRECISION)
    return acc


@triton.jit(do_not_specialize=["num_tiles"], do_not_specialize_on_alignment=["pair_ptr", "tiles_ptr"])
def _products(
    x,
    x_scale_ptr,
    w,
    w_scale_ptr,
    gate,
    gate_scale_ptr,
    out_ptr,
    pair_ptr,
    tiles_ptr,
    num_tiles,
    stride_x,
    outputs,
    inputs,
    TRANSPOSED: tl.constexpr,
    WHOLE: tl.constexpr,  # the inputs are so many whole steps
    TOP_K: tl.constexpr,  # rows are found at their tokens; 0: they lie sorted
    ACTIVATION: tl.constexpr,
    QUANTIZED: tl.constexpr,
    DESCRIPTOR: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    SWAPPED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    across = tl.cdiv(outputs, COLUMNS)
    tile = tl.program_id(0) // across
    column = tl.program_id(0) % across * COLUMNS
    begin = tl.load(tiles_ptr + num_tiles + tile)
    end = tl.load(tiles_ptr + 2 * num_tiles + tile)
    if begin >= end:
        return
    expert = tl.load(tiles_ptr + tile)
    row = begin + tl.arange(0, ROWS)
    live = row < end
    # What lies beyond the end is computed from rows and columns that exist, and not stored.
    source = tl.where(live, row, begin)
    if TOP_K > 0:
        source = tl.load(pair_ptr + source) // TOP_K
    n = column + tl.arange(0, COLUMNS)
    inside = n < outputs
    k = tl.arange(0, DEPTH)
    if not (DESCRIPTOR and TOP_K == 0):
        x += source.to(tl.int64)[:, None] * stride_x + k[None, :]
    base = expert.to(tl.int64) * outputs * inputs
    first = expert * outputs + column
    if SWAPPED:
        acc = tl.zeros([COLUMNS, ROWS], tl.float32)
    else:
        acc = tl.zeros([ROWS, COLUMNS], tl.float32)
    acc_gate = acc
    for at in range(0, inputs, DEPTH):
        if DESCRIPTOR and TOP_K == 0:
            a = x.load([begin, at])
        elif WHOLE:
            a = tl.load(x + at)
        else:
            a = tl.load(x + at, (at + k)[None, :] < inputs, other=0.0)
        b = _weights(w, base, k, n % outputs, first, at, outputs, inputs, TRANSPOSED, WHOLE, DESCRIPTOR)
        acc = _step(acc, a, b, SWAPPED, PRECISION)
        if ACTIVATION == _SWIGLU:
            g = _weights(gate, base, k, n % outputs, first, at, outputs, inputs, TRANSPOSED, WHOLE, DESCRIPTOR)
            acc_gate = _step(acc_gate, a, g, SWAPPED, PRECISION)
    if SWAPPED:
        acc = tl.trans(acc)
        if ACTIVATION == _SWIGLU:
            acc_gate = tl.trans(acc_gate)
    if QUANTIZED:
        x_scale = tl.load(x_scale_ptr + source)[:, None]
        acc *= x_scale * tl.load(w_scale_ptr + expert * outputs + n, inside, other=0.0)[None, :]
        if ACTIVATION == _SWIGLU:
            acc_gate *= x_scale * tl.load(gate_scale_ptr + expert * outputs + n, inside, other=0.0)[None, :]
    if ACTIVATION == _RELU2:
        acc = tl.maximum(acc, 0.0)
        acc = acc * acc
    if ACTIVATION == _SWIGLU:
        acc = acc * silu(acc_gate)
    out_ptr += row.to(tl.int64)[:, None] * outputs + n[None, :]
    tl.store(out_ptr, acc.to(out_ptr.dtype.element_ty), live[:, None] & inside[None, :])


def tilings(
    pairs: int, experts: int, sixteen_bit: bool, quantized: bool = False, gated: bool = True
) -> tuple[Tiling, Tiling]:
    """For the first and the second product, by how many rows an expert has on average. Both have the same rows. A gated
    product has two sums for every place of a tile, which in a wide one would not fit into the registers."""
    rows = pairs / experts
    if not sixteen_bit and not quantized:  # fp32 has no matrix instruction: for tests
        return Tiling(16, 32, 32, 4, 1), Tiling(16, 32, 32, 4, 1)
    if rows <= BOUNDS[0]:
        return (Tiling(16, 64, 128, 4, 4),) * 2
    if rows <= BOUNDS[1]:
        return (Tiling(64, 128, 128 if quantized else 64, 4, 4),) * 2
    narrow, wide = Tiling(128, 128, 128 if quantized else 64, 8, 3), Tiling(128, 256, 64, 8, 3)
    if quantized:
        return narrow, narrow
    return narrow if gated else wide, wide


def products(
    x: Tensor | Quantized,
    weight_EOI: Tensor | Quantized,
    order: Order,
    tiling: Tiling,
    *,
    gate_EOI: Tensor | Quantized | None = None,
    activation: int = NONE,
    at_tokens: bool = False,
    transposed: bool = False,
) -> Tensor:
    """Every expert's product with its own rows, sorted by expert, [P, O]. `x` holds those rows, or (`at_tokens`) the
    tokens they are taken from. `transposed` multiplies by W instead of W^T, which is what gradients need."""
    values, scale = x if isinstance(x, Quantized) else (x, x)
    weight, weight_scale = weight_EOI if isinstance(weight_EOI, Quantized) else (weight_EOI, weight_EOI)
    gate, gate_scale = gate_EOI if isinstance(gate_EOI, Quantized) else (gate_EOI, gate_EOI)
    experts, outputs, inputs = weight.shape
    if transposed:
        outputs, inputs = inputs, outputs
    quantized, pairs = isinstance(x, Quantized), len(order.pair_P)
    assert tiling.rows == order.block, "the tiles of the order are those of the product"
    dtype = torch.bfloat16 if quantized else values.dtype
    out = torch.empty((pairs, outputs), dtype=dtype, device=values.device)
    if pairs == 0:
        return out
    w, g, rows = weight.contiguous(), gate.contiguous() if gate is not None else weight, values
    described = tiling.descriptors and not transposed and inputs * w.element_size() % 16 == 0
    described = described and has_tensor_copies(w.device)
    if described:
        box = [tiling.columns, tiling.depth]
        w, g = (TensorDescriptor.from_tensor(t.view(experts * outputs, inputs), box) for t in (w, g))
        if not at_tokens:
            rows = TensorDescriptor.from_tensor(values, [tiling.rows, tiling.depth])
    num_tiles = order.tiles_3B.shape[1]
    _products[(num_tiles * triton.cdiv(outputs, tiling.columns),)](
        rows,
        scale,
        w,
        weight_scale,
        g,
        weight_scale if gate_scale is None else gate_scale,
        out,
        order.pair_P,
        order.tiles_3B,
        num_tiles,
        values.stride(0),
        outputs,
        inputs,
        transposed,
        inputs % tiling.depth == 0,
        order.top_k if at_tokens else 0,
        activation,
        quantized,
        described,
        tiling.rows,
        tiling.columns,
        tiling.depth,
        tiling.swapped,
        "ieee" if values.dtype == torch.float32 else "tf32",
        num_warps=tiling.warps,
        num_stages=tiling.stages if roomy(values.device) else min(tiling.stages, 2),
    )
    return out


def mix(
    x_TD: Tensor | Quantized, chosen_Tk: Tensor, weight_Tk: Tensor, stacks: Stacks, beside_TD: Tensor | None = None
) -> Tensor:
    quantized = isinstance(stacks.up_EFD, Quantized)
    if quantized and isinstance(x_TD, Tensor):
        x_TD = quantize(x_TD)
    wide = x_TD.values if isinstance(x_TD, Quantized) else x_TD
    experts = stacks.up_EFD.shape[0]
    gated = stacks.gate_EFD is not None
    first, second = tilings(chosen_Tk.numel(), experts, wide.element_size() == 2, quantized, gated)
    return mix_with(first, second, x_TD, chosen_Tk, weight_Tk, stacks, beside_TD)


def mix_with(
    first: Tiling,
    second: Tiling,
    x_TD: Tensor | Quantized,
    chosen_Tk: Tensor,
    weight_Tk: Tensor,
    stacks: Stacks,
    beside_TD: Tensor | None = None,
) -> Tensor:
    """`mix` with tiles of one's choosing."""
    order = order_by_expert(chosen_Tk, stacks.up_EFD.shape[0], first.rows)
    activation = RELU2 if stacks.gate_EFD is None else SWIGLU
    hidden: Tensor | Quantized = products(
        x_TD, stacks.up_EFD, order, first, gate_EOI=stacks.gate_EFD, activation=activation, at_tokens=True
    )
    if isinstance(stacks.down_EDF, Quantized):
        assert isinstance(hidden, Tensor)
        hidden = quantize(hidden)
    return combine(products(hidden, stacks.down_EDF, order, second), weight_Tk.float(), order, beside_TD)
