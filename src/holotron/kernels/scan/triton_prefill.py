"""The chunked scan in Triton: the state never leaves the chip between chunks.

A program walks one sequence for one head, CHUNK tokens at a time, with the head's state in registers. The textbook form
runs the chunks in parallel and passes states through device memory in five launches; with 128 heads there is enough
parallelism without that, and a chunk's state is larger than the inputs that made it, so not writing it saves most of
the traffic. A first, small kernel computes what needs no state: the decays, and C B^T, which a group's heads share.

Per chunk, with a_t = dt_t A summed from the chunk's start (s_t):
    y_t   = exp(s_t) S C_t + sum_{u<=t} exp(s_t - s_u) dt_u (C_t . B_u) x_u + D x_t
    S    <- exp(s_end) S + sum_u exp(s_end - s_u) dt_u x_u B_u^T

Products take the inputs' dtype and accumulate in fp32; the state is fp32 throughout and only rounded as an operand.

Every product here is at most 32 rows high, so that the compiler uses the ordinary matrix instruction. From 64 rows on
it would take Hopper's asynchronous one (wgmma), and the assembler that comes with Triton (ptxas before 13.3) gets
kernels with several of those in a loop wrong: seen here as illegal memory accesses, reported as triton-lang/triton
9433, 11366 and 11781. The state of a head is therefore held as three tiles of 32 or 16 rows (80 = 32 + 32 + 16).
"""
# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.dispatch import power_of_two
from holotron.kernels.layout import Layout
from holotron.kernels.triton_math import LOG2E, softplus

CHUNK = 32
BLOCK_H = 16  # heads per program of the first kernel


@triton.jit(do_not_specialize=["num_spans", "tokens"], do_not_specialize_on_alignment=["spans_ptr"])
def _prepare(
    dt_ptr,
    dt_bias_ptr,
    A_ptr,
    B_ptr,
    C_ptr,
    spans_ptr,
    upto_ptr,
    into_ptr,
    product_ptr,
    num_spans,
    tokens,
    stride_dt,
    stride_b,
    stride_c,
    HEADS: tl.constexpr,
    GROUPS: tl.constexpr,
    N: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK_H: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """What needs no state, for one chunk. A group's C B^T, [t, u]. For a block of heads and every token, as powers of
    two: the decay from the chunk's start up to and with it (`upto`), and the same less its step size (`into`), so that
    exp2(upto[t] - into[u]) = decay from u to t, times dt[u]."""
    span = tl.program_id(0)
    first = tl.load(spans_ptr + span).to(tl.int64)
    count = tl.load(spans_ptr + num_spans + span)
    t = tl.arange(0, CHUNK)
    real = t < count
    if tl.program_id(1) < GROUPS:
        group = tl.program_id(1)
        n = group * N + tl.arange(0, N)
        C = tl.load(C_ptr + (first + t)[:, None] * stride_c + n[None, :], real[:, None], other=0.0)
        B = tl.load(B_ptr + (first + t)[None, :] * stride_b + n[:, None], real[None, :], other=0.0)
        product = tl.dot(C, B, input_precision=PRECISION)
        at = (group * tokens.to(tl.int64) + first + t)[:, None] * CHUNK + t[None, :]
        tl.store(product_ptr + at, product.to(product_ptr.dtype.element_ty), real[:, None])
    else:
        head = (tl.program_id(1) - GROUPS) * BLOCK_H + tl.arange(0, BLOCK_H)
        some = real[:, None] & (head < HEADS)[None, :]
        dt = tl.load(dt_ptr + (first + t)[:, None] * stride_dt + head[None, :], some, other=0.0).to(tl.float32)
        dt = softplus(dt + tl.load(dt_bias_ptr + head, head < HEADS, other=0.0).to(tl.float32)[None, :])
        A = tl.load(A_ptr + head, head < HEADS, other=0.0).to(tl.float32) * LOG2E
        upto = tl.cumsum(dt * A[None, :], axis=0)
        place = head[None, :] * tokens.to(tl.int64) + (first + t)[:, None]
        tl.store(upto_ptr + place, upto, some)
        tl.store(into_ptr + place, upto - tl.log2(dt), some)


@triton.jit
def _output(C_QN, state_PN, from_start_Q, mix_QQ, x_QP, PRECISION: tl.constexpr):
    """What the state before the chunk and the chunk's own tokens give."""
    y = tl.dot(C_QN, tl.trans(state_PN.to(C_QN.dtype)), input_precision=PRECISION) * from_start_Q[:, None]
    return tl.dot(mix_QQ, x_QP, acc=y, input_precision=PRECISION)


@triton.jit
def _chunk(
    state0, state1, state2, x_ptr, y_ptr, B_ptr, C_ptr, upto_ptr, into_ptr, product_ptr, D, count, first,
    stride_x, stride_b, stride_c, STRIDE_Y: tl.constexpr, HEAD_DIM: tl.constexpr, N: tl.constexpr,
    SIZE0: tl.constexpr, SIZE1: tl.constexpr, SIZE2: tl.constexpr,
    CHUNK: tl.constexpr, FULL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One chunk of CHUNK tokens (or, if not FULL, of `count`) at the pointers given: write y, return the new states."""
    t = tl.arange(0, CHUNK)
    n = tl.arange(0, N)
    p0 = first + tl.arange(0, SIZE0)[None, :]
    p1 = first + SIZE0 + tl.arange(0, SIZE1)[None, :]
    p2 = first + SIZE0 + SIZE1 + tl.arange(0, SIZE2)[None, :]
    # Past the end, the last token is read again, with weight zero.
    at = t if FULL else tl.minimum(t, count - 1)
    upto = tl.load(upto_ptr + at)
    into = tl.load(into_ptr + t) if FULL else tl.load(into_ptr + t, t < count, other=float("inf"))
    over_chunk = tl.load(upto_ptr + (CHUNK if FULL else count) - 1)
    C = tl.load(C_ptr + at[:, None] * stride_c + n[None, :])
    B = tl.load(B_ptr + at[:, None] * stride_b + n[None, :])
    product = tl.load(product_ptr + at[:, None] * CHUNK + t[None, :])
    x0 = tl.load(x_ptr + at[:, None] * stride_x + p0, p0 < HEAD_DIM, other=0.0)
    x1 = tl.load(x_ptr + at[:, None] * stride_x + p1, p1 < HEAD_DIM, other=0.0)
    x2 = tl.load(x_ptr + at[:, None] * stride_x + p2, p2 < HEAD_DIM, other=0.0)

    weight = tl.exp2(tl.where(t[:, None] >= t[None, :], upto[:, None] - into[None, :], float("-inf")))
    mix = product * weight + tl.where(t[:, None] == t[None, :], D, 0.0)  # D x_t comes along
    mix = mix.to(C.dtype)
    from_start = tl.exp2(upto)
    to_end = tl.exp2(over_chunk - into)
    over = tl.exp2(over_chunk)
    # Step by step for all tiles, not tile by tile: they share barriers, and their products overlap.
    inputs0 = (x0.to(tl.float32) * to_end[:, None]).to(C.dtype)
    inputs1 = (x1.to(tl.float32) * to_end[:, None]).to(C.dtype)
    inputs2 = (x2.to(tl.float32) * to_end[:, None]).to(C.dtype)
    y0 = _output(C, state0, from_start, mix, x0, PRECISION)
    y1 = _output(C, state1, from_start, mix, x1, PRECISION)
    y2 = _output(C, state2, from_start, mix, x2, PRECISION)
    state0 = tl.dot(tl.trans(inputs0), B, acc=state0 * over, input_precision=PRECISION)
    state1 = tl.dot(tl.trans(inputs1), B, acc=state1 * over, input_precision=PRECISION)
    state2 = tl.dot(tl.trans(inputs2), B, acc=state2 * over, input_precision=PRECISION)
    y_ptr += t[:, None] * STRIDE_Y
    real = t[:, None] < (CHUNK if FULL else count)
    tl.store(y_ptr + p0, y0.to(y_ptr.dtype.element_ty), real & (p0 < HEAD_DIM))
    tl.store(y_ptr + p1, y1.to(y_ptr.dtype.element_ty), real & (p1 < HEAD_DIM))
    tl.store(y_ptr + p2, y2.to(y_ptr.dtype.element_ty), real & (p2 < HEAD_DIM))
    return state0, state1, state2


@triton.jit
def _load_rows(state_ptr, first, SIZE: tl.constexpr, HEAD_DIM: tl.constexpr, N: tl.constexpr):
    p = first + tl.arange(0, SIZE)[:, None]
    return tl.load(state_ptr + p * N + tl.arange(0, N)[None, :], p < HEAD_DIM, other=0.0).to(tl.float32)


@triton.jit
def _store_rows(state_ptr, state_PN, first, SIZE: tl.constexpr, HEAD_DIM: tl.constexpr, N: tl.constexpr):
    p = first + tl.arange(0, SIZE)[:, None]
    state_at = state_ptr + p * N + tl.arange(0, N)[None, :]
    tl.store(state_at, state_PN.to(state_ptr.dtype.element_ty), p < HEAD_DIM)


@triton.jit(
    do_not_specialize=["num_decodes", "tokens"],
    do_not_specialize_on_alignment=["starts_ptr", "rows_ptr", "first_ptr", "marks_ptr", "spare_ptr"],
)
def _scan(
    x_ptr,
    upto_ptr,
    into_ptr,
    product_ptr,
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
    stride_x,
    stride_b,
    stride_c,
    stride_r,
    HEADS: tl.constexpr,
    GROUPS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    N: tl.constexpr,
    SIZE0: tl.constexpr,
    SIZE1: tl.constexpr,
    SIZE2: tl.constexpr,
    CHUNK: tl.constexpr,
    HAS_STATE: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):
    first = tl.program_id(0) * (SIZE0 + SIZE1 + SIZE2)
    head = tl.program_id(1)
    sequence = num_decodes + tl.program_id(2)
    group = head // (HEADS // GROUPS)
    STRIDE_Y: tl.constexpr = HEADS * HEAD_DIM
    start = tl.load(starts_ptr + sequence).to(tl.int64)
    length = tl.load(starts_ptr + sequence + 1) - start.to(tl.int32)
    x_ptr += start * stride_x + head * HEAD_DIM
    y_ptr += start * STRIDE_Y + head * HEAD_DIM
    B_ptr += start * stride_b + group * N
    C_ptr += start * stride_c + group * N
    upto_ptr += start + head * tokens.to(tl.int64)
    into_ptr += start + head * tokens.to(tl.int64)
    product_ptr += (start + group * tokens.to(tl.int64)) * CHUNK
    D = tl.load(D_ptr + head).to(tl.float32)

    state_ptr += head * (HEAD_DIM * N)
    state0 = tl.zeros([SIZE0, N], tl.float32)
    state1 = tl.zeros([SIZE1, N], tl.float32)
    state2 = tl.zeros([SIZE2, N], tl.float32)
    if HAS_STATE:
        own_ptr = state_ptr + tl.load(rows_ptr + sequence).to(tl.int64) * stride_r
        state0 = _load_rows(own_ptr, first, SIZE0, HEAD_DIM, N)
        state1 = _load_rows(own_ptr, first + SIZE0, SIZE1, HEAD_DIM, N)
        state2 = _load_rows(own_ptr, first + SIZE0 + SIZE1, SIZE2, HEAD_DIM, N)

    # From mark to mark (where a snapshot is due), and on to the end; each time whole chunks, then what is left.
    mark = tl.load(first_ptr + sequence)
    last = tl.load(first_ptr + sequence + 1)
    begin = 0
    while mark <= last:
        end = length
        if mark < last:
            end = tl.load(marks_ptr + mark)
        whole = begin + (end - begin) // CHUNK * CHUNK
        for at in tl.range(begin, whole, CHUNK, num_stages=STAGES):
            skip = tl.cast(at, tl.int64)  # a long prompt has more elements than 32 bits can count
            state0, state1, state2 = _chunk(
                state0, state1, state2, x_ptr + skip * stride_x, y_ptr + skip * STRIDE_Y, B_ptr + skip * stride_b,
                C_ptr + skip * stride_c, upto_ptr + skip, into_ptr + skip, product_ptr + skip * CHUNK, D, CHUNK, first,
                stride_x, stride_b, stride_c, STRIDE_Y, HEAD_DIM, N, SIZE0, SIZE1, SIZE2, CHUNK, True, PRECISION,
            )  # fmt: skip
        if whole < end:
            skip = tl.cast(whole, tl.int64)
            state0, state1, state2 = _chunk(
                state0, state1, state2, x_ptr + skip * stride_x, y_ptr + skip * STRIDE_Y, B_ptr + skip * stride_b,
                C_ptr + skip * stride_c, upto_ptr + skip, into_ptr + skip, product_ptr + skip * CHUNK, D, end - whole,
                first, stride_x, stride_b, stride_c, STRIDE_Y, HEAD_DIM, N, SIZE0, SIZE1, SIZE2, CHUNK, False,
                PRECISION,
            )  # fmt: skip
        if HAS_STATE:
            if mark < last:
                row = tl.load(spare_ptr + mark).to(tl.int64)
            else:
                row = tl.load(rows_ptr + sequence).to(tl.int64)
            # The first start is always zero, which the compiler cannot know: it would otherwise compute these addresses
            # before the loop over chunks and keep them in registers all the while.
            late = first + tl.load(starts_ptr)
            _store_rows(state_ptr + row * stride_r, state0, late, SIZE0, HEAD_DIM, N)
            _store_rows(state_ptr + row * stride_r, state1, late + SIZE0, SIZE1, HEAD_DIM, N)
            _store_rows(state_ptr + row * stride_r, state2, late + SIZE0 + SIZE1, SIZE2, HEAD_DIM, N)
        begin = end
        mark += 1


def row_tiles(head_dim: int) -> tuple[int, int, int]:
    """How many state rows of a head a program holds, as tiles of 32 or 16: all 80, all 64, or up to 48 of a small one.
    Still larger heads are shared by several programs."""
    if head_dim <= 48:
        return 16, 16, 16
    return (32, 32, 16) if 64 < head_dim <= 80 else (32, 16, 16)


def supported(state: int) -> bool:
    """The matrix tiles want a state size that is a power of two; every published model has one."""
    return power_of_two(state) and 16 <= state <= 256


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
    precision = "tf32" if sixteen_bit else "ieee"  # only fp32 inputs look at this
    upto, into = torch.empty((2, heads, tokens), dtype=torch.float32, device=x_THP.device)
    product = torch.empty((groups, tokens, chunk), dtype=torch.float32, device=x_THP.device)
    _prepare[(spans.shape[1], groups + triton.cdiv(heads, BLOCK_H))](
        dt_TH,
        dt_bias_H,
        A_H,
        B_TGN,
        C_TGN,
        spans,
        upto,
        into,
        product,
        spans.shape[1],
        tokens,
        dt_TH.stride(0),
        B_TGN.stride(0),
        C_TGN.stride(0),
        heads,
        groups,
        n,
        chunk,
        BLOCK_H,
        precision,
        num_warps=2,
    )
    tiles = row_tiles(head_dim)
    state = state_RHPN if state_RHPN is not None else x_THP
    _scan[(triton.cdiv(head_dim, sum(tiles)), heads, layout.num_prefills)](
        x_THP,
        upto,
        into,
        product,
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
        *tiles,
        chunk,
        state_RHPN is not None,
        precision,
        3 if sixteen_bit else 1,
        num_warps=4,
    )
