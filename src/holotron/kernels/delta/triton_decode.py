"""One token per sequence in Triton: the state is read, corrected by one token and written back where it lies.

Nothing but memory traffic (0.4 GB per layer at 100 sequences of 32 heads of 128 x 128), so the work is cut into tiles
of 16 state rows, each one program of one warp, as in `scan.triton_decode`. A state row needs the whole key and nothing
of the other rows, so no program waits for another.
"""
# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.delta.reference import EPS
from holotron.kernels.layout import Layout
from holotron.kernels.triton_math import softplus

TILE = 16
_EPS: tl.constexpr = tl.constexpr(EPS)


@triton.jit(do_not_specialize_on_alignment=["rows_ptr"])
def _step(
    q_ptr,
    k_ptr,
    v_ptr,
    a_ptr,
    dt_bias_ptr,
    A_ptr,
    b_ptr,
    state_ptr,
    y_ptr,
    rows_ptr,
    stride_q,
    stride_k,
    stride_v,
    stride_a,
    stride_b,
    stride_r,
    HEADS: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    TILE: tl.constexpr,
):
    head = tl.program_id(1)
    token = tl.program_id(2).to(tl.int64)
    group = head // (HEADS // KEY_HEADS)
    p = tl.program_id(0) * TILE + tl.arange(0, TILE)
    n = tl.arange(0, K)
    row = tl.load(rows_ptr + token).to(tl.int64)
    state_ptr += row * stride_r + (head * V + p)[:, None] * K + n[None, :]
    if V % TILE == 0:
        state = tl.load(state_ptr)
    else:
        state = tl.load(state_ptr, (p < V)[:, None], other=0.0)
    k = tl.load(k_ptr + token * stride_k + group * K + n).to(tl.float32)
    q = tl.load(q_ptr + token * stride_q + group * K + n).to(tl.float32)
    v = tl.load(v_ptr + token * stride_v + head * V + p, p < V, other=0.0).to(tl.float32)
    a = tl.load(a_ptr + token * stride_a + head).to(tl.float32) + tl.load(dt_bias_ptr + head).to(tl.float32)
    beta = tl.sigmoid(tl.load(b_ptr + token * stride_b + head).to(tl.float32))
    decay = tl.exp(tl.load(A_ptr + head).to(tl.float32) * softplus(a))
    k *= tl.rsqrt(tl.sum(k * k, axis=0) + _EPS)
    q *= tl.rsqrt(tl.sum(q * q, axis=0) + _EPS) * K**-0.5
    faded = state.to(tl.float32) * decay
    wrong = beta * (v - tl.sum(faded * k[None, :], axis=1))
    new = faded + wrong[:, None] * k[None, :]
    if V % TILE == 0:
        tl.store(state_ptr, new.to(state_ptr.dtype.element_ty))
    else:
        tl.store(state_ptr, new.to(state_ptr.dtype.element_ty), (p < V)[:, None])
    y = tl.sum(new * q[None, :], axis=1)
    tl.store(y_ptr + (token * HEADS + head) * V + p, y.to(y_ptr.dtype.element_ty), p < V)


def step_tokens(
    q_TGK: Tensor,
    k_TGK: Tensor,
    v_THV: Tensor,
    a_TH: Tensor,
    dt_bias_H: Tensor,
    A_H: Tensor,
    b_TH: Tensor,
    state_RHVK: Tensor,
    y_THV: Tensor,
    layout: Layout,
) -> None:
    """Advance the first `num_decodes` sequences by one token; writes their part of `y_THV` and their rows."""
    _, heads, value_dim = v_THV.shape
    key_heads, key_dim = k_TGK.shape[1:]
    _step[(triton.cdiv(value_dim, TILE), heads, layout.num_decodes)](
        q_TGK,
        k_TGK,
        v_THV,
        a_TH,
        dt_bias_H,
        A_H,
        b_TH,
        state_RHVK,
        y_THV,
        layout.rows_S,
        q_TGK.stride(0),
        k_TGK.stride(0),
        v_THV.stride(0),
        a_TH.stride(0),
        b_TH.stride(0),
        state_RHVK.stride(0),
        heads,
        key_heads,
        key_dim,
        value_dim,
        TILE,
        num_warps=1,
    )
