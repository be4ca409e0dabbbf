"""Gradients of routed experts, in Triton.

In training the experts are a chain of small steps, each with its gradient: take the rows from their tokens, multiply,
activate, multiply, sum. The gradient with respect to rows is the same grouped product with the matrices turned; that
with respect to an expert's matrix is a product over the expert's own rows, in their order, one program per tile of the
matrix. Frozen experts have none computed. No sum here depends on which program finishes first.
"""
# mypy: disable-error-code="no-untyped-def"

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.experts.reference import Stacks
from holotron.kernels.experts.triton import Tiling, products, tilings
from holotron.kernels.experts.triton_routing import Order, combine, order_by_expert
from holotron.kernels.linear.triton import ReLU2


@triton.jit(do_not_specialize_on_alignment=["start_ptr"])
def _weight_gradient(
    dy_ptr, x_ptr, out_ptr, start_ptr,
    OUTPUTS: tl.constexpr, INPUTS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, ROWS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """A tile of dy^T x over the rows of one expert."""
    expert = tl.program_id(0)
    o = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    i = tl.program_id(2) * DEPTH + tl.arange(0, DEPTH)
    begin = tl.load(start_ptr + expert)
    end = tl.load(start_ptr + expert + 1)
    acc = tl.zeros([COLUMNS, DEPTH], tl.float32)
    for at in range(begin, end, ROWS):
        row = at + tl.arange(0, ROWS)
        live = (row < end)[:, None]
        wide = row.to(tl.int64)[:, None]
        dy = tl.load(dy_ptr + wide * OUTPUTS + o[None, :], live & (o < OUTPUTS)[None, :], other=0.0)
        x = tl.load(x_ptr + wide * INPUTS + i[None, :], live & (i < INPUTS)[None, :], other=0.0)
        acc = tl.dot(tl.trans(dy), x, acc=acc, input_precision=PRECISION)
    at = (expert.to(tl.int64) * OUTPUTS + o)[:, None] * INPUTS + i[None, :]
    tl.store(out_ptr + at, acc.to(out_ptr.dtype.element_ty), (o < OUTPUTS)[:, None] & (i < INPUTS)[None, :])


def weight_gradient(dy_PO: Tensor, rows_PI: Tensor, experts: int, order: Order) -> Tensor:
    outputs, inputs = dy_PO.shape[1], rows_PI.shape[1]
    out = torch.empty((experts, outputs, inputs), dtype=dy_PO.dtype, device=dy_PO.device)
    side = 128 if dy_PO.element_size() == 2 and min(outputs, inputs) >= 128 else 32
    _weight_gradient[(experts, triton.cdiv(outputs, side), triton.cdiv(inputs, side))](
        dy_PO,
        rows_PI,
        out,
        order.start_E1,
        outputs,
        inputs,
        side,
        side,
        64 if side == 128 else 16,
        "ieee" if dy_PO.dtype == torch.float32 else "tf32",
        num_warps=8 if side == 128 else 4,
        num_stages=3 if side == 128 else 1,
    )
    return out


class TakeRows(torch.autograd.Function):
    """Every expert's rows from the tokens they belong to. A token's gradient is the sum over its experts."""

    @staticmethod
    def forward(ctx: Any, x_TD: Tensor, order: Order) -> Tensor:
        ctx.order = order
        return x_TD.index_select(0, order.pair_P // order.top_k)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return combine(gradients[0].contiguous(), None, ctx.order), None


class Products(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows_PI: Tensor, weight_EOI: Tensor, order: Order, tiling: Tiling) -> Tensor:
        ctx.save_for_backward(rows_PI if ctx.needs_input_grad[1] else None, weight_EOI)
        ctx.order, ctx.tiling = order, tiling
        return products(rows_PI, weight_EOI, order, tiling)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        rows, weight = ctx.saved_tensors
        dy = gradients[0].contiguous()
        d_rows = d_weight = None
        if ctx.needs_input_grad[0]:
            d_rows = products(dy, weight, ctx.order, ctx.tiling, transposed=True)
        if rows is not None:
            d_weight = weight_gradient(dy, rows, len(weight), ctx.order)
        return d_rows, d_weight, None, None


class Combine(torch.autograd.Function):
    """Each token's weighted sum of its rows."""

    @staticmethod
    def forward(ctx: Any, y_PD: Tensor, weight_Tk: Tensor, order: Order) -> Tensor:
        ctx.save_for_backward(y_PD if ctx.needs_input_grad[1] else None, weight_Tk)
        ctx.order = order
        return combine(y_PD, weight_Tk.float(), order)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None]:
        y, weight = ctx.saved_tensors
        order: Order = ctx.order
        d_out_PD = gradients[0].index_select(0, order.pair_P // order.top_k)
        weight_P = weight.flatten().index_select(0, order.pair_P)
        d_weight = None
        if y is not None:
            d_weight_P = (y.float() * d_out_PD.float()).sum(-1)
            d_weight = d_weight_P.index_select(0, order.row_P).view(weight.shape).to(weight.dtype)
        return (d_out_PD * weight_P[:, None]).to(d_out_PD.dtype), d_weight, None


def mix(x_TD: Tensor, chosen_Tk: Tensor, weight_Tk: Tensor, stacks: Stacks) -> Tensor:
    """`mix` with gradients for tokens, weights and matrices."""
    up, down, gate = stacks
    assert isinstance(up, Tensor)
    first, second = tilings(chosen_Tk.numel(), len(up), x_TD.element_size() == 2)
    order = order_by_expert(chosen_Tk, len(up), first.rows)
    rows = TakeRows.apply(x_TD, order)
    hidden = Products.apply(rows, up, order, first)
    if gate is not None:
        hidden = F.silu(Products.apply(rows, gate, order, first)) * hidden
    else:
        hidden = ReLU2.apply(hidden)
    return Combine.apply(Products.apply(hidden, down, order, second), weight_Tk, order)
