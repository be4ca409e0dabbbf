"""Decoding from an old state and a ring of inputs, in Triton. See `replay.py` for the idea and the storage.

Two kernels. The first is tiny: everything that depends on the ring but not on the state, the weights of the tokens in
it, which all rows of a head share. The second reads the states as `triton_decode` does, in tiles of 16 rows and one
warp each, and only now and then writes one.
"""
# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.dispatch import next_power_of_two
from holotron.kernels.layout import Layout
from holotron.kernels.scan.replay import Replay, Ring
from holotron.kernels.triton_math import LOG2E, softplus

TILE = 16


@triton.jit(do_not_specialize_on_alignment=["rows_ptr", "count_ptr"])
def _weigh(
    dt_ptr,
    dt_bias_ptr,
    A_ptr,
    B_ptr,
    C_ptr,
    D_ptr,
    ring_B_ptr,
    ring_dt_ptr,
    ring_decay_ptr,
    count_ptr,
    rows_ptr,
    mix_ptr,
    weight_ptr,
    total_ptr,
    own_ptr,
    filled_ptr,
    stride_dt,
    stride_bt,
    stride_ct,
    stride_ring_B,
    stride_ring_dt,
    HEADS: tl.constexpr,
    GROUPS: tl.constexpr,
    N: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK_H: tl.constexpr,
):
    """For the heads of a group: how much each token of the ring counts for the output (`mix`, and `own` for the new
    one) and for the state (`weight`), and the decay of the old state (`total`). The new token joins the ring."""
    group = tl.program_id(0)
    token = tl.program_id(1).to(tl.int64)
    row = tl.load(rows_ptr + token).to(tl.int64)
    count = tl.load(count_ptr + row)
    w = tl.arange(0, DEPTH)[:, None]
    n = tl.arange(0, N)
    h = tl.arange(0, BLOCK_H)
    some = h < HEADS // GROUPS
    head = group * (HEADS // GROUPS) + h
    ring_B_ptr += row * stride_ring_B + group * N
    ring_dt_ptr += row * stride_ring_dt + head
    ring_decay_ptr += row * stride_ring_dt + head

    new_dt = tl.load(dt_ptr + token * stride_dt + head, some, other=0.0).to(tl.float32)
    new_dt = softplus(new_dt + tl.load(dt_bias_ptr + head, some, other=0.0).to(tl.float32))
    new_decay = new_dt * tl.load(A_ptr + head, some, other=0.0).to(tl.float32)
    held = (w < count) & some[None, :]
    dt = tl.load(ring_dt_ptr[None, :] + w * HEADS, held, other=0.0)
    dt = tl.where(w == count, new_dt[None, :], dt)
    decay = tl.load(ring_decay_ptr[None, :] + w * HEADS, held, other=0.0)
    decay = tl.where(w == count, new_decay[None, :], decay) * LOG2E
    over_ring = tl.sum(decay, axis=0)
    weight = tl.exp2(over_ring[None, :] - tl.cumsum(decay, axis=0)) * dt

    new_B = tl.load(B_ptr + token * stride_bt + group * N + n)
    C = tl.load(C_ptr + token * stride_ct + group * N + n).to(tl.float32)
    B = tl.load(ring_B_ptr + w * (GROUPS * N) + n[None, :], w < count, other=0.0).to(tl.float32)
    mix = weight * tl.sum(B * C[None, :], axis=1)[:, None]
    own = new_dt * tl.sum(new_B.to(tl.float32) * C, axis=0) + tl.load(D_ptr + head, some, other=0.0).to(tl.float32)
    place = (token * HEADS + head)[None, :] * DEPTH + w
    tl.store(mix_ptr + place, mix, some[None, :])
    tl.store(weight_ptr + place, weight, some[None, :])
    tl.store(total_ptr + token * HEADS + head, tl.exp2(over_ring), some)
    tl.store(own_ptr + token * HEADS + head, own, some)
    tl.store(filled_ptr + token, count)
    tl.store(ring_dt_ptr + count * HEADS, new_dt, some)
    tl.store(ring_decay_ptr + count * HEADS, new_decay, some)
    tl.store(ring_B_ptr + count * (GROUPS * N) + n, new_B)


@triton.jit
def _add_tokens(
    state_PN, ring_x_ptr, ring_B_ptr, weight_ptr, count, p, n,
    STRIDE_X: tl.constexpr, STRIDE_B: tl.constexpr, HEAD_DIM: tl.constexpr,
):  # fmt: skip
    """Add the first `count` tokens of a ring to some rows of a state."""
    for w in range(count):
        x = tl.load(ring_x_ptr + w * STRIDE_X + p, p < HEAD_DIM, other=0.0).to(tl.float32)
        B = tl.load(ring_B_ptr + w * STRIDE_B + n).to(tl.float32)
        state_PN += (x * tl.load(weight_ptr + w))[:, None] * B[None, :]
    return state_PN


@triton.jit(do_not_specialize_on_alignment=["rows_ptr"])
def _step(
    x_ptr,
    C_ptr,
    state_ptr,
    ring_x_ptr,
    ring_B_ptr,
    mix_ptr,
    weight_ptr,
    total_ptr,
    own_ptr,
    filled_ptr,
    rows_ptr,
    y_ptr,
    stride_xt,
    stride_ct,
    stride_r,
    stride_ring_x,
    stride_ring_B,
    HEADS: tl.constexpr,
    GROUPS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    N: tl.constexpr,
    DEPTH: tl.constexpr,
    TILE: tl.constexpr,
):
    head = tl.program_id(1)
    token = tl.program_id(2).to(tl.int64)
    group = head // (HEADS // GROUPS)
    p = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = p < HEAD_DIM
    n = tl.arange(0, N)
    w = tl.arange(0, DEPTH)
    row = tl.load(rows_ptr + token).to(tl.int64)
    count = tl.load(filled_ptr + token)
    state_ptr += row * stride_r + (head * HEAD_DIM + p)[:, None] * N + n[None, :]
    if HEAD_DIM % TILE == 0:
        state = tl.load(state_ptr)
    else:
        state = tl.load(state_ptr, inside[:, None], other=0.0)
    ring_x_ptr += row * stride_ring_x + head * HEAD_DIM
    held = (w < count)[:, None] & inside[None, :]
    x = tl.load(ring_x_ptr + w[:, None] * (HEADS * HEAD_DIM) + p[None, :], held, other=0.0).to(tl.float32)
    at = token * HEADS + head
    mix = tl.load(mix_ptr + at * DEPTH + w)
    new_x = tl.load(x_ptr + token * stride_xt + head * HEAD_DIM + p, inside, other=0.0)
    C = tl.load(C_ptr + token * stride_ct + group * N + n).to(tl.float32)
    state = state.to(tl.float32) * tl.load(total_ptr + at)
    y = tl.sum(state * C[None, :], axis=1) + tl.sum(x * mix[:, None], axis=0)
    y += new_x.to(tl.float32) * tl.load(own_ptr + at)
    tl.store(y_ptr + at * HEAD_DIM + p, y.to(y_ptr.dtype.element_ty), inside)
    if count < DEPTH - 1:
        tl.store(ring_x_ptr + count * (HEADS * HEAD_DIM) + p, new_x, inside)
    else:
        ring_B_ptr += row * stride_ring_B + group * N
        weight_ptr += at * DEPTH
        new_B = tl.load(ring_B_ptr + count * (GROUPS * N) + n).to(tl.float32)
        state += (new_x.to(tl.float32) * tl.load(weight_ptr + count))[:, None] * new_B[None, :]
        state = _add_tokens(
            state, ring_x_ptr, ring_B_ptr, weight_ptr, count, p, n, HEADS * HEAD_DIM, GROUPS * N, HEAD_DIM
        )
        tl.store(state_ptr, state.to(state_ptr.dtype.element_ty), inside[:, None])


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
    """One head of one layer of one row: all its tokens into the state, newest first."""
    head = tl.program_id(0)
    layer = tl.program_id(1).to(tl.int64)
    row = tl.load(rows_ptr + tl.program_id(2)).to(tl.int64)
    count = tl.load(count_ptr + row)
    if count > 0:
        group = head // (HEADS // GROUPS)
        place = (row * LAYERS + layer) * DEPTH
        n = tl.arange(0, N)
        for tile in range((HEAD_DIM + TILE - 1) // TILE):
            p = tile * TILE + tl.arange(0, TILE)
            inside = p < HEAD_DIM
            added = tl.zeros([TILE, N], tl.float32)
            since = 0.0  # decay from the token at hand to the newest
            for back in range(count):
                at = place + count - 1 - back
                x_at = ring_x_ptr + (at * HEADS + head) * HEAD_DIM + p
                x = tl.load(x_at, inside, other=0.0).to(tl.float32)
                B = tl.load(ring_B_ptr + (at * GROUPS + group) * N + n).to(tl.float32)
                weight = tl.load(ring_dt_ptr + at * HEADS + head) * tl.exp2(since)
                added += (x * weight)[:, None] * B[None, :]
                since += tl.load(ring_decay_ptr + at * HEADS + head) * LOG2E
            state_at = row * stride_r + layer * stride_l + (head * HEAD_DIM + p)[:, None] * N + n[None, :]
            state = tl.load(state_ptr + state_at, inside[:, None], other=0.0).to(tl.float32)
            state = state * tl.exp2(since) + added
            tl.store(state_ptr + state_at, state.to(state_ptr.dtype.element_ty), inside[:, None])


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
    """Advance the first `num_decodes` sequences by one token; writes their part of `y_THP`, their rings, and now and
    then a state."""
    _, heads, head_dim = x_THP.shape
    groups, n = B_TGN.shape[1:]
    depth, count = ring.x_RWHP.shape[1], layout.num_decodes

    def work(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty((count, *shape), dtype=dtype, device=x_THP.device)

    mix, weight, total, own = work(heads, depth), work(heads, depth), work(heads), work(heads)
    filled = work(dtype=torch.int32)
    _weigh[(groups, count)](
        dt_TH,
        dt_bias_H,
        A_H,
        B_TGN,
        C_TGN,
        D_H,
        ring.B_RWGN,
        ring.dt_RWH,
        ring.decay_RWH,
        ring.count_R,
        layout.rows_S,
        mix,
        weight,
        total,
        own,
        filled,
        dt_TH.stride(0),
        B_TGN.stride(0),
        C_TGN.stride(0),
        ring.B_RWGN.stride(0),
        ring.dt_RWH.stride(0),
        heads,
        groups,
        n,
        depth,
        next_power_of_two(heads // groups),
        num_warps=1,
    )
    _step[(triton.cdiv(head_dim, TILE), heads, count)](
        x_THP,
        C_TGN,
        state_RHPN,
        ring.x_RWHP,
        ring.B_RWGN,
        mix,
        weight,
        total,
        own,
        filled,
        layout.rows_S,
        y_THP,
        x_THP.stride(0),
        C_TGN.stride(0),
        state_RHPN.stride(0),
        ring.x_RWHP.stride(0),
        ring.B_RWGN.stride(0),
        heads,
        groups,
        head_dim,
        n,
        depth,
        TILE,
        num_warps=1,
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
    replay.count_R.index_fill_(0, rows_S.long(), 0)  # assigning a number by index would wait for the device
