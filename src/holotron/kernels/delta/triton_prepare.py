"""What the chunks of prompts need no state for, in Triton: one program for every chunk of 32 tokens and every head.

With s_t the log decay summed from the chunk's start, k and q of length one, and Z the strictly lower matrix of the
chunk's system,

    Z_tu = beta_t exp(s_t - s_u) (k_t . k_u)       P_tu = exp(s_t - s_u) (q_t . k_u), u <= t
    solve  = (1 + Z)^-1 diag(beta)                 mix = P solve

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
from holotron.kernels.layout import Layout
from holotron.kernels.triton_math import LOG2E, softplus

CHUNK = 32
_EPS: tl.constexpr = tl.constexpr(EPS)


@triton.jit
def rows(x_ptr, token_Q, real_Q, stride, K: tl.constexpr):
    return tl.load(x_ptr + token_Q[:, None] * stride + tl.arange(0, K)[None, :], real_Q[:, None], other=0.0)


@triton.jit
def one_over_length(x_QK):
    x = x_QK.to(tl.float32)
    return tl.rsqrt(tl.sum(x * x, axis=1) + _EPS)


@triton.jit
def decays(a_ptr, b_ptr, bias, A, token_Q, real_Q, stride_a, stride_b):
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
    step0, beta0 = decays(a_ptr + head, b_ptr + head, bias, A, token0, real0, stride_a, stride_b)
    step1, beta1 = decays(a_ptr + head, b_ptr + head, bias, A, token1, real1, stride_a, stride_b)
    half = tl.sum(step0, axis=0)
    end = half + tl.sum(step1, axis=0)
    upto0 = tl.cumsum(step0, axis=0)
    upto1 = half + tl.cumsum(step1, axis=0)

    k0 = rows(k_ptr + group * K, token0, real0, stride_k, K)
    k1 = rows(k_ptr + group * K, token1, real1, stride_k, K)
    short0, short1 = one_over_length(k0), one_over_length(k1)
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
    q0 = rows(q_ptr + group * K, token0, real0, stride_q, K)
    long0 = one_over_length(q0) * SCALE
    seen00 = tl.dot(q0, tl.trans(k0), input_precision=PRECISION) * long0[:, None] * short0[None, :]
    mix00 = tl.dot(seen00 * _weights(upto0, upto0, causal), solve00, input_precision=PRECISION)
    q1 = rows(q_ptr + group * K, token1, real1, stride_q, K)
    long1 = one_over_length(q1) * SCALE
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
