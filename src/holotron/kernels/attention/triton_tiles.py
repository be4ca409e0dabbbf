"""Attention inside the vision tower, in Triton: every patch of a tile sees all of them.

The tower's heads have 80 channels, no power of two. They are held as two (64 + 16), so that nothing is multiplied that
is not there; and of 1,040 keys only the last 16 go through a narrow masked block, not through one of full width.
Queries, keys and values are read where the projection left them, and the output is written as the next one wants it.
"""
# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.dispatch import next_power_of_two, roomy, two_powers
from holotron.kernels.triton_math import LOG2E

TILE = 128  # queries per program; two share a multiprocessor, so one multiplies while the other takes exponents
BLOCK = 64  # keys per step


@triton.jit
def _rows(ptr, at, stride, live, FIRST: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, MASKED: tl.constexpr):
    """SIZE channels of some tokens."""
    d = FIRST + tl.arange(0, SIZE)
    where = ptr + at[:, None] * stride + d[None, :]
    if MASKED or FIRST + SIZE > WIDTH:
        return tl.load(where, live[:, None] & (d < WIDTH)[None, :], other=0.0)
    return tl.load(where)


@triton.jit
def _see(
    left, right, weight, top, q_left, q_right, scale, keys_ptr, values_ptr, begin, end, stride,
    HEAD_DIM: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Let a tile of queries see the keys begin:end; the running maximum, weight and weighted sums of values move on."""
    for at in tl.range(begin, end, BLOCK, num_stages=STAGES):
        key = at + tl.arange(0, BLOCK)
        live = key < end
        k = _rows(keys_ptr, key, stride, live, 0, LEFT, HEAD_DIM, MASKED)
        score = tl.dot(q_left, k.trans(), input_precision="ieee")
        if RIGHT > 0:
            k = _rows(keys_ptr, key, stride, live, LEFT, RIGHT, HEAD_DIM, MASKED)
            score = tl.dot(q_right, k.trans(), acc=score, input_precision="ieee")
        if MASKED:
            score = tl.where(live[None, :], score, float("-inf"))
        new_top = tl.maximum(top, tl.max(score, axis=1) * scale)
        p = tl.exp2(score * scale - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        weight = weight * shrink + tl.sum(p, axis=1)
        p = p.to(q_left.dtype)
        v = _rows(values_ptr, key, stride, live, 0, LEFT, HEAD_DIM, MASKED)
        left = tl.dot(p, v, acc=left * shrink[:, None], input_precision="ieee")
        if RIGHT > 0:
            v = _rows(values_ptr, key, stride, live, LEFT, RIGHT, HEAD_DIM, MASKED)
            right = tl.dot(p, v, acc=right * shrink[:, None], input_precision="ieee")
        top = new_top
    return left, right, weight, top


@triton.jit
def _attend_tiles(
    qkv_ptr, out_ptr, length, scale,
    HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr,
    TILE: tl.constexpr, BLOCK: tl.constexpr, TAIL: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    first = tl.program_id(2).to(tl.int64) * length
    stride: tl.constexpr = 3 * HEADS * HEAD_DIM
    qkv_ptr += first * stride + head * HEAD_DIM
    keys_ptr, values_ptr = qkv_ptr + HEADS * HEAD_DIM, qkv_ptr + 2 * HEADS * HEAD_DIM
    query = tl.program_id(0) * TILE + tl.arange(0, TILE)
    real = query < length
    RIGHT_COLUMNS: tl.constexpr = RIGHT if RIGHT > 0 else 16
    q_left = _rows(qkv_ptr, query, stride, real, 0, LEFT, HEAD_DIM, True)
    q_right = q_left
    if RIGHT > 0:
        q_right = _rows(qkv_ptr, query, stride, real, LEFT, RIGHT, HEAD_DIM, True)
    scale = scale * LOG2E  # softmax in powers of two
    top = tl.full([TILE], float("-inf"), tl.float32)
    weight = tl.zeros([TILE], tl.float32)
    left = tl.zeros([TILE, LEFT], tl.float32)
    right = tl.zeros([TILE, RIGHT_COLUMNS], tl.float32)
    whole = length // BLOCK * BLOCK
    left, right, weight, top = _see(
        left, right, weight, top, q_left, q_right, scale, keys_ptr, values_ptr, 0, whole, stride,
        HEAD_DIM, LEFT, RIGHT, BLOCK, False, STAGES,
    )  # fmt: skip
    if TAIL > 0:
        left, right, weight, top = _see(
            left, right, weight, top, q_left, q_right, scale, keys_ptr, values_ptr, whole, length, stride,
            HEAD_DIM, LEFT, RIGHT, TAIL, True, 1,
        )  # fmt: skip
    share = (1.0 / weight)[:, None]
    out_ptr += first * (HEADS * HEAD_DIM) + head * HEAD_DIM
    out_at = out_ptr + query[:, None] * (HEADS * HEAD_DIM)
    d = tl.arange(0, LEFT)[None, :]
    tl.store(out_at + d, (left * share).to(out_ptr.dtype.element_ty), real[:, None] & (d < HEAD_DIM))
    if RIGHT > 0:
        d = LEFT + tl.arange(0, RIGHT)[None, :]
        tl.store(out_at + d, (right * share).to(out_ptr.dtype.element_ty), real[:, None] & (d < HEAD_DIM))


def attend_tiles(qkv_nLC: Tensor, heads: int) -> Tensor:
    """[n, L, 3 * heads * head_dim] as one product made them to [n, L, heads * head_dim]."""
    tiles, length, width = qkv_nLC.shape
    head_dim = width // (3 * heads)
    out = torch.empty((tiles, length, heads * head_dim), dtype=qkv_nLC.dtype, device=qkv_nLC.device)
    left, right = two_powers(head_dim)
    if left < 16:
        left, right = 16, 0
    elif right:
        right = max(16, right)  # the least that a product takes
    wide = qkv_nLC.element_size() == 4
    tile, block = (64, 32) if wide else (TILE, BLOCK)
    # The last keys: one narrow block, or two. (One as wide as the others gives wrong sums on Hopper with Triton 3.6.)
    tail = length % block
    if out.numel():
        _attend_tiles[(triton.cdiv(length, tile), heads, tiles)](
            qkv_nLC.contiguous(),
            out,
            length,
            head_dim**-0.5,
            heads,
            head_dim,
            left,
            right,
            tile,
            block,
            min(32, max(16, next_power_of_two(tail))) if tail else 0,
            1 if wide else 3 if roomy(qkv_nLC.device) else 2,
            num_warps=tile // 16,
        )
    return out
