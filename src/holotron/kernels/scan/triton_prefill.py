"""The chunked scan in Triton: the state never leaves the chip between chunks.

A program walks one sequence for one head, CHUNK tokens at a time, with the head's state in registers. The textbook form
runs the chunks in parallel and passes states through device memory in five launches; with 128 heads there is enough
parallelism without that, and a chunk's state is larger than the inputs that made it, so not writing it saves most of
the traffic. The price is that each head multiplies C B^T for itself instead of sharing it with its group.

Per chunk, with a_t = dt_t A summed from the chunk's start (s_t):
    y_t   = exp(s_t) S C_t + sum_{u<=t} exp(s_t - s_u) dt_u (C_t . B_u) x_u + D x_t
    S    <- exp(s_end) S + sum_u exp(s_end - s_u) dt_u x_u B_u^T

Products take the inputs' dtype and accumulate in fp32; the state is fp32 throughout and only rounded as an operand.

Every product here is at most 32 rows high, so that the compiler uses the ordinary matrix instruction. From 64 rows on
it would take Hopper's asynchronous one (wgmma), and Triton 3.4 to 3.8 assemble kernels with several of those in a loop
wrongly: they read operands too early, or outside shared memory (triton-lang/triton 9433, 11366). The state of a head
is therefore held as up to three tiles of 32 or 16 rows (80 = 32 + 32 + 16).
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
def _rows(
    state_PN,
    mix_QQ,
    B_QN,
    C_QN,
    from_start_Q,
    to_end_Q,
    over_chunk,
    x_ptr,
    y_ptr,
    clamped_Q,
    real_Q,
    stride_x,
    stride_y,
    first,
    SIZE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PRECISION: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """One chunk for SIZE rows of the head's state: write their y, return the new rows."""
    p = first + tl.arange(0, SIZE)[None, :]
    x = tl.load(x_ptr + clamped_Q[:, None] * stride_x + p, p < HEAD_DIM, other=0.0)
    y = tl.dot(C_QN, tl.trans(state_PN.to(C_QN.dtype)), input_precision=PRECISION) * from_start_Q[:, None]
    y = tl.dot(mix_QQ, x, acc=y, input_precision=PRECISION)
    y_at = y_ptr + tl.arange(0, CHUNK)[:, None] * stride_y + p
    tl.store(y_at, y.to(y_ptr.dtype.element_ty), real_Q[:, None] & (p < HEAD_DIM))
    inputs = (x.to(tl.float32) * to_end_Q[:, None]).to(x.dtype)
    return tl.dot(tl.trans(inputs), B_QN, acc=state_PN * over_chunk, input_precision=PRECISION)


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
    D = tl.load(D_ptr + head).to(tl.float32)

    state_ptr += head * (HEAD_DIM * N)
    state0 = tl.zeros([SIZE0, N], tl.float32)
    if SIZE1 > 0:
        state1 = tl.zeros([SIZE1, N], tl.float32)
    if SIZE2 > 0:
        state2 = tl.zeros([SIZE2, N], tl.float32)
    if HAS_STATE:
        own_ptr = state_ptr + tl.load(rows_ptr + sequence).to(tl.int64) * stride_r
        state0 = _load_rows(own_ptr, first, SIZE0, HEAD_DIM, N)
        if SIZE1 > 0:
            state1 = _load_rows(own_ptr, first + SIZE0, SIZE1, HEAD_DIM, N)
        if SIZE2 > 0:
            state2 = _load_rows(own_ptr, first + SIZE0 + SIZE1, SIZE2, HEAD_DIM, N)

    t = tl.arange(0, CHUNK)
    n = tl.arange(0, N)
    # From mark to mark (where a snapshot is due), and on to the end.
    mark = tl.load(first_ptr + sequence)
    last = tl.load(first_ptr + sequence + 1)
    begin = 0
    while mark <= last:
        end = length
        if mark < last:
            end = tl.load(marks_ptr + mark)
        for at in tl.range(begin, end, CHUNK, num_stages=STAGES):
            real = t < end - at
            # Past the end the last token is read again, with weight zero.
            clamped = tl.minimum(t, end - at - 1)
            skip = tl.cast(at, tl.int64)  # a long prompt has more elements than 32 bits can count
            upto = tl.load(upto_ptr + at + clamped)
            into = tl.load(into_ptr + at + t, real, other=float("inf"))
            over_chunk = tl.load(upto_ptr + tl.minimum(at + CHUNK, end) - 1)
            C = tl.load(C_ptr + skip * stride_c + clamped[:, None] * stride_c + n[None, :])
            # Read twice, once for each way it is multiplied: cheaper than turning it around on the chip.
            B = tl.load(B_ptr + skip * stride_b + clamped[:, None] * stride_b + n[None, :])
            B_turned = tl.load(B_ptr + skip * stride_b + clamped[None, :] * stride_b + n[:, None])
            weight = tl.exp2(tl.where(t[:, None] >= t[None, :], upto[:, None] - into[None, :], float("-inf")))
            mix = tl.dot(C, B_turned, input_precision=PRECISION) * weight
            mix = tl.where(t[:, None] == t[None, :], mix + D, mix).to(x_ptr.dtype.element_ty)  # D x_t comes along
            from_start = tl.exp2(upto)
            to_end = tl.exp2(over_chunk - into)
            over = tl.exp2(over_chunk)
            x_at = x_ptr + skip * stride_x
            y_at = y_ptr + skip * STRIDE_Y
            state0 = _rows(
                state0, mix, B, C, from_start, to_end, over, x_at, y_at, clamped, real, stride_x, STRIDE_Y,
                first, SIZE0, HEAD_DIM, PRECISION, CHUNK,
            )  # fmt: skip
            if SIZE1 > 0:
                state1 = _rows(
                    state1, mix, B, C, from_start, to_end, over, x_at, y_at, clamped, real, stride_x, STRIDE_Y,
                    first + SIZE0, SIZE1, HEAD_DIM, PRECISION, CHUNK,
                )  # fmt: skip
            if SIZE2 > 0:
                state2 = _rows(
                    state2, mix, B, C, from_start, to_end, over, x_at, y_at, clamped, real, stride_x, STRIDE_Y,
                    first + SIZE0 + SIZE1, SIZE2, HEAD_DIM, PRECISION, CHUNK,
                )  # fmt: skip
        if HAS_STATE:
            if mark < last:
                row = tl.load(spare_ptr + mark).to(tl.int64)
            else:
                row = tl.load(rows_ptr + sequence).to(tl.int64)
            _store_rows(state_ptr + row * stride_r, state0, first, SIZE0, HEAD_DIM, N)
            if SIZE1 > 0:
                _store_rows(state_ptr + row * stride_r, state1, first + SIZE0, SIZE1, HEAD_DIM, N)
            if SIZE2 > 0:
                _store_rows(state_ptr + row * stride_r, state2, first + SIZE0 + SIZE1, SIZE2, HEAD_DIM, N)
        begin = end
        mark += 1


def row_tiles(head_dim: int) -> tuple[int, int, int]:
    """How many state rows of a head a program holds, as tiles of 32 or 16: 80 -> 32, 32, 16; 64 -> 32, 32, 0.
    A head of more than 96 rows is shared by several programs of 64."""
    if head_dim > 96:
        return 32, 32, 0
    sizes = [min(32, max(16, 16 * (-(-rest // 16)))) for rest in range(head_dim, 0, -32)]
    return (*sizes, 0, 0, 0)[:3]  # type: ignore[return-value]


def supported(head_dim: int, state: int) -> bool:
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
    upto, into = torch.empty((2, heads, tokens), dtype=torch.float32, device=x_THP.device)
    _decays[(spans.shape[1], triton.cdiv(heads, BLOCK_H))](
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
        BLOCK_H,
        num_warps=2,
    )
    tiles = row_tiles(head_dim)
    state = state_RHPN if state_RHPN is not None else x_THP
    _scan[(triton.cdiv(head_dim, sum(tiles)), heads, layout.num_prefills)](
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
        *tiles,
        chunk,
        state_RHPN is not None,
        "tf32" if sixteen_bit else "ieee",  # only fp32 inputs look at this
        2 if sixteen_bit else 1,
        num_warps=4,
    )
