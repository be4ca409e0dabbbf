"""The chunked gated delta rule in Triton: the state never leaves the chip between chunks.

A first kernel computes what needs no state, for every chunk of 32 tokens and every head by itself. With s_t the log
decay summed from the chunk's start, k and q of length one, and Z the strictly lower matrix of the chunk's system,

    Z_tu = beta_t exp(s_t - s_u) (k_t . k_u)       P_tu = exp(s_t - s_u) (q_t . k_u), u <= t
    solve  = (1 + Z)^-1 diag(beta)                 mix = P solve

A second kernel walks each sequence with a tile of the head's state S in registers. Per chunk, r is what the values ask
for beyond what the state already says; one matrix turns it into outputs, the other into corrections of the state:

    r_t = v_t - exp(s_t) S k_t        y_t = exp(s_t) S q_t + (mix r)_t
    S  <- exp(s_end) S + sum_t exp(s_end - s_t) (solve r)_t k_t^T

Lengths and decays are factors of rows: products take queries and keys as they come, rounded no further, and accumulate
in fp32. The state is fp32 throughout and only rounded as an operand.

The system is solved by substitution inside blocks of 16 and by products between them. The series (1 - Z)(1 + Z^2)... is
all products, but where keys repeat its powers grow to 10^8 before they cancel.

Every product is at most 32 rows high, for the reason given in `scan.triton_prefill`.
"""
# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.delta.reference import EPS
from holotron.kernels.dispatch import power_of_two
from holotron.kernels.layout import Layout
from holotron.kernels.triton_math import LOG2E, softplus

CHUNK = 32
WARPS, STAGES = 4, 3  # of the walk over 16-bit inputs
_EPS: tl.constexpr = tl.constexpr(EPS)


@triton.jit
def _rows(x_ptr, token_Q, real_Q, stride, K: tl.constexpr):
    return tl.load(x_ptr + token_Q[:, None] * stride + tl.arange(0, K)[None, :], real_Q[:, None], other=0.0)


@triton.jit
def _one_over_length(x_QK):
    x = x_QK.to(tl.float32)
    return tl.rsqrt(tl.sum(x * x, axis=1) + _EPS)


@triton.jit
def _decays(a_ptr, b_ptr, bias, A, token_Q, real_Q, stride_a, stride_b):
    """Log decay (base 2) of every token, and the share by which it corrects the state; both zero past the end."""
    a = tl.load(a_ptr + token_Q * stride_a, real_Q, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + token_Q * stride_b, real_Q, other=0.0).to(tl.float32)
    return tl.where(real_Q, A * softplus(a + bias), 0.0), tl.where(real_Q, tl.sigmoid(b), 0.0)


@triton.jit
def _weights(late_t, early_u, causal_tu):
    """The decay from u to t, zero where t comes first."""
    return tl.exp2(tl.where(causal_tu, late_t[:, None] - early_u[None, :], float("-inf")))


@triton.jit
def _store_block(ptr, block, t, u, real_t, CHUNK: tl.constexpr):
    tl.store(ptr + t[:, None] * CHUNK + u[None, :], block.to(ptr.dtype.element_ty), real_t[:, None])


@triton.jit(do_not_specialize=["num_spans", "tokens"], do_not_specialize_on_alignment=["spans_ptr"])
def _prepare(
    q_ptr,
    k_ptr,
    a_ptr,
    b_ptr,
    dt_bias_ptr,
    A_ptr,
    spans_ptr,
    factor_ptr,
    solve_ptr,
    mix_ptr,
    num_spans,
    tokens,
    stride_q,
    stride_k,
    stride_a,
    stride_b,
    HEADS: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    K: tl.constexpr,
    CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """What needs no state, for one chunk and one head: the matrices `solve` and `mix`, [t, u], and four factors for
    every token: of S k and S q, of a correction that is added to the state, and of the state itself."""
    span = tl.program_id(0)
    head = tl.program_id(1)
    first = tl.load(spans_ptr + span).to(tl.int64)
    count = tl.load(spans_ptr + num_spans + span)
    HALF: tl.constexpr = CHUNK // 2
    t = tl.arange(0, HALF)
    real0, real1 = t < count, HALF + t < count
    token0, token1 = first + t, first + HALF + t
    group = head // (HEADS // KEY_HEADS)
    bias = tl.load(dt_bias_ptr + head).to(tl.float32)
    A = tl.load(A_ptr + head).to(tl.float32) * LOG2E
    step0, beta0 = _decays(a_ptr + head, b_ptr + head, bias, A, token0, real0, stride_a, stride_b)
    step1, beta1 = _decays(a_ptr + head, b_ptr + head, bias, A, token1, real1, stride_a, stride_b)
    half = tl.sum(step0, axis=0)
    end = half + tl.sum(step1, axis=0)
    upto0 = tl.cumsum(step0, axis=0)
    upto1 = half + tl.cumsum(step1, axis=0)

    k0 = _rows(k_ptr + group * K, token0, real0, stride_k, K)
    k1 = _rows(k_ptr + group * K, token1, real1, stride_k, K)
    short0, short1 = _one_over_length(k0), _one_over_length(k1)
    earlier = t[:, None] < t[None, :]
    causal = t[:, None] >= t[None, :]
    always = t[:, None] >= 0
    # The blocks on the diagonal are kept transposed, [u, t]: a column is then a row of the system, as needed below.
    same0 = tl.dot(k0, tl.trans(k0), input_precision=PRECISION) * short0[:, None] * (short0 * beta0)[None, :]
    same1 = tl.dot(k1, tl.trans(k1), input_precision=PRECISION) * short1[:, None] * (short1 * beta1)[None, :]
    same0 *= tl.exp2(tl.where(earlier, upto0[None, :] - upto0[:, None], float("-inf")))
    same1 *= tl.exp2(tl.where(earlier, upto1[None, :] - upto1[:, None], float("-inf")))
    solve00 = tl.where(t[:, None] == t[None, :], 1.0, 0.0)
    solve11 = solve00
    for row in range(1, HALF):
        here = t[:, None] == row
        side0 = tl.sum(tl.where(t[None, :] == row, same0, 0.0), axis=1)
        side1 = tl.sum(tl.where(t[None, :] == row, same1, 0.0), axis=1)
        solve00 -= tl.where(here, tl.sum(side0[:, None] * solve00, axis=0)[None, :], 0.0)
        solve11 -= tl.where(here, tl.sum(side1[:, None] * solve11, axis=0)[None, :], 0.0)
    across = tl.dot(k1, tl.trans(k0), input_precision=PRECISION) * (short1 * beta1)[:, None] * short0[None, :]
    across *= _weights(upto1, upto0, always)
    solve00 *= beta0[None, :]
    solve10 = -tl.dot(solve11, tl.dot(across, solve00, input_precision=PRECISION), input_precision=PRECISION)
    solve11 *= beta1[None, :]

    SCALE: tl.constexpr = K**-0.5
    q0 = _rows(q_ptr + group * K, token0, real0, stride_q, K)
    long0 = _one_over_length(q0) * SCALE
    seen00 = tl.dot(q0, tl.trans(k0), input_precision=PRECISION) * long0[:, None] * short0[None, :]
    mix00 = tl.dot(seen00 * _weights(upto0, upto0, causal), solve00, input_precision=PRECISION)
    q1 = _rows(q_ptr + group * K, token1, real1, stride_q, K)
    long1 = _one_over_length(q1) * SCALE
    seen10 = tl.dot(q1, tl.trans(k0), input_precision=PRECISION) * long1[:, None] * short0[None, :]
    seen11 = tl.dot(q1, tl.trans(k1), input_precision=PRECISION) * long1[:, None] * short1[None, :]
    seen10 *= _weights(upto1, upto0, always)
    seen11 *= _weights(upto1, upto1, causal)
    mix10 = tl.dot(seen10, solve00, input_precision=PRECISION)
    mix10 = tl.dot(seen11, solve10, acc=mix10, input_precision=PRECISION)
    mix11 = tl.dot(seen11, solve11, input_precision=PRECISION)

    place = head * tokens.to(tl.int64) + first
    solve_ptr += place * CHUNK
    mix_ptr += place * CHUNK
    nothing = tl.zeros([HALF, HALF], tl.float32)
    _store_block(solve_ptr, solve00, t, t, real0, CHUNK)
    _store_block(solve_ptr, nothing, t, HALF + t, real0, CHUNK)
    _store_block(solve_ptr, solve10, HALF + t, t, real1, CHUNK)
    _store_block(solve_ptr, solve11, HALF + t, HALF + t, real1, CHUNK)
    _store_block(mix_ptr, mix00, t, t, real0, CHUNK)
    _store_block(mix_ptr, nothing, t, HALF + t, real0, CHUNK)
    _store_block(mix_ptr, mix10, HALF + t, t, real1, CHUNK)
    _store_block(mix_ptr, mix11, HALF + t, HALF + t, real1, CHUNK)
    step = HEADS * tokens.to(tl.int64)
    factor_ptr += place + t
    tl.store(factor_ptr, tl.exp2(upto0) * short0, real0)
    tl.store(factor_ptr + step, tl.exp2(upto0) * long0, real0)
    tl.store(factor_ptr + 2 * step, tl.exp2(end - upto0) * short0, real0)
    tl.store(factor_ptr + 3 * step, tl.exp2(end) + tl.zeros([HALF], tl.float32), real0)
    factor_ptr += HALF
    tl.store(factor_ptr, tl.exp2(upto1) * short1, real1)
    tl.store(factor_ptr + step, tl.exp2(upto1) * long1, real1)
    tl.store(factor_ptr + 2 * step, tl.exp2(end - upto1) * short1, real1)


@triton.jit
def _tile(head, first, K: tl.constexpr, V: tl.constexpr, BLOCK_V: tl.constexpr):
    """Where a tile of a head's state lies, counted from the state of all heads."""
    return (head * V + first + tl.arange(0, BLOCK_V)[:, None]) * K + tl.arange(0, K)[None, :]


@triton.jit
def _chunk(
    state_VK, q_ptr, k_ptr, v_ptr, y_ptr, new_ptr, factor_ptr, solve_ptr, mix_ptr, count, step, first,
    stride_q, stride_k, stride_v, STRIDE_Y: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BLOCK_V: tl.constexpr,
    CHUNK: tl.constexpr, KEEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One chunk of `count` tokens at the pointers given: write y, return the new state."""
    t = tl.arange(0, CHUNK)
    n = tl.arange(0, K)
    p = first + tl.arange(0, BLOCK_V)[None, :]
    # Past the end the last token is read again, which is cheaper than masks: its columns in `solve` and `mix` are zero.
    at = tl.minimum(t, count - 1)
    real = t < count
    known = tl.trans(state_VK.to(k_ptr.dtype.element_ty))
    # Each operand is loaded where it is used: together they would not fit the registers.
    k = tl.load(k_ptr + at[:, None] * stride_k + n[None, :])
    of_k = tl.load(factor_ptr + at)
    v = tl.load(v_ptr + at[:, None] * stride_v + p, p < V, other=0.0)
    rest = v.to(tl.float32) - tl.dot(k, known, input_precision=PRECISION) * of_k[:, None]
    rest = rest.to(k.dtype)
    there = t[:, None] * STRIDE_Y + p
    if not KEEP:
        q = tl.load(q_ptr + at[:, None] * stride_q + n[None, :])
        of_q = tl.load(factor_ptr + step + at)
        mix = tl.load(mix_ptr + at[:, None] * CHUNK + t[None, :])
        y = tl.dot(q, known, input_precision=PRECISION) * of_q[:, None]
        y = tl.dot(mix, rest, acc=y, input_precision=PRECISION)
        tl.store(y_ptr + there, y.to(y_ptr.dtype.element_ty), real[:, None] & (p < V))
    solve = tl.load(solve_ptr + at[:, None] * CHUNK + t[None, :])
    to_end = tl.load(factor_ptr + 2 * step + at)
    over = tl.load(factor_ptr + 3 * step)
    new = tl.dot(solve, rest, input_precision=PRECISION)
    if KEEP:
        tl.store(new_ptr + there, new.to(new_ptr.dtype.element_ty), real[:, None] & (p < V))
    late = (new * tl.where(real, to_end, 0.0)[:, None]).to(k.dtype)
    return tl.dot(tl.trans(late), k, acc=state_VK * over, input_precision=PRECISION)


@triton.jit(
    do_not_specialize=["num_decodes", "tokens"],
    do_not_specialize_on_alignment=["starts_ptr", "rows_ptr", "first_ptr", "marks_ptr", "spare_ptr", "chunk_ptr"],
)
def _walk(
    q_ptr,
    k_ptr,
    v_ptr,
    factor_ptr,
    solve_ptr,
    mix_ptr,
    state_ptr,
    y_ptr,
    starts_ptr,
    rows_ptr,
    first_ptr,
    marks_ptr,
    spare_ptr,
    states_ptr,
    new_ptr,
    chunk_ptr,
    num_decodes,
    tokens,
    stride_q,
    stride_k,
    stride_v,
    stride_r,
    HEADS: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_V: tl.constexpr,
    CHUNK: tl.constexpr,
    HAS_STATE: tl.constexpr,
    KEEP: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):
    """KEEP, for the gradient: instead of outputs, write the corrections of all tokens, [T, H, V], and the state before
    every chunk, [chunks, H, V, K]."""
    first = tl.program_id(0) * BLOCK_V
    head = tl.program_id(1)
    sequence = num_decodes + tl.program_id(2)
    group = head // (HEADS // KEY_HEADS)
    STRIDE_Y: tl.constexpr = HEADS * V
    start = tl.load(starts_ptr + sequence).to(tl.int64)
    length = tl.load(starts_ptr + sequence + 1) - start.to(tl.int32)
    step = HEADS * tokens.to(tl.int64)
    q_ptr += start * stride_q + group * K
    k_ptr += start * stride_k + group * K
    v_ptr += start * stride_v + head * V
    y_ptr += start * STRIDE_Y + head * V
    new_ptr += start * STRIDE_Y + head * V
    factor_ptr += start + head * tokens.to(tl.int64)
    solve_ptr += (start + head * tokens.to(tl.int64)) * CHUNK
    mix_ptr += (start + head * tokens.to(tl.int64)) * CHUNK
    p = first + tl.arange(0, BLOCK_V)[:, None]
    tile = _tile(head, first, K, V, BLOCK_V)
    state = tl.zeros([BLOCK_V, K], tl.float32)
    if HAS_STATE:
        own = tl.load(rows_ptr + sequence).to(tl.int64)
        state = tl.load(state_ptr + own * stride_r + tile, p < V, other=0.0).to(tl.float32)
    chunk = tl.cast(0, tl.int64)
    if KEEP:
        chunk = tl.load(chunk_ptr + sequence).to(tl.int64)

    # From mark to mark (where a snapshot is due), and on to the end, chunk by chunk.
    mark = tl.load(first_ptr + sequence)
    last = tl.load(first_ptr + sequence + 1)
    begin = 0
    while mark <= last:
        end = length
        if mark < last:
            end = tl.load(marks_ptr + mark)
        for at in tl.range(begin, end, CHUNK, num_stages=STAGES):
            skip = tl.cast(at, tl.int64)  # a long prompt has more elements than 32 bits can count
            if KEEP:
                here = states_ptr + (chunk + at // CHUNK) * (HEADS * V * K) + tile
                tl.store(here, state.to(states_ptr.dtype.element_ty), p < V)
            state = _chunk(
                state, q_ptr + skip * stride_q, k_ptr + skip * stride_k, v_ptr + skip * stride_v,
                y_ptr + skip * STRIDE_Y, new_ptr + skip * STRIDE_Y, factor_ptr + skip, solve_ptr + skip * CHUNK,
                mix_ptr + skip * CHUNK, tl.minimum(end - at, CHUNK), step, first, stride_q, stride_k, stride_v,
                STRIDE_Y, K, V, BLOCK_V, CHUNK, KEEP, PRECISION,
            )  # fmt: skip
        if HAS_STATE:
            if mark < last:
                row = tl.load(spare_ptr + mark).to(tl.int64)
            else:
                row = tl.load(rows_ptr + sequence).to(tl.int64)
            # The first start is always zero, which the compiler cannot know: it would otherwise compute these addresses
            # before the loop over chunks and keep them in registers all the while.
            late = _tile(head, first + tl.load(starts_ptr), K, V, BLOCK_V)
            tl.store(state_ptr + row * stride_r + late, state.to(state_ptr.dtype.element_ty), p < V)
        begin = end
        mark += 1


def supported(key_dim: int, value_dim: int) -> bool:
    """The matrix tiles want a key dimension that is a power of two; every published model has 128 of both."""
    return power_of_two(key_dim) and 16 <= key_dim <= 256 and value_dim >= 1


class Prepared:
    """What the second kernel and the gradient need of the first."""

    def __init__(
        self, q_TGK: Tensor, k_TGK: Tensor, a_TH: Tensor, dt_bias_H: Tensor, A_H: Tensor, b_TH: Tensor, layout: Layout
    ) -> None:
        tokens, heads = a_TH.shape
        self.precision = "tf32" if q_TGK.element_size() == 2 else "ieee"  # only fp32 operands look at this
        self.factors = torch.empty((4, heads, tokens), dtype=torch.float32, device=q_TGK.device)
        self.solve, self.mix = torch.empty((2, heads, tokens, CHUNK), dtype=q_TGK.dtype, device=q_TGK.device)
        spans = layout.spans(CHUNK)
        _prepare[(spans.shape[1], heads)](
            q_TGK,
            k_TGK,
            a_TH,
            b_TH,
            dt_bias_H,
            A_H,
            spans,
            self.factors,
            self.solve,
            self.mix,
            spans.shape[1],
            tokens,
            q_TGK.stride(0),
            k_TGK.stride(0),
            a_TH.stride(0),
            b_TH.stride(0),
            heads,
            k_TGK.shape[1],
            k_TGK.shape[2],
            CHUNK,
            self.precision,
            num_warps=1,
        )


def walk(
    q_TGK: Tensor,
    k_TGK: Tensor,
    v_THV: Tensor,
    prepared: Prepared,
    state_RHVK: Tensor | None,
    y_THV: Tensor | None,
    layout: Layout,
    kept: tuple[Tensor, Tensor] | None = None,
) -> None:
    """Outputs of every sequence after the decodes, and their rows of the state; or what the gradient wants `kept`:
    states before chunks and corrections."""
    tokens, heads, value_dim = v_THV.shape
    key_heads, key_dim = k_TGK.shape[1:]
    block = 32 if value_dim > 16 else 16
    unused = v_THV
    state = state_RHVK if state_RHVK is not None else unused
    states, new = kept if kept is not None else (unused, unused)
    _walk[(triton.cdiv(value_dim, block), heads, layout.num_prefills)](
        q_TGK,
        k_TGK,
        v_THV,
        prepared.factors,
        prepared.solve,
        prepared.mix,
        state,
        y_THV if y_THV is not None else unused,
        layout.starts_S1,
        layout.rows_S,
        *layout.marks,
        states,
        new,
        layout.chunks(CHUNK).first_S if kept is not None else layout.rows_S,
        layout.num_decodes,
        tokens,
        q_TGK.stride(0),
        k_TGK.stride(0),
        v_THV.stride(0),
        state.stride(0),
        heads,
        key_heads,
        key_dim,
        value_dim,
        block,
        CHUNK,
        state_RHVK is not None,
        kept is not None,
        prepared.precision,
        STAGES if q_TGK.element_size() == 2 else 1,
        num_warps=WARPS,
    )
