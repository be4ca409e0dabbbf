"""The scan's gradient in Triton: two walks over each sequence, nothing of size chunk x chunk in memory.

Training runs the forward kernel that the engine runs (`triton_prefill`), so both compute the same numbers, and keeps
only its inputs. Going back, a first kernel walks each sequence again and writes down the state before every chunk; a
second walks from the end to the start with the state's gradient in registers. A program owns BLOCK_P rows of one head's
state; what it contributes to gradients that all rows share (dt, B, C, A) is one summand, written apart and added up
afterwards, so that a result does not depend on who comes first.

Per chunk, with s_t the log decay summed from the chunk's start, w_tu = exp(s_t - s_u) for u <= t, and the gradients
g_t of y_t and E of the state after the chunk:
    m_tu = w_tu (C_t . B_u)                 q_tu = w_tu dt_u (g_t . x_u)
    du_u = sum_t m_tu g_t + exp(s_end - s_u) E B_u          the gradient of dt_u x_u
    dC_t = sum_u q_tu B_u + exp(s_t) S^T g_t
    dB_u = sum_t q_tu C_t + exp(s_end - s_u) dt_u E^T x_u
    ds   : every exponential above gives its own value to the s it adds and takes it from the s it subtracts
    E   <- exp(s_end) E + sum_t exp(s_t) g_t C_t^T

Products are at most 32 rows high, for the reason given in `triton_prefill`.
"""
# mypy: disable-error-code="no-untyped-def"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.layout import Layout
from holotron.kernels.scan.triton_prefill import scan_prompts, supported
from holotron.kernels.triton_math import softplus

__all__ = ["Scan", "supported"]


@triton.jit
def _decays(dt_ptr, bias, A, first, real_Q, stride_dt):
    """Step sizes (zero past the end), their raw values, and log decays from the chunk's start."""
    t = tl.arange(0, real_Q.shape[0])
    raw = tl.load(dt_ptr + (first + t) * stride_dt, real_Q, other=0.0).to(tl.float32) + bias
    dt = tl.where(real_Q, softplus(raw), 0.0)
    return dt, raw, tl.cumsum(dt * A, axis=0), tl.sum(dt * A, axis=0)


@triton.jit(do_not_specialize_on_alignment=["starts_ptr", "first_ptr"])
def _states(
    x_ptr,
    dt_ptr,
    dt_bias_ptr,
    A_ptr,
    B_ptr,
    starts_ptr,
    first_ptr,
    states_ptr,
    stride_x,
    stride_dt,
    stride_b,
    HEADS: tl.constexpr,
    GROUPS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    N: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK_P: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The state before every chunk, [chunks, H, P, N]."""
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    head = tl.program_id(1)
    sequence = tl.program_id(2)
    group = head // (HEADS // GROUPS)
    start = tl.load(starts_ptr + sequence).to(tl.int64)
    length = tl.load(starts_ptr + sequence + 1) - start.to(tl.int32)
    chunk = tl.load(first_ptr + sequence).to(tl.int64)
    bias = tl.load(dt_bias_ptr + head).to(tl.float32)
    A = tl.load(A_ptr + head).to(tl.float32)
    t = tl.arange(0, CHUNK)
    n = tl.arange(0, N)
    state = tl.zeros([BLOCK_P, N], tl.float32)
    for at in range(0, length, CHUNK):
        here = states_ptr + ((chunk * HEADS + head) * HEAD_DIM + p[:, None]) * N + n[None, :]
        tl.store(here, state.to(states_ptr.dtype.element_ty), p[:, None] < HEAD_DIM)
        real = at + t < length
        row = start + at
        dt, _, upto, over = _decays(dt_ptr + head, bias, A, row, real, stride_dt)
        some = real[:, None] & (p < HEAD_DIM)[None, :]
        x = tl.load(x_ptr + (row + t)[:, None] * stride_x + (head * HEAD_DIM + p)[None, :], some, other=0.0)
        B = tl.load(B_ptr + (row + t)[:, None] * stride_b + (group * N + n)[None, :], real[:, None], other=0.0)
        inputs = (x.to(tl.float32) * (dt * tl.exp(over - upto))[:, None]).to(B.dtype)
        state = tl.dot(tl.trans(inputs), B, acc=state * tl.exp(over), input_precision=PRECISION)
        chunk += 1


@triton.jit(do_not_specialize=["tokens", "sequences"], do_not_specialize_on_alignment=["starts_ptr", "first_ptr"])
def _backward(
    x_ptr,
    dt_ptr,
    dt_bias_ptr,
    A_ptr,
    B_ptr,
    C_ptr,
    D_ptr,
    dy_ptr,
    starts_ptr,
    first_ptr,
    states_ptr,
    dx_ptr,
    ddt_ptr,
    dB_ptr,
    dC_ptr,
    dA_ptr,
    dD_ptr,
    tokens,
    sequences,
    stride_x,
    stride_dt,
    stride_b,
    stride_c,
    stride_dy,
    HEADS: tl.constexpr,
    GROUPS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    N: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK_P: tl.constexpr,
    PRECISION: tl.constexpr,
):
    block = tl.program_id(0)
    p = block * BLOCK_P + tl.arange(0, BLOCK_P)
    head = tl.program_id(1)
    sequence = tl.program_id(2)
    group = head // (HEADS // GROUPS)
    start = tl.load(starts_ptr + sequence).to(tl.int64)
    length = tl.load(starts_ptr + sequence + 1) - start.to(tl.int32)
    chunks = (length + CHUNK - 1) // CHUNK
    first_chunk = tl.load(first_ptr + sequence).to(tl.int64)
    bias = tl.load(dt_bias_ptr + head).to(tl.float32)
    A = tl.load(A_ptr + head).to(tl.float32)
    D = tl.load(D_ptr + head).to(tl.float32)
    share = block * HEADS + head  # of what is added up over blocks and heads
    BLOCKS: tl.constexpr = (HEAD_DIM + BLOCK_P - 1) // BLOCK_P
    t = tl.arange(0, CHUNK)
    n = tl.arange(0, N)
    dstate = tl.zeros([BLOCK_P, N], tl.float32)
    dA = 0.0
    dD = 0.0
    for back in range(0, chunks):
        c = chunks - 1 - back
        real = c * CHUNK + t < length
        row = start + c * CHUNK
        dt, raw, upto, over = _decays(dt_ptr + head, bias, A, row, real, stride_dt)
        some = real[:, None] & (p < HEAD_DIM)[None, :]
        mine = (head * HEAD_DIM + p)[None, :]
        x = tl.load(x_ptr + (row + t)[:, None] * stride_x + mine, some, other=0.0)
        dy = tl.load(dy_ptr + (row + t)[:, None] * stride_dy + mine, some, other=0.0)
        B = tl.load(B_ptr + (row + t)[:, None] * stride_b + (group * N + n)[None, :], real[:, None], other=0.0)
        C = tl.load(C_ptr + (row + t)[:, None] * stride_c + (group * N + n)[None, :], real[:, None], other=0.0)
        here = states_ptr + (((first_chunk + c) * HEADS + head) * HEAD_DIM + p[:, None]) * N + n[None, :]
        state = tl.load(here, p[:, None] < HEAD_DIM, other=0.0)
        dtype = x.dtype

        weight = tl.exp(tl.where(t[:, None] >= t[None, :], upto[:, None] - upto[None, :], float("-inf")))
        mix = tl.dot(C, tl.trans(B), input_precision=PRECISION) * weight
        inner = tl.dot(dy, tl.trans(x), input_precision=PRECISION) * dt[None, :]
        pull = (inner * weight).to(dtype)
        both = inner * mix
        to_end = tl.exp(over - upto)
        from_start = tl.exp(upto)
        narrow = dstate.to(dtype)

        kept = tl.dot(B, tl.trans(narrow), input_precision=PRECISION) * to_end[:, None]  # Q P
        dinput = tl.dot(tl.trans(mix.to(dtype)), dy, acc=kept, input_precision=PRECISION)
        held = tl.dot(dy, state, input_precision=PRECISION) * from_start[:, None]  # Q N
        dC = tl.dot(pull, B, acc=held, input_precision=PRECISION)
        left = tl.dot(x, narrow, input_precision=PRECISION) * (to_end * dt)[:, None]  # Q N
        dB = tl.dot(tl.trans(pull), C, acc=left, input_precision=PRECISION)

        x32 = x.to(tl.float32)
        dy32 = dy.to(tl.float32)
        ends = dt * tl.sum(x32 * kept, axis=1)
        dupto = tl.sum(both, axis=1) - tl.sum(both, axis=0) + tl.sum(held * C.to(tl.float32), axis=1) - ends
        through = tl.exp(over) * tl.sum(tl.sum(state.to(tl.float32) * dstate, axis=1), axis=0)
        # s_t holds every step up to t: the gradient of a step is what all later s get.
        dstep = tl.sum(dupto, axis=0) - tl.cumsum(dupto, axis=0) + dupto + tl.sum(ends, axis=0) + through
        ddt = dstep * A + tl.sum(dinput * x32, axis=1)
        dA += tl.sum(dstep * dt, axis=0)
        dD += tl.sum(tl.sum(x32 * dy32, axis=1), axis=0)
        dx = dinput * dt[:, None] + D * dy32
        pushed = (dy32 * from_start[:, None]).to(dtype)
        dstate = tl.dot(tl.trans(pushed), C, acc=dstate * tl.exp(over), input_precision=PRECISION)

        tl.store(dx_ptr + (row + t)[:, None] * (HEADS * HEAD_DIM) + mine, dx.to(dx_ptr.dtype.element_ty), some)
        tl.store(ddt_ptr + (block * tokens + row + t) * HEADS + head, ddt * tl.sigmoid(raw), real)
        at = ((row + t)[:, None] * (BLOCKS * HEADS) + share) * N + n[None, :]
        tl.store(dB_ptr + at, dB.to(dB_ptr.dtype.element_ty), real[:, None])
        tl.store(dC_ptr + at, dC.to(dC_ptr.dtype.element_ty), real[:, None])
    tl.store(dA_ptr + share * sequences + sequence, dA)
    tl.store(dD_ptr + share * sequences + sequence, dD)


class Scan(torch.autograd.Function):
    """Whole sequences from empty states, as in training."""

    @staticmethod
    def forward(
        ctx: Any,
        x_THP: Tensor,
        dt_TH: Tensor,
        dt_bias_H: Tensor,
        A_H: Tensor,
        B_TGN: Tensor,
        C_TGN: Tensor,
        D_H: Tensor,
        layout: Layout,
    ) -> Tensor:
        y = torch.empty(x_THP.shape, dtype=x_THP.dtype, device=x_THP.device)
        scan_prompts(x_THP, dt_TH, dt_bias_H, A_H, B_TGN, C_TGN, D_H, None, y, layout)
        ctx.save_for_backward(x_THP, dt_TH, dt_bias_H, A_H, B_TGN, C_TGN, D_H)
        ctx.layout = layout
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, dt, bias, A, B, C, D = ctx.saved_tensors
        layout: Layout = ctx.layout
        dy = gradients[0].contiguous()
        tokens, heads, head_dim = x.shape
        groups, n = B.shape[1:]
        sixteen_bit = x.element_size() == 2
        chunk, precision = (32, "tf32") if sixteen_bit else (16, "ieee")
        block_p = 32 if head_dim > 16 else 16
        blocks = triton.cdiv(head_dim, block_p)
        cuts = layout.chunks(chunk)
        grid = (blocks, heads, layout.num_sequences)
        sizes = (heads, groups, head_dim, n, chunk, block_p, precision)

        def new(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.empty(shape, dtype=dtype, device=x.device)

        states = new(cuts.count, heads, head_dim, n, dtype=x.dtype)
        strides = (x.stride(0), dt.stride(0), B.stride(0))
        _states[grid](x, dt, bias, A, B, layout.starts_S1, cuts.first_S, states, *strides, *sizes, num_warps=4)
        dx = torch.empty_like(x, memory_format=torch.contiguous_format)
        ddt, (dB, dC) = new(blocks, tokens, heads), new(2, tokens, blocks * heads, n, dtype=x.dtype)
        dA, dD = new(2, blocks * heads, layout.num_sequences)
        _backward[grid](
            x,
            dt,
            bias,
            A,
            B,
            C,
            D,
            dy,
            layout.starts_S1,
            cuts.first_S,
            states,
            dx,
            ddt,
            dB,
            dC,
            dA,
            dD,
            tokens,
            layout.num_sequences,
            *strides,
            C.stride(0),
            dy.stride(0),
            *sizes,
            num_warps=4,
        )
        ddt = ddt.sum(0)

        def by_group(t: Tensor) -> Tensor:
            """Shares of blocks and heads, added up over each group."""
            return t.view(tokens, blocks, groups, -1, n).sum((1, 3), dtype=torch.float32).to(B.dtype)

        def by_head(t: Tensor, like: Tensor) -> Tensor:
            return t.view(blocks, heads, -1).sum((0, 2)).to(like.dtype)

        return (
            dx,
            ddt.to(dt.dtype),
            ddt.sum(0).to(bias.dtype),
            by_head(dA, A),
            by_group(dB),
            by_group(dC),
            by_head(dD, D),
            None,
        )
