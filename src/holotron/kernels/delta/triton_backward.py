"""The gated delta rule's gradient in Triton: two walks over each sequence, as the scan's.

Training runs the forward kernels that the engine runs (`triton_prefill`), so both compute the same numbers, and keeps
only their inputs. Going back, the forward walk is repeated, writing down the state before every chunk and the
correction n_t of every token; then a kernel walks from the end to the start with the state's gradient in registers. A
program owns BLOCK_V rows of one head's state; what it contributes to gradients that all rows share is one summand,
written apart and added up afterwards, so that a result does not depend on who comes first.

Per chunk, with w_tu = exp(s_t - s_u), f_t = exp(s_t), e_t = exp(s_end - s_t), queries and keys of length one, S the
state before and E the gradient of the state after, g_t the gradient of y_t:

    dn_u = sum_{t>=u} w_tu (q_t . k_u) g_t + e_u E k_u            dr = solve^T dn,   dv = dr
    D_tu = w_tu (g_t . n_u), u <= t         F_tu = -w_tu (dr_t . n_u), u < t
    dq_t = f_t S^T g_t + sum_u D_tu k_u
    dk_t = e_t E^T n_t - f_t S^T dr_t + sum_u D_ut q_u + sum_u (F_tu + F_ut) k_u
    dbeta_t = (dr_t . n_t) / beta_t^2
    ds   : every exponential above gives its own value to the s it adds and takes it from the s it subtracts
    E   <- exp(s_end) E + sum_t f_t (g_t q_t^T - dr_t k_t^T)

Products are at most 32 rows high, for the reason given in `scan.triton_prefill`.
"""
# mypy: disable-error-code="no-untyped-def"

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.delta.reference import EPS
from holotron.kernels.delta.triton_prefill import supported, walk
from holotron.kernels.delta.triton_prepare import CHUNK, Prepared, decays, one_over_length, rows
from holotron.kernels.layout import Layout
from holotron.kernels.triton_math import LOG2E

__all__ = ["Delta", "supported"]

WARPS, STAGES = 8, 1


@triton.jit(do_not_specialize=["tokens"], do_not_specialize_on_alignment=["starts_ptr", "first_ptr"])
def _backward(
    q_ptr,
    k_ptr,
    a_ptr,
    b_ptr,
    dt_bias_ptr,
    A_ptr,
    solve_ptr,
    states_ptr,
    new_ptr,
    dy_ptr,
    starts_ptr,
    first_ptr,
    dq_ptr,
    dk_ptr,
    dv_ptr,
    dstep_ptr,
    db_ptr,
    tokens,
    stride_q,
    stride_k,
    stride_a,
    stride_b,
    HEADS: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_V: tl.constexpr,
    CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    block = tl.program_id(0)
    head = tl.program_id(1)
    sequence = tl.program_id(2)
    group = head // (HEADS // KEY_HEADS)
    start = tl.load(starts_ptr + sequence).to(tl.int64)
    length = tl.load(starts_ptr + sequence + 1) - start.to(tl.int32)
    chunks = (length + CHUNK - 1) // CHUNK
    first_chunk = tl.load(first_ptr + sequence).to(tl.int64)
    bias = tl.load(dt_bias_ptr + head).to(tl.float32)
    A = tl.load(A_ptr + head).to(tl.float32) * LOG2E
    SCALE: tl.constexpr = K**-0.5
    BLOCKS: tl.constexpr = (V + BLOCK_V - 1) // BLOCK_V
    share = block * HEADS + head  # of what is added up over blocks and heads
    solve_ptr += head * tokens.to(tl.int64) * CHUNK
    t = tl.arange(0, CHUNK)
    n = tl.arange(0, K)
    p = block * BLOCK_V + tl.arange(0, BLOCK_V)
    causal = t[:, None] >= t[None, :]
    dstate = tl.zeros([BLOCK_V, K], tl.float32)
    for back in range(0, chunks):
        c = chunks - 1 - back
        real = c * CHUNK + t < length
        token = start + c * CHUNK + t
        step, beta = decays(a_ptr + head, b_ptr + head, bias, A, token, real, stride_a, stride_b)
        upto = tl.cumsum(step, axis=0)
        over = tl.sum(step, axis=0)
        from_start = tl.exp2(upto)
        to_end = tl.exp2(over - upto)
        k = rows(k_ptr + group * K, token, real, stride_k, K)
        q = rows(q_ptr + group * K, token, real, stride_q, K)
        short = one_over_length(k)
        long = one_over_length(q) * SCALE
        dtype = k.dtype
        some = real[:, None] & (p < V)[None, :]
        mine = (token * HEADS + head)[:, None] * V + p[None, :]
        dy = tl.load(dy_ptr + mine, some, other=0.0)
        new = tl.load(new_ptr + mine, some, other=0.0)
        solve = tl.load(solve_ptr + token[:, None] * CHUNK + t[None, :], real[:, None], other=0.0)
        here = states_ptr + (((first_chunk + c) * HEADS + head) * V + p[:, None]) * K + n[None, :]
        state = tl.load(here, (p < V)[:, None], other=0.0)

        weight = tl.exp2(tl.where(causal, upto[:, None] - upto[None, :], float("-inf")))
        same = tl.dot(k, tl.trans(k), input_precision=PRECISION) * short[:, None] * short[None, :]
        seen = tl.dot(q, tl.trans(k), input_precision=PRECISION) * long[:, None] * short[None, :]
        narrow = dstate.to(dtype)
        dnew = tl.dot(k, tl.trans(narrow), input_precision=PRECISION) * (short * to_end)[:, None]
        dnew = tl.dot(tl.trans((seen * weight).to(dtype)), dy, acc=dnew, input_precision=PRECISION)
        drest = tl.dot(tl.trans(solve), dnew.to(dtype), input_precision=PRECISION)
        dold = drest.to(dtype)
        pull = tl.dot(dy, tl.trans(new), input_precision=PRECISION) * weight
        push = tl.dot(dold, tl.trans(new), input_precision=PRECISION) * weight
        push = tl.where(t[:, None] == t[None, :], 0.0, -push)

        # One wide tile after the other, each stored as soon as it is done: together they would not fit the registers.
        both = pull * seen + push * same
        dupto = tl.sum(both, axis=1) - tl.sum(both, axis=0)
        at = (token[:, None] * (BLOCKS * HEADS) + share) * K + n[None, :]
        dq = tl.dot(dy, state, input_precision=PRECISION) * from_start[:, None]
        dupto += tl.sum(dq * q.to(tl.float32), axis=1) * long
        dq = tl.dot((pull * short[None, :]).to(dtype), k, acc=dq, input_precision=PRECISION)
        tl.store(dq_ptr + at, dq.to(dq_ptr.dtype.element_ty), real[:, None])
        dk = tl.dot(new, narrow, input_precision=PRECISION) * to_end[:, None]
        ends = tl.sum(dk * k.to(tl.float32), axis=1) * short
        lost = tl.dot(dold, state, input_precision=PRECISION) * from_start[:, None]
        dupto -= ends + tl.sum(lost * k.to(tl.float32), axis=1) * short
        dk = tl.dot(tl.trans((pull * long[:, None]).to(dtype)), q, acc=dk - lost, input_precision=PRECISION)
        around = (push + tl.trans(push)) * short[None, :]
        dk = tl.dot(around.to(dtype), k, acc=dk, input_precision=PRECISION)
        tl.store(dk_ptr + at, dk.to(dk_ptr.dtype.element_ty), real[:, None])

        through = tl.exp2(over) * tl.sum(tl.sum(state.to(tl.float32) * dstate, axis=1), axis=0)
        # s_t holds every step up to t: the gradient of a step is what all later s get.
        dstep = tl.sum(dupto, axis=0) - tl.cumsum(dupto, axis=0) + dupto + tl.sum(ends, axis=0) + through
        db = (1.0 - beta) / tl.maximum(beta, 1e-30) * tl.sum(drest * new.to(tl.float32), axis=1)
        tl.store(dv_ptr + mine, drest.to(dv_ptr.dtype.element_ty), some)
        tl.store(dstep_ptr + (block * tokens + token) * HEADS + head, dstep, real)
        tl.store(db_ptr + (block * tokens + token) * HEADS + head, db, real)
        gained = (dy.to(tl.float32) * (from_start * long)[:, None]).to(dtype)
        dstate = tl.dot(tl.trans(gained), q, acc=dstate * tl.exp2(over), input_precision=PRECISION)
        taken = (drest * (-from_start * short)[:, None]).to(dtype)
        dstate = tl.dot(tl.trans(taken), k, acc=dstate, input_precision=PRECISION)


class Delta(torch.autograd.Function):
    """Whole sequences from empty states, as in training."""

    @staticmethod
    def forward(
        ctx: Any,
        q_TGK: Tensor,
        k_TGK: Tensor,
        v_THV: Tensor,
        a_TH: Tensor,
        dt_bias_H: Tensor,
        A_H: Tensor,
        b_TH: Tensor,
        layout: Layout,
    ) -> Tensor:
        y = torch.empty(v_THV.shape, dtype=v_THV.dtype, device=v_THV.device)
        walk(q_TGK, k_TGK, v_THV, Prepared(q_TGK, k_TGK, a_TH, dt_bias_H, A_H, b_TH, layout), None, y, layout)
        ctx.save_for_backward(q_TGK, k_TGK, v_THV, a_TH, dt_bias_H, A_H, b_TH)
        ctx.layout = layout
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, a, bias, A, b = ctx.saved_tensors
        layout: Layout = ctx.layout
        dy = gradients[0].contiguous()
        tokens, heads, value_dim = v.shape
        key_heads, key_dim = k.shape[1:]
        block = 32 if value_dim > 16 else 16
        blocks = triton.cdiv(value_dim, block)
        cuts = layout.chunks(CHUNK)

        def new(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.empty(shape, dtype=dtype, device=v.device)

        prepared = Prepared(q, k, a, bias, A, b, layout)
        states = new(cuts.count, heads, value_dim, key_dim, dtype=v.dtype)
        corrections, dv = new(2, tokens, heads, value_dim, dtype=v.dtype)
        walk(q, k, v, prepared, None, None, layout, (states, corrections))
        dq, dk = new(2, tokens, blocks * heads, key_dim, dtype=v.dtype)
        dstep, db = new(2, blocks, tokens, heads)
        _backward[(blocks, heads, layout.num_sequences)](
            q,
            k,
            a,
            b,
            bias,
            A,
            prepared.solve,
            states,
            corrections,
            dy,
            layout.starts_S1,
            cuts.first_S,
            dq,
            dk,
            dv,
            dstep,
            db,
            tokens,
            q.stride(0),
            k.stride(0),
            a.stride(0),
            b.stride(0),
            heads,
            key_heads,
            key_dim,
            value_dim,
            block,
            CHUNK,
            prepared.precision,
            num_warps=WARPS,
            num_stages=STAGES,
        )

        def before_length(d: Tensor, x: Tensor, scale: float) -> Tensor:
            """Shares of blocks and heads added up over each key head, and taken back through x / |x|."""
            whole = d.view(tokens, blocks, key_heads, -1, key_dim).sum((1, 3), dtype=torch.float32)
            wide = x.float()
            short = torch.rsqrt(wide.square().sum(-1, keepdim=True) + EPS)
            along = (wide * whole).sum(-1, keepdim=True) * short.square()
            return ((whole - wide * along) * (short * scale)).to(x.dtype)

        dstep = dstep.sum(0)
        raw = a.float() + bias.float()
        da = dstep * A.float() * torch.sigmoid(raw)
        return (
            before_length(dq, q, key_dim**-0.5),
            before_length(dk, k, 1.0),
            dv,
            da.to(a.dtype),
            da.sum(0).to(bias.dtype),
            (dstep * F.softplus(raw)).sum(0).to(A.dtype),
            db.sum(0).to(b.dtype),
            None,
        )
