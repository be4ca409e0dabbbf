"""Attention of single tokens to long paged contexts, in Triton.

Reading the keys and values once is all the time there is, so: the query heads that share a key head form one small
matrix tile (5 of 16 rows used for 40/8 heads; the matrix unit has nothing better to do), and every context is cut into
parts for parallelism, whose softmaxes are joined by a second, tiny kernel. The launch grid depends on the number of
sequences and the width of the page table, never on contexts, so a captured graph stays valid while they grow.
"""
# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.dispatch import multiprocessors, next_power_of_two
from holotron.kernels.layout import Layout
from holotron.kernels.triton_math import LOG2E

BLOCK = 64  # tokens per step
MOST_SPLITS = 64
STAGES = 5  # two for the page table, two blocks of keys and values on their way, one at work


@triton.jit
def locate(pages_ptr, at, end, page_size, stride_page, stride_token, BLOCK: tl.constexpr, ALIGNED: tl.constexpr):
    """Where tokens at : at+BLOCK of a sequence lie in the cache, in elements: a common offset (64-bit: caches are
    large) and one for each token."""
    within = tl.arange(0, BLOCK)
    if ALIGNED:  # a block never crosses a page: one look-up, and the tokens' own offsets are always the same
        page = tl.load(pages_ptr + at // page_size).to(tl.int64)
        common = page * stride_page + (at % page_size) * stride_token
        offset = within * stride_token
    else:
        token = at + within
        page = tl.load(pages_ptr + token // page_size, token < end, other=0).to(tl.int64)
        common = tl.zeros([], tl.int64)
        offset = page * stride_page + (token % page_size) * stride_token
    return common, offset


@triton.jit
def _unpack(pair, NATIVE: tl.constexpr):
    """Words that hold two e4m3 numbers each: the lower and the upper ones, in fp16.

    The matrix unit wants two *tokens* side by side in a register, but neighbours in memory are two *columns*. Loading
    words keeps the fast 16-bit path from shared memory; the columns are parted in registers, two words at a time."""
    if NATIVE:
        return tl.inline_asm_elementwise(
            """{
            .reg .b16 a, b;
            .reg .b32 x, y;
            mov.b32 {a, b}, $2;
            cvt.rn.f16x2.e4m3x2 x, a;
            cvt.rn.f16x2.e4m3x2 y, b;
            prmt.b32 $0, x, y, 0x5410;
            prmt.b32 $1, x, y, 0x7632;
            }""",
            constraints="=r,=r,r",
            args=[pair],
            dtype=(tl.float16, tl.float16),
            is_pure=True,
            pack=2,
        )
    low = (pair & 0xFF).to(tl.uint8).to(tl.float8e4nv, bitcast=True).to(tl.float16)
    high = ((pair >> 8) & 0xFF).to(tl.uint8).to(tl.float8e4nv, bitcast=True).to(tl.float16)
    return low, high


@triton.jit(do_not_specialize=["splits"], do_not_specialize_on_alignment=["pages_ptr", "context_ptr"])
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
    splits,
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
    WHOLE: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
    PACKED: tl.constexpr,
    NATIVE: tl.constexpr,
    STAGES: tl.constexpr,
):
    kv = tl.program_id(0)
    split = tl.program_id(1)
    token = tl.program_id(2).to(tl.int64)
    seen = tl.load(context_ptr + token) + 1
    share = tl.cdiv(tl.cdiv(seen, BLOCK), splits) * BLOCK
    begin = split * share
    end = tl.minimum(begin + share, seen)

    head = tl.arange(0, GROUP_TILE)
    d = tl.arange(0, HEAD_DIM)
    q_at = q_ptr + token * stride_qt + (kv * GROUP + head)[:, None] * HEAD_DIM + d[None, :]
    q = tl.load(q_at, (head < GROUP)[:, None], other=0.0)
    # 8-bit keys become fp16, which holds them exactly and takes one instruction; queries fit it as well.
    COMPUTE: tl.constexpr = tl.float16 if PACKED else q.dtype
    COLUMNS: tl.constexpr = HEAD_DIM // 2 if PACKED else HEAD_DIM
    column = tl.arange(0, COLUMNS)
    q = q.to(COMPUTE)
    scale = scale * LOG2E  # softmax in powers of two
    pages_ptr += token * stride_pages
    keys_ptr += kv * stride_head
    values_ptr += kv * (stride_head // 2 if PACKED else stride_head)
    top = tl.full([GROUP_TILE], float("-inf"), tl.float32)
    weight = tl.zeros([GROUP_TILE], tl.float32)
    acc = tl.zeros([GROUP_TILE, COLUMNS], tl.float32)
    if PACKED:
        acc_high = tl.zeros([GROUP_TILE, COLUMNS], tl.float32)
    for at in tl.range(begin, end, BLOCK, num_stages=STAGES):
        common, offset = locate(pages_ptr, at, end, page_size, stride_page, stride_token, BLOCK, ALIGNED)
        real = at + tl.arange(0, BLOCK) < end
        k = tl.load(keys_ptr + common + offset[None, :] + d[:, None], real[None, :], other=0.0)
        score = tl.dot(q, k.to(COMPUTE), input_precision="ieee")
        score = tl.where(real[None, :], score, float("-inf"))
        new_top = tl.maximum(top, tl.max(score, axis=1) * scale)
        p = tl.exp2(score * scale - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        p16 = p.to(COMPUTE)
        if PACKED:
            pair = tl.load(values_ptr + common // 2 + (offset // 2)[:, None] + column[None, :], real[:, None], other=0)
            v, v_high = _unpack(pair, NATIVE)
            acc_high = tl.dot(p16, v_high, acc=acc_high * shrink[:, None])
        else:
            v = tl.load(values_ptr + common + offset[:, None] + column[None, :], real[:, None], other=0.0)
        acc = tl.dot(p16, v, acc=acc * shrink[:, None], input_precision="ieee")
        weight = weight * shrink + tl.sum(p, axis=1)
        top = new_top

    if PACKED:
        acc = tl.reshape(tl.join(acc, acc_high), [GROUP_TILE, HEAD_DIM])
    query = token * (KV_HEADS * GROUP) + kv * GROUP + head
    if WHOLE:
        out_at = out_ptr + query[:, None] * HEAD_DIM + d[None, :]
        y = acc * (1.0 / weight)[:, None]
        tl.store(out_at, y.to(out_ptr.dtype.element_ty), (head < GROUP)[:, None])
    else:
        # A part is stored normalised, with the logarithm of its weight; an empty part has weight zero.
        part_at = part_ptr + (query * splits + split)[:, None] * HEAD_DIM + d[None, :]
        safe = tl.where(weight > 0, weight, 1.0)
        tl.store(part_at, acc * (1.0 / safe)[:, None], (head < GROUP)[:, None])
        log_weight = tl.where(weight > 0, top + tl.log2(safe), float("-inf"))
        tl.store(weight_ptr + query * splits + split, log_weight, head < GROUP)


@triton.jit(do_not_specialize=["splits"])
def _join(part_ptr, weight_ptr, out_ptr, splits, HEAD_DIM: tl.constexpr, MOST: tl.constexpr):
    query = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, MOST)
    d = tl.arange(0, HEAD_DIM)
    log_weight = tl.load(weight_ptr + query * splits + split, split < splits, other=float("-inf"))
    weight = tl.exp2(log_weight - tl.max(log_weight, axis=0))
    part_at = part_ptr + (query * splits + split)[:, None] * HEAD_DIM + d[None, :]
    part = tl.load(part_at, (split < splits)[:, None], other=0.0)
    y = tl.sum(part * weight[:, None], axis=0) / tl.sum(weight, axis=0)
    tl.store(out_ptr + query * HEAD_DIM + d, y.to(out_ptr.dtype.element_ty))


def splits_for(sequences: int, kv_heads: int, most_tokens: int, device: torch.device) -> int:
    """Parts per context: enough programs to balance contexts of different lengths over the GPU (about 16 for each
    multiprocessor), but no part shorter than four blocks."""
    wanted = triton.cdiv(16 * multiprocessors(device), sequences * kv_heads)
    return max(1, min(wanted, triton.cdiv(most_tokens, 4 * BLOCK), MOST_SPLITS))


def attend_tokens(q_THD: Tensor, keys: Tensor, values: Tensor, out_THD: Tensor, layout: Layout, scale: float) -> None:
    """The first `num_decodes` tokens look at their whole contexts and themselves."""
    sequences = layout.num_decodes
    _, heads, head_dim = q_THD.shape
    kv_heads = keys.shape[2]
    splits = splits_for(sequences, kv_heads, layout.pages_SM.shape[1] * layout.page_size, q_THD.device)
    packed = keys.element_size() == 1
    part = torch.empty((sequences, heads, splits, head_dim), dtype=torch.float32, device=q_THD.device)
    weight = torch.empty((sequences, heads, splits), dtype=torch.float32, device=q_THD.device)
    _decode[(kv_heads, splits, sequences)](
        q_THD,
        keys,
        values.view(torch.int16) if packed else values,
        out_THD,
        part,
        weight,
        layout.pages_SM,
        layout.context_S,
        scale,
        splits,
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
        splits == 1,
        BLOCK,
        layout.page_size % BLOCK == 0,
        packed,
        q_THD.is_cuda,
        STAGES,
        num_warps=4,
    )
    if splits > 1:
        _join[(sequences * heads,)](part, weight, out_THD, splits, head_dim, MOST_SPLITS, num_warps=4)
