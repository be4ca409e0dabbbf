"""One token per sequence in Triton: the state is read, moved on by one step and written back where it lies.

This is nothing but memory traffic (1 GB per layer at 100 sequences of the 12B), so the work is cut into tiles of 16
state rows, which divides a head of 80 without a remainder, and each tile is one program of one warp: all its loads are
in flight at once, and 32 such programs per multiprocessor keep the memory busy.
"""
# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.layout import Layout
from holotron.kernels.triton_math import softplus

TILE = 16


@triton.jit(do_not_specialize_on_alignment=["rows_ptr"])
def _step(
    x_ptr,
    dt_ptr,
    dt_bias_ptr,
    A_ptr,
    B_ptr,
    C_ptr,
    D_ptr,
    state_ptr,
    y_ptr,
    rows_ptr,
    stride_xt,
    stride_dt,
    stride_bt,
    stride_ct,
    stride_r,
    HEADS: tl.constexpr,
    GROUPS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    N: tl.constexpr,
    TILE: tl.constexpr,
):
    tile = tl.program_id(0)
    head = tl.program_id(1)
    token = tl.program_id(2).to(tl.int64)
    group = head // (HEADS // GROUPS)
    p = tile * TILE + tl.arange(0, TILE)
    n = tl.arange(0, N)
    row = tl.load(rows_ptr + token).to(tl.int64)
    state_ptr += row * stride_r + (head * HEAD_DIM + p)[:, None] * N + n[None, :]
    if HEAD_DIM % TILE == 0:
        state = tl.load(state_ptr)
    else:
        state = tl.load(state_ptr, (p < HEAD_DIM)[:, None], other=0.0)
    dt = tl.load(dt_ptr + token * stride_dt + head).to(tl.float32) + tl.load(dt_bias_ptr + head).to(tl.float32)
    dt = softplus(dt)
    decay = tl.exp(dt * tl.load(A_ptr + head).to(tl.float32))
    D = tl.load(D_ptr + head).to(tl.float32)
    x = tl.load(x_ptr + token * stride_xt + head * HEAD_DIM + p, p < HEAD_DIM, other=0.0).to(tl.float32)
    B = tl.load(B_ptr + token * stride_bt + group * N + n).to(tl.float32)
    C = tl.load(C_ptr + token * stride_ct + group * N + n).to(tl.float32)
    new = state.to(tl.float32) * decay + (x * dt)[:, None] * B[None, :]
    if HEAD_DIM % TILE == 0:
        tl.store(state_ptr, new.to(state_ptr.dtype.element_ty))
    else:
        tl.store(state_ptr, new.to(state_ptr.dtype.element_ty), (p < HEAD_DIM)[:, None])
    y = tl.sum(new * C[None, :], axis=1) + D * x
    y_ptr += (token * HEADS + head) * HEAD_DIM + p
    tl.store(y_ptr, y.to(y_ptr.dtype.element_ty), p < HEAD_DIM)


def step_tokens(
    x_THP: Tensor,
    dt_TH: Tensor,
    dt_bias_H: Tensor,
    A_H: Tensor,
    B_TGN: Tensor,
    C_TGN: Tensor,
    D_H: Tensor,
    state_RHPN: Tensor,
    y_THP: Tensor,
    layout: Layout,
) -> None:
    """Advance the first `num_decodes` sequences by one token; writes their part of `y_THP` and their rows."""
    _, heads, head_dim = x_THP.shape
    groups, n = B_TGN.shape[1:]
    _step[(triton.cdiv(head_dim, TILE), heads, layout.num_decodes)](
        x_THP,
        dt_TH,
        dt_bias_H,
        A_H,
        B_TGN,
        C_TGN,
        D_H,
        state_RHPN,
        y_THP,
        layout.rows_S,
        x_THP.stride(0),
        dt_TH.stride(0),
        B_TGN.stride(0),
        C_TGN.stride(0),
        state_RHPN.stride(0),
        heads,
        groups,
        head_dim,
        n,
        TILE,
        num_warps=1,
    )
