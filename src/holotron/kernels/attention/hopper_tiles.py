"""Attention inside the vision tower on Hopper GPUs, in Gluon: as `triton_tiles`, with the parts of a multiprocessor
kept busy at the same time.

A block of 64 queries and 64 keys takes the matrix unit as long as the exponentials take the others. Triton's own
schedule makes all warps of a program do the same thing at once, so each waits for the other. Here every group of four
warps has 64 queries of its own and runs at its own pace: while one multiplies, others take exponents. One more warp
fetches keys and values ahead of them, with the copy engine. Between the two products of a block nothing is waited for:
the scores of the next block and the sums over the values of this one go to the matrix unit together.

Heads have 80 channels: 64 + 16, as in `triton_tiles`. Whatever lies outside of a tile the copy engine reads as zeros
and does not write, so no row is masked; keys beyond the last are (the last block of keys comes first).
"""
# mypy: disable-error-code="no-untyped-def"

import torch
import triton
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from holotron.kernels.triton_math import LOG2E

LEFT, RIGHT = gl.constexpr(64), gl.constexpr(16)  # channels of a head
HEAD_DIM = 80
GROUP = gl.constexpr(64)  # queries of four warps
BLOCK = gl.constexpr(64)  # keys per step
GROUPS, STAGES, REGISTERS = (
    3,
    4,
    152,
)  # of a program: groups of warps, blocks of keys ahead, registers of a group's thread

# Names that changed between Triton 3.6 and 3.9. A barrier is for the warps that run a function.
_barrier = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier
_load = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
_store = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global


@gluon.jit
def _fetch(left_desc, right_desc, tile, row, column, arrived, left, right):
    """A block of rows of one head, its two parts."""
    mbarrier.expect(arrived, left_desc.block_type.nbytes + right_desc.block_type.nbytes)
    _load(left_desc, [tile, row, column], arrived, left)
    _load(right_desc, [tile, row, column + LEFT], arrived, right)


@gluon.jit
def _produce(
    ins, buffers, barriers, place, width, length, GROUPS: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """The warp that fetches: all queries of the program, then keys and values as their places become free."""
    left_desc, right_desc = ins
    q_left, q_right, k_left, k_right, v_left, v_right = buffers
    q_here, k_here, v_here, k_free, v_free = barriers
    tile, query, column = place
    count = (length + BLOCK - 1) // BLOCK
    for group in gl.static_range(GROUPS):
        row = query + GROUP * group
        _fetch(left_desc, right_desc, tile, row, column, q_here.index(group), q_left.index(group), q_right.index(group))
    for n in range(0, count):
        s, turn, row = n % STAGES, (n // STAGES) & 1, (count - 1 - n) * BLOCK
        mbarrier.wait(k_free.index(s), turn ^ 1)
        _fetch(left_desc, right_desc, tile, row, width + column, k_here.index(s), k_left.index(s), k_right.index(s))
        mbarrier.wait(v_free.index(s), turn ^ 1)
        _fetch(left_desc, right_desc, tile, row, 2 * width + column, v_here.index(s), v_left.index(s), v_right.index(s))


@gluon.jit
def _scores(q_left, q_right, k_left, k_right, zero):
    """Begun, not waited for."""
    score = warpgroup_mma(q_left, k_left.reshape([BLOCK, LEFT]).permute((1, 0)), zero, use_acc=False, is_async=True)
    return warpgroup_mma(q_right, k_right.reshape([BLOCK, RIGHT]).permute((1, 0)), score, is_async=True)


@gluon.jit
def _rows(per_row, like: gl.constexpr):
    """One number per row as a column, to be multiplied with something of this layout."""
    return gl.expand_dims(gl.convert_layout(per_row, gl.SliceLayout(1, like)), 1)


@gluon.jit
def _consume(
    outs, buffers, barriers, place, length, scale, group: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Four warps: 64 queries see all keys. While a block's values are summed, the next one's scores are computed."""
    out_left_desc, out_right_desc = outs
    q_left, q_right, k_left, k_right, v_left, v_right = buffers
    q_here, k_here, v_here, k_free, v_free = barriers
    tile, query, column = place
    dtype: gl.constexpr = q_left.dtype
    WIDE: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    NARROW: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 16, 16])
    FOR_WIDE: gl.constexpr = gl.DotOperandLayout(0, WIDE, 2)
    FOR_NARROW: gl.constexpr = gl.DotOperandLayout(0, NARROW, 2)
    scale = scale * LOG2E  # softmax in powers of two
    count = (length + BLOCK - 1) // BLOCK
    ql, qr = q_left.index(group).reshape([GROUP, LEFT]), q_right.index(group).reshape([GROUP, RIGHT])
    zero = gl.zeros([GROUP, BLOCK], gl.float32, WIDE)
    mbarrier.wait(q_here.index(group), 0)
    mbarrier.wait(k_here.index(0), 0)
    score = _scores(ql, qr, k_left.index(0), k_right.index(0), zero)
    score = warpgroup_mma_wait(0, deps=(score,))
    _barrier()
    mbarrier.arrive(k_free.index(0), count=1)
    key = (count - 1) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, WIDE))
    score = gl.where(gl.expand_dims(key < length, 0), score, float("-inf"))
    top = gl.max(score, axis=1) * scale
    p = gl.exp2(score * scale - gl.expand_dims(top, 1))
    weight = gl.sum(p, axis=1)
    share = gl.convert_layout(p.to(dtype), FOR_WIDE, assert_trivial=True)
    left = gl.zeros([GROUP, LEFT], gl.float32, WIDE)
    right = gl.zeros([GROUP, RIGHT], gl.float32, NARROW)
    for n in range(0, count - 1):
        next, next_turn = (n + 1) % STAGES, ((n + 1) // STAGES) & 1
        here, turn = n % STAGES, (n // STAGES) & 1
        mbarrier.wait(k_here.index(next), next_turn)
        score = _scores(ql, qr, k_left.index(next), k_right.index(next), zero)
        mbarrier.wait(v_here.index(here), turn)
        left = warpgroup_mma(share, v_left.index(here).reshape([BLOCK, LEFT]), left, is_async=True)
        same = gl.convert_layout(share, FOR_NARROW, assert_trivial=True)
        right = warpgroup_mma(same, v_right.index(here).reshape([BLOCK, RIGHT]), right, is_async=True)
        score = warpgroup_mma_wait(2, deps=(score,))
        new_top = gl.maximum(top, gl.max(score, axis=1) * scale)
        p = gl.exp2(score * scale - gl.expand_dims(new_top, 1))
        shrink = gl.exp2(top - new_top)
        weight = weight * shrink + gl.sum(p, axis=1)
        top = new_top
        next_share = gl.convert_layout(p.to(dtype), FOR_WIDE, assert_trivial=True)
        left, right, share, next_share = warpgroup_mma_wait(0, deps=(left, right, share, next_share))
        _barrier()
        mbarrier.arrive(k_free.index(next), count=1)
        mbarrier.arrive(v_free.index(here), count=1)
        left = left * _rows(shrink, WIDE)
        right = right * _rows(shrink, NARROW)
        share = next_share
    here, turn = (count - 1) % STAGES, ((count - 1) // STAGES) & 1
    mbarrier.wait(v_here.index(here), turn)
    left = warpgroup_mma(share, v_left.index(here).reshape([BLOCK, LEFT]), left, is_async=True)
    same = gl.convert_layout(share, FOR_NARROW, assert_trivial=True)
    right = warpgroup_mma(same, v_right.index(here).reshape([BLOCK, RIGHT]), right, is_async=True)
    whole = 1.0 / weight
    left, right, share = warpgroup_mma_wait(0, deps=(left, right, share))
    # The result leaves through where the queries were, which these four warps alone have read.
    _barrier()
    ql.store((left * _rows(whole, WIDE)).to(dtype))
    qr.store((right * _rows(whole, NARROW)).to(dtype))
    fence_async_shared()
    _barrier()
    row = query + GROUP * group
    _store(out_left_desc, [tile, row, column], q_left.index(group))
    _store(out_right_desc, [tile, row, column + LEFT], q_right.index(group))
    tma.store_wait(pendings=0)


@gluon.jit
def _attend_tiles(
    left_desc, right_desc, out_left_desc, out_right_desc, length, scale,
    HEADS: gl.constexpr, GROUPS: gl.constexpr, STAGES: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = left_desc.dtype
    width: gl.constexpr = HEADS * (LEFT + RIGHT)
    query, column, tile = gl.program_id(0) * (GROUP * GROUPS), gl.program_id(1) * (LEFT + RIGHT), gl.program_id(2)
    q_left = gl.allocate_shared_memory(dtype, [GROUPS, 1, GROUP, LEFT], left_desc.layout)
    q_right = gl.allocate_shared_memory(dtype, [GROUPS, 1, GROUP, RIGHT], right_desc.layout)
    k_left = gl.allocate_shared_memory(dtype, [STAGES, 1, BLOCK, LEFT], left_desc.layout)
    k_right = gl.allocate_shared_memory(dtype, [STAGES, 1, BLOCK, RIGHT], right_desc.layout)
    v_left = gl.allocate_shared_memory(dtype, [STAGES, 1, BLOCK, LEFT], left_desc.layout)
    v_right = gl.allocate_shared_memory(dtype, [STAGES, 1, BLOCK, RIGHT], right_desc.layout)
    q_here = gl.allocate_shared_memory(gl.int64, [GROUPS, 1], mbarrier.MBarrierLayout())
    k_here = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_here = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for n in gl.static_range(GROUPS):
        mbarrier.init(q_here.index(n), count=1)
    for n in gl.static_range(STAGES):
        mbarrier.init(k_here.index(n), count=1)
        mbarrier.init(v_here.index(n), count=1)
        mbarrier.init(k_free.index(n), count=GROUPS)
        mbarrier.init(v_free.index(n), count=GROUPS)
    fence_async_shared()
    _barrier()
    buffers = (q_left, q_right, k_left, k_right, v_left, v_right)
    barriers = (q_here, k_here, v_here, k_free, v_free)
    ins, outs = (left_desc, right_desc), (out_left_desc, out_right_desc)
    place = (tile, query, column)
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (_consume, (outs, buffers, barriers, place, length, scale, 0, STAGES)),
                (_consume, (outs, buffers, barriers, place, length, scale, 1, STAGES)),
                (_produce, (ins, buffers, barriers, place, width, length, GROUPS, STAGES)),
            ],
            [4, 1],
            [REGISTERS, 24],
        )
    else:
        gl.static_assert(GROUPS == 3)
        gl.warp_specialize(
            [
                (_consume, (outs, buffers, barriers, place, length, scale, 0, STAGES)),
                (_consume, (outs, buffers, barriers, place, length, scale, 1, STAGES)),
                (_consume, (outs, buffers, barriers, place, length, scale, 2, STAGES)),
                (_produce, (ins, buffers, barriers, place, width, length, GROUPS, STAGES)),
            ],
            [4, 4, 1],
            [REGISTERS, REGISTERS, 24],
        )


def supported(qkv_nLC: Tensor, heads: int) -> bool:
    return qkv_nLC.element_size() == 2 and qkv_nLC.shape[-1] == 3 * heads * HEAD_DIM and qkv_nLC.numel() > 0


def attend_tiles(qkv_nLC: Tensor, heads: int) -> Tensor:
    """[n, L, 3 * heads * 80] as one product made them to [n, L, heads * 80]."""
    tiles, length, width = qkv_nLC.shape
    qkv = qkv_nLC.contiguous()
    out = torch.empty((tiles, length, width // 3), dtype=qkv.dtype, device=qkv.device)
    parts = [_blocks(tensor, columns) for tensor in (qkv, out) for columns in (LEFT.value, RIGHT.value)]
    grid = (triton.cdiv(length, GROUP.value * GROUPS), heads, tiles)
    _attend_tiles[grid](*parts, length, HEAD_DIM**-0.5, heads, GROUPS, STAGES, REGISTERS, num_warps=4)
    return out


def _blocks(tensor: Tensor, columns: int) -> TensorDescriptor:
    shape = [1, BLOCK.value, columns]
    dtype = gl.bfloat16 if tensor.dtype == torch.bfloat16 else gl.float16
    return TensorDescriptor.from_tensor(tensor, shape, gl.NVMMASharedLayout.get_default_for(shape, dtype))
