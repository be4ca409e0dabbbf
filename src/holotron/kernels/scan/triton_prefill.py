"""The chunked scan in Triton: one launch, the state never leaves the chip between chunks.

A program walks one sequence for one head, CHUNK tokens at a time, with the head's state in registers. The textbook form
runs the chunks in parallel and passes states through device memory in five launches; with 128 heads there is enough
parallelism without that, and a chunk's state is larger than the inputs that made it, so not writing it saves most of
the traffic. The price is that each head multiplies C B^T for itself instead of sharing it with its group.

Per chunk, with a_t = dt_t A summed from the chunk's start (s_t):
    y_t   = exp(s_t) C_t S + sum_{u<=t} exp(s_t - s_u) dt_u (C_t . B_u) x_u + D x_t
    S    <- exp(s_end) S + sum_u exp(s_end - s_u) dt_u B_u x_u^T

Products take the inputs' dtype and accumulate in fp32; the state is fp32 throughout and only rounded as an operand.
Matrix tiles have powers of two as sides, so a head of 80 columns is walked as 64 + 16.
"""
# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.dispatch import power_of_two, roomy, two_powers
from holotron.kernels.layout import Layout
from holotron.kernels.triton_math import LOG2E, softplus

CHUNK = 64  # as tall as one Hopper matrix instruction; larger chunks do more work inside (it grows with the square)


@triton.jit(do_not_specialize=["num_spans"], do_not_specialize_on_alignment=["spans_ptr"])
def _decays(
    dt_ptr,
    dt_bias_ptr,
    A_ptr,
    spans_ptr,
    upto_ptr,
    into_ptr,
    num_spans,
    tokens,
    stride_dt,
    HEADS: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK_H: tl.constexpr,
):
    """For every token, as powers of two: the decay from its chunk's start up to and with it (`upto`), and the same less
    its step size (`into`), so that exp2(upto[t] - into[u]) = decay from u to t, times dt[u]."""
    span = tl.program_id(0)
    first = tl.load(spans_ptr + span).to(tl.int64)
    count = tl.load(spans_ptr + num_spans + span)
    within = tl.arange(0, CHUNK)
    head = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    real = (within < count)[:, None] & (head < HEADS)[None, :]
    dt = tl.load(dt_ptr + (first + within)[:, None] * stride_dt + head[None, :], real, other=0.0).to(tl.float32)
    dt = softplus(dt + tl.load(dt_bias_ptr + head, head < HEADS, other=0.0).to(tl.float32)[None, :])
    A = tl.load(A_ptr + head, head < HEADS, other=0.0).to(tl.float32) * LOG2E
    upto = tl.cumsum(dt * A[None, :], axis=0)
    at = head[None, :] * tokens.to(tl.int64) + (first + within)[:, None]
    tl.store(upto_ptr + at, upto, real)
    tl.store(into_ptr + at, upto - tl.log2(dt), real)


@triton.jit
def _columns(
    state_NP,
    mix_QQ,
    B_QN,
    C_QN,
    from_start_Q,
    to_end_Q,
    over_chunk,
    D,
    x_ptr,
    y_ptr,
    real_Q,
    stride_x,
    stride_y,
    FIRST: tl.constexpr,
    WIDTH: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PRECISION: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """One chunk for WIDTH of the head's columns: write y, return the new state."""
    p = FIRST + tl.arange(0, WIDTH)[None, :]
    token = tl.arange(0, CHUNK)[:, None]
    real = real_Q[:, None]
    if FIRST + WIDTH > HEAD_DIM:
        real = real & (p < HEAD_DIM)
    x = tl.load(x_ptr + token * stride_x + p, real, other=0.0)
    y = tl.dot(C_QN, state_NP.to(C_QN.dtype), input_precision=PRECISION) * from_start_Q[:, None]
    y = tl.dot(mix_QQ, x, acc=y, input_precision=PRECISION)
    wide = x.to(tl.float32)
    y += D * wide
    tl.store(y_ptr + token * stride_y + p, y.to(y_ptr.dtype.element_ty), real)
    inputs = (wide * to_end_Q[:, None]).to(x.dtype)
    return tl.dot(tl.trans(B_QN), inputs, acc=state_NP * over_chunk, input_precision=PRECISION)


@triton.jit
def _load_state(state_ptr, FIRST: tl.constexpr, WIDTH: tl.constexpr, HEAD_DIM: tl.constexpr, N: tl.constexpr):
    p = FIRST + tl.arange(0, WIDTH)[None, :]
    return tl.load(state_ptr + p * N + tl.arange(0, N)[:, None], p < HEAD_DIM, other=0.0).to(tl.float32)


@triton.jit
def _store_state(
    state_ptr, state_NP, FIRST: tl.constexpr, WIDTH: tl.constexpr, HEAD_DIM: tl.constexpr, N: tl.constexpr
):
    p = FIRST + tl.arange(0, WIDTH)[None, :]
    tl.store(state_ptr + p * N + tl.arange(0, N)[:, None], state_NP.to(state_ptr.dtype.element_ty), p < HEAD_DIM)


@triton.jit(
    do_not_specialize=["num_decodes"],
    do_not_specialize_on_alignment=["starts_ptr", "rows_ptr", "first_ptr", "marks_ptr", "spare_ptr"],
)
def _scan(
    x_ptr,
    upto_ptr,
    into_ptr,
    B_ptr,
    C_ptr,
    D_ptr,
    state_ptr,
    y_ptr,
    starts_ptr,
    rows_ptr,
    first_ptr,
    marks_ptr,
    spare_ptr,
    num_decodes,
    tokens,
    stride_xt,
    stride_bt,
    stride_ct,
    stride_r,
    HEADS: tl.constexpr,
    GROUPS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    N: tl.constexpr,
    LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
    CHUNK: tl.constexpr,
    HAS_STATE: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):
    head = tl.program_id(0)
    sequence = num_decodes + tl.program_id(1)
    group = head // (HEADS // GROUPS)
    start = tl.load(starts_ptr + sequence).to(tl.int64)
    length = tl.load(starts_ptr + sequence + 1) - start.to(tl.int32)
    x_ptr += start * stride_xt + head * HEAD_DIM
    y_ptr += start * (HEADS * HEAD_DIM) + head * HEAD_DIM
    B_ptr += start * stride_bt + group * N
    C_ptr += start * stride_ct + group * N
    upto_ptr += start + head * tokens.to(tl.int64)
    into_ptr += start + head * tokens.to(tl.int64)
    D = tl.load(D_ptr + head).to(tl.float32)

    state_ptr += head * (HEAD_DIM * N)
    row = tl.load(rows_ptr + sequence).to(tl.int64)
    left = tl.zeros([N, LEFT], tl.float32)
    if HAS_STATE:
        left = _load_state(state_ptr + row * stride_r, 0, LEFT, HEAD_DIM, N)
    if RIGHT > 0:
        right = tl.zeros([N, RIGHT], tl.float32)
        if HAS_STATE:
            right = _load_state(state_ptr + row * stride_r, LEFT, RIGHT, HEAD_DIM, N)

    within = tl.arange(0, CHUNK)
    n = tl.arange(0, N)
    causal = within[:, None] >= within[None, :]
    # From mark to mark (where a snapshot is due), and on to the end.
    mark = tl.load(first_ptr + sequence)
    last = tl.load(first_ptr + sequence + 1)
    begin = 0
    while mark <= last:
        end = length
        if mark < last:
            end = tl.load(marks_ptr + mark)
        for at in tl.range(begin, end, CHUNK, num_stages=STAGES):
            real = within < end - at
            skip = tl.cast(at, tl.int64)  # a long prompt has more elements than 32 bits can count
            upto = tl.load(upto_ptr + at + within, real, other=float("-inf"))
            into = tl.load(into_ptr + at + within, real, other=float("inf"))
            over_chunk = tl.load(upto_ptr + tl.minimum(at + CHUNK, end) - 1)
            C_at = C_ptr + skip * stride_ct + within[:, None] * stride_ct + n[None, :]
            C = tl.load(C_at, real[:, None], other=0.0)
            B_at = B_ptr + skip * stride_bt + within[:, None] * stride_bt + n[None, :]
            B = tl.load(B_at, real[:, None], other=0.0)
            weight = tl.exp2(tl.where(causal, upto[:, None] - into[None, :], float("-inf")))
            mix = tl.dot(C, tl.trans(B), input_precision=PRECISION) * weight
            mix = mix.to(x_ptr.dtype.element_ty)
            from_start = tl.exp2(upto)
            to_end = tl.exp2(over_chunk - into)
            x_at = x_ptr + skip * stride_xt
            y_at = y_ptr + skip * (HEADS * HEAD_DIM)
            left = _columns(
                left, mix, B, C, from_start, to_end, tl.exp2(over_chunk), D,
                x_at, y_at, real, stride_xt, HEADS * HEAD_DIM, 0, LEFT, HEAD_DIM, PRECISION, CHUNK,
            )  # fmt: skip
            if RIGHT > 0:
                right = _columns(
                    right, mix, B, C, from_start, to_end, tl.exp2(over_chunk), D,
                    x_at, y_at, real, stride_xt, HEADS * HEAD_DIM, LEFT, RIGHT, HEAD_DIM, PRECISION, CHUNK,
                )  # fmt: skip
        if HAS_STATE:
            if mark < last:
                row = tl.load(spare_ptr + mark).to(tl.int64)
            else:
                row = tl.load(rows_ptr + sequence).to(tl.int64)
            _store_state(state_ptr + row * stride_r, left, 0, LEFT, HEAD_DIM, N)
            if RIGHT > 0:
                _store_state(state_ptr + row * stride_r, right, LEFT, RIGHT, HEAD_DIM, N)
        begin = end
        mark += 1


def supported(head_dim: int, state: int) -> bool:
    return power_of_two(state) and 16 <= state <= 256 and head_dim <= 128


def scan_prompts(
    x_THP: Tensor,
    dt_TH: Tensor,
    dt_bias_H: Tensor,
    A_H: Tensor,
    B_TGN: Tensor,
    C_TGN: Tensor,
    D_H: Tensor,
    state_RHPN: Tensor | None,
    y_THP: Tensor,
    layout: Layout,
) -> None:
    """Scan every sequence after the decodes; writes their part of `y_THP` and their rows of the state."""
    tokens, heads, head_dim = x_THP.shape
    groups, n = B_TGN.shape[1:]
    sixteen_bit = x_THP.element_size() == 2
    chunk = CHUNK if sixteen_bit else 16  # fp32 has no matrix instruction; small tiles fit the registers
    spans = layout.spans(chunk)
    upto, into = torch.empty((2, heads, tokens), dtype=torch.float32, device=x_THP.device)
    _decays[(spans.shape[1], triton.cdiv(heads, 32))](
        dt_TH,
        dt_bias_H,
        A_H,
        spans,
        upto,
        into,
        spans.shape[1],
        tokens,
        dt_TH.stride(0),
        heads,
        chunk,
        32,
        num_warps=4,
    )
    left, right = two_powers(head_dim, least=16)
    state = state_RHPN if state_RHPN is not None else x_THP
    _scan[(heads, layout.num_prefills)](
        x_THP,
        upto,
        into,
        B_TGN,
        C_TGN,
        D_H,
        state,
        y_THP,
        layout.starts_S1,
        layout.rows_S,
        *layout.marks,
        layout.num_decodes,
        tokens,
        x_THP.stride(0),
        B_TGN.stride(0),
        C_TGN.stride(0),
        state.stride(0),
        heads,
        groups,
        head_dim,
        n,
        left,
        right,
        chunk,
        state_RHPN is not None,
        "tf32" if sixteen_bit else "ieee",  # only fp32 inputs look at this
        2 if sixteen_bit and roomy(x_THP.device) else 1,
        num_warps=4,
    )
