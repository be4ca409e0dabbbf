"""Who goes where, in Triton: the choice of experts, the order of the pairs, and the sum at the end.

Nothing here is known to the host. Launch grids depend on the number of tokens alone, so all of it can be captured in a
CUDA graph; what depends on the choice (where an expert's rows begin, which tile belongs to whom) is a table that the
device makes and the products read.

Sorting is counting: tokens are cut into runs of RUN; a first pass counts every run's tokens per expert, a second adds
up the counts before its own run and puts each pair in its place. Within an expert, pairs stay in the order of tokens.
"""
# mypy: disable-error-code="no-untyped-def"

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from holotron.kernels.dispatch import next_power_of_two
from holotron.kernels.experts.reference import Routing

RUN = 32  # tokens per program
_LOWEST: tl.constexpr = tl.constexpr(-3.0e38)  # below every score, above what is already chosen


class Order(NamedTuple):
    """Pairs sorted by expert, and the rows of the sorted pairs cut into tiles that never straddle two experts."""

    pair_P: Tensor  # int32: which pair (token * k + place) a sorted row is
    row_P: Tensor  # int32: which sorted row a pair is
    start_E1: Tensor  # int32: expert e has the rows start[e]:start[e+1]
    tiles_3B: Tensor  # int32: expert, first row and end of every tile; unused tiles are empty
    block: int  # rows of a tile
    top_k: int


@triton.jit(do_not_specialize=["tokens"])
def _route(
    logits_ptr, bias_ptr, chosen_ptr, weight_ptr, tokens, scale,
    E: tl.constexpr, BLOCK_E: tl.constexpr, K: tl.constexpr, BLOCK_K: tl.constexpr, ROWS: tl.constexpr,
    SOFTMAX: tl.constexpr, NORMALISE: tl.constexpr, HAS_BIAS: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    e = tl.arange(0, BLOCK_E)[None, :]
    live = (token < tokens)[:, None]
    x = tl.load(logits_ptr + token[:, None].to(tl.int64) * E + e, live & (e < E), other=0.0).to(tl.float32)
    if SOFTMAX:
        x = tl.where(e < E, x, float("-inf"))
        score = tl.exp(x - tl.max(x, axis=1)[:, None])
        score = score / tl.sum(score, axis=1)[:, None]
    else:
        score = 1.0 / (1.0 + tl.exp(-x))
    choice = score
    if HAS_BIAS:
        choice += tl.load(bias_ptr + e, e < E, other=0.0).to(tl.float32)
    choice = tl.where(choice == choice, choice, _LOWEST)  # what is not a number must not be no expert at all
    choice = tl.where(e < E, choice, float("-inf"))
    place = tl.arange(0, BLOCK_K)[None, :]
    chosen = tl.zeros([ROWS, BLOCK_K], tl.int32)
    weight = tl.zeros([ROWS, BLOCK_K], tl.float32)
    for j in tl.static_range(K):
        best = tl.max(choice, axis=1)[:, None]
        first = tl.min(tl.where(choice == best, e, BLOCK_E), axis=1)[:, None]
        hit = e == first
        chosen = tl.where(place == j, first, chosen)
        weight = tl.where(place == j, tl.sum(tl.where(hit, score, 0.0), axis=1)[:, None], weight)
        choice = tl.where(hit, float("-inf"), choice)
    if NORMALISE:
        weight = weight / (tl.sum(weight, axis=1)[:, None] + 1e-20)
    at = token[:, None] * K + place
    tl.store(chosen_ptr + at, chosen, live & (place < K))
    tl.store(weight_ptr + at, weight * scale, live & (place < K))


@triton.jit
def _membership(chosen_ptr, token, e, tokens, K: tl.constexpr):
    """[tokens, experts]: whether an expert is among a token's, and in which place. No token chooses one twice."""
    member = (token[:, None] < 0) & (e[None, :] < 0)
    place = tl.zeros(member.shape, tl.int32)
    for j in tl.static_range(K):
        hit = tl.load(chosen_ptr + token * K + j, token < tokens, other=-1)[:, None] == e[None, :]
        member = member | hit
        place = tl.where(hit, j, place)
    return member, place


@triton.jit(do_not_specialize=["tokens"])
def _count(chosen_ptr, count_ptr, tokens, BLOCK_E: tl.constexpr, K: tl.constexpr, RUN: tl.constexpr):
    run = tl.program_id(0)
    e = tl.arange(0, BLOCK_E)
    member, _ = _membership(chosen_ptr, run * RUN + tl.arange(0, RUN), e, tokens, K)
    tl.store(count_ptr + run * BLOCK_E + e, tl.sum(member.to(tl.int32), axis=0))


@triton.jit(
    do_not_specialize=["tokens", "runs", "num_tiles"],
    do_not_specialize_on_alignment=["count_ptr", "pair_ptr", "row_ptr", "start_ptr", "tiles_ptr"],
)
def _place(
    chosen_ptr, count_ptr, pair_ptr, row_ptr, start_ptr, tiles_ptr, tokens, runs, num_tiles,
    E: tl.constexpr, BLOCK_E: tl.constexpr, K: tl.constexpr, RUN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(0)
    e = tl.arange(0, BLOCK_E)
    total = tl.zeros([BLOCK_E], tl.int32)
    before = tl.zeros([BLOCK_E], tl.int32)
    for at in range(0, runs, 16):
        other = (at + tl.arange(0, 16))[:, None]
        count = tl.load(count_ptr + other * BLOCK_E + e[None, :], other < runs, other=0)
        total += tl.sum(count, axis=0)
        before += tl.sum(tl.where(other < run, count, 0), axis=0)
    end = tl.cumsum(total, axis=0)
    first = end - total

    token = run * RUN + tl.arange(0, RUN)
    member, place = _membership(chosen_ptr, token, e, tokens, K)
    earlier = tl.cumsum(member.to(tl.int32), axis=0) - member.to(tl.int32)
    row = (first + before)[None, :] + earlier
    pair = token[:, None] * K + place
    tl.store(pair_ptr + row, pair, member)
    tl.store(row_ptr + pair, row, member)
    if run == 0:
        tl.store(start_ptr + e + 1, end, e < E)
        tl.store(start_ptr + e, first, e == 0)

    tiles = (total + BLOCK - 1) // BLOCK
    after = tl.cumsum(tiles, axis=0)
    for at in range(run * 16, num_tiles, tl.num_programs(0) * 16):
        tile = at + tl.arange(0, 16)
        owner = tl.sum((after[None, :] <= tile[:, None]).to(tl.int32), axis=1)
        mine = e[None, :] == owner[:, None]  # of nobody, beyond the last tile
        begin = tl.sum(tl.where(mine, first[None, :] + (tile[:, None] - (after - tiles)[None, :]) * BLOCK, 0), axis=1)
        stop = tl.sum(tl.where(mine, end[None, :], 0), axis=1)
        tl.store(tiles_ptr + tile, tl.where(begin < stop, owner, 0), tile < num_tiles)
        tl.store(tiles_ptr + num_tiles + tile, begin, tile < num_tiles)
        tl.store(tiles_ptr + 2 * num_tiles + tile, stop, tile < num_tiles)


@triton.jit(do_not_specialize_on_alignment=["row_ptr"])
def _combine(
    y_ptr, weight_ptr, row_ptr, beside_ptr, out_ptr,
    D: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr, WEIGHTED: tl.constexpr, BESIDE: tl.constexpr,
):  # fmt: skip
    """A stretch of one token's sum, over its experts in the order of choice."""
    token = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for j in tl.static_range(K):
        row = tl.load(row_ptr + token * K + j).to(tl.int64)
        y = tl.load(y_ptr + row * D + d, d < D, other=0.0).to(tl.float32)
        if WEIGHTED:
            y *= tl.load(weight_ptr + token * K + j)
        total += y
    if BESIDE:
        total += tl.load(beside_ptr + token * D + d, d < D, other=0.0).to(tl.float32)
    tl.store(out_ptr + token * D + d, total.to(out_ptr.dtype.element_ty), d < D)


def can_route(routing: Routing) -> bool:
    return routing.groups == 1


def route(logits_TE: Tensor, bias_E: Tensor | None, routing: Routing) -> tuple[Tensor, Tensor]:
    tokens, experts = logits_TE.shape
    k = routing.top_k
    chosen = torch.empty((tokens, k), dtype=torch.int32, device=logits_TE.device)
    weight = torch.empty((tokens, k), dtype=torch.float32, device=logits_TE.device)
    rows = 4
    if tokens:
        _route[(triton.cdiv(tokens, rows),)](
            logits_TE.contiguous(),
            logits_TE if bias_E is None else bias_E,
            chosen,
            weight,
            tokens,
            routing.scale,
            experts,
            next_power_of_two(experts),
            k,
            next_power_of_two(k),
            rows,
            routing.scoring == "softmax",
            routing.normalise,
            bias_E is not None,
            num_warps=4,
        )
    return chosen, weight


def order_by_expert(chosen_Tk: Tensor, experts: int, block: int) -> Order:
    """Sort the pairs, and cut the rows of every expert into tiles of `block`."""
    chosen_Tk = chosen_Tk.to(torch.int32).contiguous()
    tokens, k = chosen_Tk.shape
    pairs, runs = tokens * k, triton.cdiv(tokens, RUN)
    # An expert's last tile may be nearly empty; that is the most there can be of them.
    num_tiles = min(experts, pairs) + pairs // block
    block_e = max(16, next_power_of_two(experts))
    count, pair, row, start, tiles = torch.empty(
        runs * block_e + 2 * pairs + experts + 1 + 3 * num_tiles, dtype=torch.int32, device=chosen_Tk.device
    ).split([runs * block_e, pairs, pairs, experts + 1, 3 * num_tiles])
    if tokens:
        _count[(runs,)](chosen_Tk, count, tokens, block_e, k, RUN, num_warps=4)
        _place[(runs,)](
            chosen_Tk,
            count,
            pair,
            row,
            start,
            tiles,
            tokens,
            runs,
            num_tiles,
            experts,
            block_e,
            k,
            RUN,
            block,
            num_warps=8 if block_e > 128 else 4,
        )
    else:
        start.zero_()
    return Order(pair, row, start, tiles.view(3, num_tiles), block, k)


def combine(y_PD: Tensor, weight_Tk: Tensor | None, order: Order, beside_TD: Tensor | None = None) -> Tensor:
    """Every token's rows, summed by their weights (or as they are), and what stands beside them."""
    pairs, width = y_PD.shape
    tokens = pairs // order.top_k
    out = torch.empty((tokens, width), dtype=y_PD.dtype, device=y_PD.device)
    block = min(1024, next_power_of_two(width))
    if tokens:
        _combine[(tokens, triton.cdiv(width, block))](
            y_PD,
            y_PD if weight_Tk is None else weight_Tk,
            order.row_P,
            y_PD if beside_TD is None else beside_TD.contiguous(),
            out,
            width,
            order.top_k,
            block,
            weight_Tk is not None,
            beside_TD is not None,
            num_warps=max(1, block // 256),
        )
    return out
