"""The chunked gated delta rule in Triton: the state never leaves the chip between chunks.

A first kernel (`triton_prepare`) computes what needs no state: for every chunk the matrices `solve` and `mix`. A second
one walks each sequence with a tile of the head's state S in registers. Per chunk, r is what the values ask for beyond
what the state already says; one matrix turns it into outputs, the other into corrections of the state. With s_t the log
decay summed from the chunk's start, and k and q of length one:

    r_t = v_t - exp(s_t) S k_t        y_t = exp(s_t) S q_t + (mix r)_t
    S  <- exp(s_end) S + sum_t exp(s_end - s_t) (solve r)_t k_t^T

Lengths and decays are factors of rows: products take queries and keys as they come, rounded no further, and accumulate
in fp32. The state is fp32 throughout and only rounded as an operand.

Every product is at most 32 rows high, for the reason given in `scan.triton_prefill`.
"""
# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.delta.triton_prepare import CHUNK, Prepared
from holotron.kernels.dispatch import power_of_two
from holotron.kernels.layout import Layout

WARPS, STAGES = 4, 3  # over 16-bit inputs


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
