"""Attention of prompt pieces to their paged contexts, in Triton: FlashAttention-2's loop over blocks of keys.

A program owns a tile of queries of one head. Blocks that every query of the tile may see need no mask; only the last
few, around the diagonal, do. Tiles further down a prompt see more and take longer, so they are started first.
"""
# mypy: disable-error-code="no-untyped-def"

import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.attention.triton_decode import locate
from holotron.kernels.dispatch import roomy
from holotron.kernels.layout import Layout
from holotron.kernels.triton_math import LOG2E

TILE = 64  # queries per program: two programs share a multiprocessor, one multiplies while the other takes exponents
BLOCK = 64  # keys per step


@triton.jit
def _blocks(
    acc,
    weight,
    top,
    q,
    scale,
    position,
    keys_ptr,
    values_ptr,
    pages_ptr,
    begin,
    end,
    page_size,
    stride_page,
    stride_token,
    HEAD_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
    MASKED: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Let a tile of queries see the keys begin:end; the running maximum, weight and weighted sum of values move on."""
    d = tl.arange(0, HEAD_DIM)
    for at in tl.range(begin, end, BLOCK, num_stages=STAGES):
        common, offset = locate(pages_ptr, at, end, page_size, stride_page, stride_token, BLOCK, ALIGNED)
        key = at + tl.arange(0, BLOCK)
        if MASKED:
            k = tl.load(keys_ptr + common + offset[None, :] + d[:, None], (key < end)[None, :], other=0.0)
        else:
            k = tl.load(keys_ptr + common + offset[None, :] + d[:, None])
        score = tl.dot(q, k.to(q.dtype), input_precision="ieee")
        if MASKED:
            score = tl.where(position[:, None] >= key[None, :], score, float("-inf"))
        new_top = tl.maximum(top, tl.max(score, axis=1) * scale)
        p = tl.exp2(score * scale - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        weight = weight * shrink + tl.sum(p, axis=1)
        if MASKED:
            v = tl.load(values_ptr + common + offset[:, None] + d[None, :], (key < end)[:, None], other=0.0)
        else:
            v = tl.load(values_ptr + common + offset[:, None] + d[None, :])
        acc = tl.dot(p.to(q.dtype), v.to(q.dtype), acc=acc * shrink[:, None], input_precision="ieee")
        top = new_top
    return acc, weight, top


@triton.jit(
    do_not_specialize=["num_tiles"],
    do_not_specialize_on_alignment=["tiles_ptr", "context_ptr", "pages_ptr"],
)
def _prefill(
    q_ptr,
    keys_ptr,
    values_ptr,
    out_ptr,
    tiles_ptr,
    context_ptr,
    pages_ptr,
    num_tiles,
    scale,
    page_size,
    stride_qt,
    stride_pages,
    stride_page,
    stride_token,
    stride_head,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
    STAGES: tl.constexpr,
):
    head = tl.program_id(0)
    tile = num_tiles - 1 - tl.program_id(1)
    sequence = tl.load(tiles_ptr + tile)
    begin = tl.load(tiles_ptr + num_tiles + tile)
    start = tl.load(tiles_ptr + 2 * num_tiles + tile)
    length = tl.load(tiles_ptr + 3 * num_tiles + tile)
    context = tl.load(context_ptr + sequence)
    kv = head // (HEADS // KV_HEADS)

    within = begin + tl.arange(0, TILE)
    d = tl.arange(0, HEAD_DIM)
    token = (start + within).to(tl.int64)
    real = (within < length)[:, None]
    q = tl.load(q_ptr + token[:, None] * stride_qt + head * HEAD_DIM + d[None, :], real, other=0.0)
    COMPUTE: tl.constexpr = q.dtype if keys_ptr.dtype.element_ty == q.dtype else tl.float16
    q = q.to(COMPUTE)
    scale = scale * LOG2E  # softmax in powers of two

    position = context + within
    keys_ptr += kv * stride_head
    values_ptr += kv * stride_head
    pages_ptr += sequence.to(tl.int64) * stride_pages
    top = tl.full([TILE], float("-inf"), tl.float32)
    weight = tl.zeros([TILE], tl.float32)
    acc = tl.zeros([TILE, HEAD_DIM], tl.float32)
    # A tile that only fills up the table has no queries, and sees nothing.
    clear = tl.where(length > 0, (context + begin + 1) // BLOCK * BLOCK, 0)  # every query sees the keys before this one
    end = tl.where(length > 0, context + tl.minimum(begin + TILE, length), 0)
    acc, weight, top = _blocks(
        acc, weight, top, q, scale, position, keys_ptr, values_ptr, pages_ptr, 0, clear,
        page_size, stride_page, stride_token, HEAD_DIM, BLOCK, ALIGNED, False, STAGES,
    )  # fmt: skip
    acc, weight, top = _blocks(
        acc, weight, top, q, scale, position, keys_ptr, values_ptr, pages_ptr, clear, end,
        page_size, stride_page, stride_token, HEAD_DIM, BLOCK, ALIGNED, True, STAGES,
    )  # fmt: skip
    y = acc * (1.0 / weight)[:, None]
    out_at = out_ptr + token[:, None] * (HEADS * HEAD_DIM) + head * HEAD_DIM + d[None, :]
    tl.store(out_at, y.to(out_ptr.dtype.element_ty), real)


def attend_prompts(q_THD: Tensor, keys: Tensor, values: Tensor, out_THD: Tensor, layout: Layout, scale: float) -> None:
    """Every token after the decodes looks at its sequence's context and the tokens before it in its piece."""
    _, heads, head_dim = q_THD.shape
    sixteen_bit = q_THD.element_size() == 2
    tiles = layout.tiles(TILE)
    _prefill[(heads, tiles.shape[1])](
        q_THD,
        keys,
        values,
        out_THD,
        tiles,
        layout.context_S,
        layout.pages_SM,
        tiles.shape[1],
        scale,
        layout.page_size,
        q_THD.stride(0),
        layout.pages_SM.stride(0),
        keys.stride(0),
        keys.stride(1),
        keys.stride(2),
        heads,
        keys.shape[2],
        head_dim,
        TILE,
        BLOCK if sixteen_bit else 32,
        layout.page_size % BLOCK == 0,
        1 if not sixteen_bit else 5 if roomy(q_THD.device) else 3,
        num_warps=4,
    )
