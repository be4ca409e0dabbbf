"""Attention of single tokens to long paged contexts, in Triton.

Reading the keys and values once is all the time there is, so: the query heads that share a key head form one small
matrix tile (5 of 16 rows used for 40/8 heads; the matrix unit has nothing better to do), and every context is cut into
SPLITS parts for parallelism, whose softmaxes are joined by a second, tiny kernel. The launch grid depends on the number
of sequences alone, never on their lengths, so a captured graph stays valid while contexts grow.
"""
# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.dispatch import multiprocessors, next_power_of_two, roomy
from holotron.kernels.layout import Layout

BLOCK = 64  # tokens per step
LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def page_offsets(pages_ptr, at, end, page_size, stride_page, stride_token, BLOCK: tl.constexpr, ALIGNED: tl.constexpr):
    """Where tokens at : at+BLOCK of a sequence lie in the cache, in elements (64-bit: caches are large)."""
    within = tl.arange(0, BLOCK)
    if ALIGNED:  # a block never crosses a page: one look-up
        page = tl.load(pages_ptr + at // page_size).to(tl.int64)
        return page * stride_page + (at % page_size + within) * stride_token
    token = at + within
    page = tl.load(pages_ptr + token // page_size, token < end, other=0).to(tl.int64)
    return page * stride_page + (token % page_size) * stride_token


@triton.jit(do_not_specialize_on_alignment=["pages_ptr", "context_ptr"])
def _decode(
    q_ptr,
    keys_ptr,
    values_ptr,
    out_ptr,
    part_ptr,
    weight_ptr,
    pages_ptr,
    context_ptr,
    scale,
    page_size,
    stride_qt,
    stride_pages,
    stride_page,
    stride_token,
    stride_head,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_TILE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    SPLITS: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
    STAGES: tl.constexpr,
):
    kv = tl.program_id(0)
    split = tl.program_id(1)
    token = tl.program_id(2).to(tl.int64)
    seen = tl.load(context_ptr + token) + 1
    share = tl.cdiv(tl.cdiv(seen, BLOCK), SPLITS) * BLOCK
    begin = split * share
    end = tl.minimum(begin + share, seen)

    head = tl.arange(0, GROUP_TILE)
    d = tl.arange(0, HEAD_DIM)
    q_at = q_ptr + token * stride_qt + (kv * GROUP + head)[:, None] * HEAD_DIM + d[None, :]
    q = tl.load(q_at, (head < GROUP)[:, None], other=0.0)
    # 8-bit keys become fp16, which holds them exactly and takes one instruction; queries fit it as well.
    COMPUTE: tl.constexpr = q.dtype if keys_ptr.dtype.element_ty == q.dtype else tl.float16
    q = q.to(COMPUTE)
    scale = scale * LOG2E  # softmax in powers of two
    pages_ptr += token * stride_pages
    keys_ptr += kv * stride_head
    values_ptr += kv * stride_head
    top = tl.full([GROUP_TILE], float("-inf"), tl.float32)
    weight = tl.zeros([GROUP_TILE], tl.float32)
    acc = tl.zeros([GROUP_TILE, HEAD_DIM], tl.float32)
    for at in tl.range(begin, end, BLOCK, num_stages=STAGES):
        offset = page_offsets(pages_ptr, at, end, page_size, stride_page, stride_token, BLOCK, ALIGNED)
        real = at + tl.arange(0, BLOCK) < end
        k = tl.load(keys_ptr + offset[None, :] + d[:, None], real[None, :], other=0.0)
        score = tl.dot(q, k.to(COMPUTE), input_precision="ieee")
        score = tl.where(real[None, :], score, float("-inf"))
        new_top = tl.maximum(top, tl.max(score, axis=1) * scale)
        p = tl.exp2(score * scale - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        v = tl.load(values_ptr + offset[:, None] + d[None, :], real[:, None], other=0.0)
        acc = tl.dot(p.to(COMPUTE), v.to(COMPUTE), acc=acc * shrink[:, None], input_precision="ieee")
        weight = weight * shrink + tl.sum(p, axis=1)
        top = new_top

    query = token * (KV_HEADS * GROUP) + kv * GROUP + head
    if SPLITS == 1:
        out_at = out_ptr + query[:, None] * HEAD_DIM + d[None, :]
        y = acc * (1.0 / weight)[:, None]
        tl.store(out_at, y.to(out_ptr.dtype.element_ty), (head < GROUP)[:, None])
    else:
        # A part is stored normalised, with the logarithm of its weight; an empty part has weight zero.
        part_at = part_ptr + (query * SPLITS + split)[:, None] * HEAD_DIM + d[None, :]
        safe = tl.where(weight > 0, weight, 1.0)
        tl.store(part_at, acc * (1.0 / safe)[:, None], (head < GROUP)[:, None])
        log_weight = tl.where(weight > 0, top + tl.log2(safe), float("-inf"))
        tl.store(weight_ptr + query * SPLITS + split, log_weight, head < GROUP)


@triton.jit
def _join(part_ptr, weight_ptr, out_ptr, HEAD_DIM: tl.constexpr, SPLITS: tl.constexpr, SPLITS_TILE: tl.constexpr):
    query = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, SPLITS_TILE)
    d = tl.arange(0, HEAD_DIM)
    log_weight = tl.load(weight_ptr + query * SPLITS + split, split < SPLITS, other=float("-inf"))
    weight = tl.exp2(log_weight - tl.max(log_weight, axis=0))
    part_at = part_ptr + (query * SPLITS + split)[:, None] * HEAD_DIM + d[None, :]
    part = tl.load(part_at, (split < SPLITS)[:, None], other=0.0)
    y = tl.sum(part * weight[:, None], axis=0) / tl.sum(weight, axis=0)
    tl.store(out_ptr + query * HEAD_DIM + d, y.to(out_ptr.dtype.element_ty))


def splits_for(sequences: int, kv_heads: int, most_tokens: int, device: torch.device) -> int:
    """Parts per context: enough programs to balance contexts of different lengths over the GPU (about 16 for each
    multiprocessor), but no part shorter than four blocks."""
    wanted = triton.cdiv(16 * multiprocessors(device), sequences * kv_heads)
    return max(1, min(wanted, triton.cdiv(most_tokens, 4 * BLOCK), 64))


def attend_tokens(q_THD: Tensor, keys: Tensor, values: Tensor, out_THD: Tensor, layout: Layout, scale: float) -> None:
    """The first `num_decodes` tokens look at their whole contexts and themselves."""
    sequences = layout.num_decodes
    _, heads, head_dim = q_THD.shape
    kv_heads = keys.shape[2]
    splits = splits_for(sequences, kv_heads, layout.pages_SM.shape[1] * layout.page_size, q_THD.device)
    part = torch.empty((sequences, heads, splits, head_dim), dtype=torch.float32, device=q_THD.device)
    weight = torch.empty((sequences, heads, splits), dtype=torch.float32, device=q_THD.device)
    _decode[(kv_heads, splits, sequences)](
        q_THD,
        keys,
        values,
        out_THD,
        part,
        weight,
        layout.pages_SM,
        layout.context_S,
        scale,
        layout.page_size,
        q_THD.stride(0),
        layout.pages_SM.stride(0),
        keys.stride(0),
        keys.stride(1),
        keys.stride(2),
        kv_heads,
        heads // kv_heads,
        max(next_power_of_two(heads // kv_heads), 16),
        head_dim,
        splits,
        BLOCK,
        layout.page_size % BLOCK == 0,
        3 if roomy(q_THD.device) else 2,
        num_warps=4,
    )
    if splits > 1:
        _join[(sequences * heads,)](part, weight, out_THD, head_dim, splits, next_power_of_two(splits), num_warps=1)
