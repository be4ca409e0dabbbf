"""Decoding from an old state and a ring of inputs, in Triton. See `replay.py` for the idea and the storage.

A program owns one head of one sequence, so that what depends on the ring alone (decays, and the products C.B_i) is
computed once for the whole state of the head, which is read in two pieces (80 rows = 64 + 16). The rare step that
writes the state does so in a second walk over it: the frequent path keeps few registers and its loads in flight.
"""
# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.dispatch import two_powers
from holotron.kernels.layout import Layout
from holotron.kernels.scan.replay import Replay, Ring
from holotron.kernels.triton_math import LOG2E, softplus

TILE = 16  # rows of a state that are written at a time


@triton.jit
def _load_rows(state_ptr, FIRST: tl.constexpr, SIZE: tl.constexpr, HEAD_DIM: tl.constexpr, N: tl.constexpr):
    p = FIRST + tl.arange(0, SIZE)[:, None]
    return tl.load(state_ptr + p * N + tl.arange(0, N)[None, :], p < HEAD_DIM, other=0.0).to(tl.float32)


@triton.jit
def _output(
    state_PN, C, mix, total, D, x_ptr, ring_x_ptr, y_ptr, count,
    FIRST: tl.constexpr, SIZE: tl.constexpr, HEAD_DIM: tl.constexpr, DEPTH: tl.constexpr, STRIDE: tl.constexpr,
):  # fmt: skip
    """y for some rows of a head: from the old state, from the ring, and from the new token, which joins the ring."""
    p = FIRST + tl.arange(0, SIZE)
    inside = p < HEAD_DIM
    w = tl.arange(0, DEPTH)
    new = tl.load(x_ptr + p, inside, other=0.0)
    held = (w < count)[:, None] & inside[None, :]
    x = tl.load(ring_x_ptr + w[:, None] * STRIDE + p[None, :], held, other=0.0).to(tl.float32)
    x = tl.where((w == count)[:, None], new.to(tl.float32)[None, :], x)
    y = tl.sum(state_PN * C[None, :], axis=1) * total + tl.sum(x * mix[:, None], axis=0)
    y += D * new.to(tl.float32)
    tl.store(y_ptr + p, y.to(y_ptr.dtype.element_ty), inside)
    tl.store(ring_x_ptr + count * STRIDE + p, new, inside)


@triton.jit
def _write_state(
    state_ptr, x_ptr, B_ptr, dt_ptr, decay_ptr, count, new_x_ptr, new_B_ptr, new_dt, new_decay,
    HEADS: tl.constexpr, GROUPS: tl.constexpr, HEAD_DIM: tl.constexpr, N: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Replace a head's state by the one after `count` tokens of its ring and then the new token."""
    tl.debug_barrier()  # other threads of this program may still read the old state
    n = tl.arange(0, N)
    new_B = tl.load(new_B_ptr + n).to(tl.float32)
    for tile in range((HEAD_DIM + TILE - 1) // TILE):
        p = tile * TILE + tl.arange(0, TILE)
        inside = p < HEAD_DIM
        new_x = tl.load(new_x_ptr + p, inside, other=0.0).to(tl.float32)
        added = (new_x * new_dt)[:, None] * new_B[None, :]
        since = new_decay  # from the token at hand to the newest; backwards through the ring
        for back in range(count):
            w = count - 1 - back
            x = tl.load(x_ptr + w * (HEADS * HEAD_DIM) + p, inside, other=0.0).to(tl.float32)
            B = tl.load(B_ptr + w * (GROUPS * N) + n).to(tl.float32)
            weight = tl.load(dt_ptr + w * HEADS) * tl.exp2(since)
            added += (x * weight)[:, None] * B[None, :]
            since += tl.load(decay_ptr + w * HEADS) * LOG2E
        state_at = state_ptr + p[:, None] * N + n[None, :]
        state = tl.load(state_at, inside[:, None], other=0.0).to(tl.float32) * tl.exp2(since) + added
        tl.store(state_at, state.to(state_ptr.dtype.element_ty), inside[:, None])


@triton.jit(do_not_specialize_on_alignment=["rows_ptr", "count_ptr"])
def _step(
    x_ptr,
    dt_ptr,
    dt_bias_ptr,
    A_ptr,
    B_ptr,
    C_ptr,
    D_ptr,
    state_ptr,
    ring_x_ptr,
    ring_B_ptr,
    ring_dt_ptr,
    ring_decay_ptr,
    count_ptr,
    y_ptr,
    rows_ptr,
    stride_xt,
    stride_dt,
    stride_bt,
    stride_ct,
    stride_r,
    stride_ring_x,
    stride_ring_B,
    stride_ring_dt,
    HEADS: tl.constexpr,
    GROUPS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    N: tl.constexpr,
    LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
    DEPTH: tl.constexpr,
    TILE: tl.constexpr,
):
    head = tl.program_id(0)
    token = tl.program_id(1).to(tl.int64)
    group = head // (HEADS // GROUPS)
    row = tl.load(rows_ptr + token).to(tl.int64)
    count = tl.load(count_ptr + row)
    state_ptr += row * stride_r + head * (HEAD_DIM * N)
    left = _load_rows(state_ptr, 0, LEFT, HEAD_DIM, N)
    if RIGHT > 0:
        right = _load_rows(state_ptr, LEFT, RIGHT, HEAD_DIM, N)
    ring_x_ptr += row * stride_ring_x + head * HEAD_DIM
    ring_B_ptr += row * stride_ring_B + group * N
    ring_dt_ptr += row * stride_ring_dt + head
    ring_decay_ptr += row * stride_ring_dt + head
    x_ptr += token * stride_xt + head * HEAD_DIM
    y_ptr += (token * HEADS + head) * HEAD_DIM
    B_ptr += token * stride_bt + group * N

    # The ring with the new token at its end: steps, decays (as powers of two) and the products with B.
    w = tl.arange(0, DEPTH)
    n = tl.arange(0, N)
    held, current = w < count, w == count
    bias = tl.load(dt_bias_ptr + head).to(tl.float32)
    new_dt = softplus(tl.load(dt_ptr + token * stride_dt + head).to(tl.float32) + bias)
    new_decay = new_dt * tl.load(A_ptr + head).to(tl.float32)
    dt = tl.where(current, new_dt, tl.load(ring_dt_ptr + w * HEADS, held, other=0.0))
    decay = tl.where(current, new_decay, tl.load(ring_decay_ptr + w * HEADS, held, other=0.0)) * LOG2E
    over_ring = tl.sum(decay, axis=0)
    weight = tl.exp2(over_ring - tl.cumsum(decay, axis=0)) * dt
    total = tl.exp2(over_ring)
    new_B = tl.load(B_ptr + n)
    B = tl.load(ring_B_ptr + w[:, None] * (GROUPS * N) + n[None, :], held[:, None], other=0.0)
    B = tl.where(current[:, None], new_B.to(tl.float32)[None, :], B.to(tl.float32))
    C = tl.load(C_ptr + token * stride_ct + group * N + n).to(tl.float32)
    mix = tl.sum(B * C[None, :], axis=1) * weight
    D = tl.load(D_ptr + head).to(tl.float32)
    _output(left, C, mix, total, D, x_ptr, ring_x_ptr, y_ptr, count, 0, LEFT, HEAD_DIM, DEPTH, HEADS * HEAD_DIM)
    if RIGHT > 0:
        _output(
            right, C, mix, total, D, x_ptr, ring_x_ptr, y_ptr, count, LEFT, RIGHT, HEAD_DIM, DEPTH, HEADS * HEAD_DIM
        )
    tl.store(ring_dt_ptr + count * HEADS, new_dt)
    tl.store(ring_decay_ptr + count * HEADS, new_decay)
    if head % (HEADS // GROUPS) == 0:
        tl.store(ring_B_ptr + count * (GROUPS * N) + n, new_B)
    if count == DEPTH - 1:
        _write_state(
            state_ptr, ring_x_ptr, ring_B_ptr, ring_dt_ptr, ring_decay_ptr, count,
            x_ptr, B_ptr, new_dt, new_decay * LOG2E, HEADS, GROUPS, HEAD_DIM, N, TILE,
        )  # fmt: skip


@triton.jit(do_not_specialize_on_alignment=["rows_ptr", "count_ptr"])
def _flush(
    state_ptr,
    ring_x_ptr,
    ring_B_ptr,
    ring_dt_ptr,
    ring_decay_ptr,
    count_ptr,
    rows_ptr,
    stride_r,
    stride_l,
    LAYERS: tl.constexpr,
    HEADS: tl.constexpr,
    GROUPS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    N: tl.constexpr,
    DEPTH: tl.constexpr,
    TILE: tl.constexpr,
):
    head = tl.program_id(0)
    layer = tl.program_id(1).to(tl.int64)
    row = tl.load(rows_ptr + tl.program_id(2)).to(tl.int64)
    count = tl.load(count_ptr + row)
    if count > 0:
        # The newest token of the ring plays the part of the new one.
        group = head // (HEADS // GROUPS)
        place = (row * LAYERS + layer) * DEPTH
        ring_x_ptr += place * (HEADS * HEAD_DIM) + head * HEAD_DIM
        ring_B_ptr += place * (GROUPS * N) + group * N
        ring_dt_ptr += place * HEADS + head
        ring_decay_ptr += place * HEADS + head
        newest = count - 1
        _write_state(
            state_ptr + row * stride_r + layer * stride_l + head * (HEAD_DIM * N),
            ring_x_ptr, ring_B_ptr, ring_dt_ptr, ring_decay_ptr, newest,
            ring_x_ptr + newest * (HEADS * HEAD_DIM), ring_B_ptr + newest * (GROUPS * N),
            tl.load(ring_dt_ptr + newest * HEADS), tl.load(ring_decay_ptr + newest * HEADS) * LOG2E,
            HEADS, GROUPS, HEAD_DIM, N, TILE,
        )  # fmt: skip


def step_tokens(
    x_THP: Tensor,
    dt_TH: Tensor,
    dt_bias_H: Tensor,
    A_H: Tensor,
    B_TGN: Tensor,
    C_TGN: Tensor,
    D_H: Tensor,
    state_RHPN: Tensor,
    ring: Ring,
    y_THP: Tensor,
    layout: Layout,
) -> None:
    _, heads, head_dim = x_THP.shape
    groups, n = B_TGN.shape[1:]
    _step[(heads, layout.num_decodes)](
        x_THP,
        dt_TH,
        dt_bias_H,
        A_H,
        B_TGN,
        C_TGN,
        D_H,
        state_RHPN,
        *ring,
        y_THP,
        layout.rows_S,
        x_THP.stride(0),
        dt_TH.stride(0),
        B_TGN.stride(0),
        C_TGN.stride(0),
        state_RHPN.stride(0),
        ring.x_RWHP.stride(0),
        ring.B_RWGN.stride(0),
        ring.dt_RWH.stride(0),
        heads,
        groups,
        head_dim,
        n,
        *two_powers(head_dim),
        ring.x_RWHP.shape[1],
        TILE,
        num_warps=4,
    )


def flush(state_RLHPN: Tensor, replay: Replay, rows_S: Tensor) -> None:
    _, layers, heads, head_dim, n = state_RLHPN.shape
    _flush[(heads, layers, rows_S.shape[0])](
        state_RLHPN,
        replay.x_RLWHP,
        replay.B_RLWGN,
        replay.dt_RLWH,
        replay.decay_RLWH,
        replay.count_R,
        rows_S,
        state_RLHPN.stride(0),
        state_RLHPN.stride(1),
        layers,
        heads,
        replay.B_RLWGN.shape[3],
        head_dim,
        n,
        replay.depth,
        TILE,
        num_warps=4,
    )
    replay.count_R[rows_S.long()] = 0
