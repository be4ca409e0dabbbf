"""The likeliest token, in Triton: one launch where torch takes ten, and each row is read twice (the second time from
the cache) where those write and read it eight times.
"""
# mypy: disable-error-code="no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 8192


@triton.jit
def _likeliest(
    logits_ptr, never_ptr, out_ptr, rows, stride, V: tl.constexpr, MASKED: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * stride
    place = tl.arange(0, BLOCK)
    top = tl.full([BLOCK], float("-inf"), tl.float32)  # of all ids, place by place
    best = tl.full([BLOCK], float("-inf"), tl.float32)  # of those that may be chosen
    token = tl.zeros([BLOCK], tl.int32)
    for first in range(0, V, BLOCK):
        id = first + place
        x = tl.load(logits_ptr + id, id < V, other=float("-inf")).to(tl.float32)
        top = tl.maximum(top, x)
        if MASKED:
            x = tl.where(tl.load(never_ptr + id, id < V, other=1) != 0, float("-inf"), x)
        token = tl.where(x > best, id, token)
        best = tl.maximum(best, x)
    peak, most = tl.max(top, axis=0), tl.max(best, axis=0)
    chosen = tl.min(tl.where(best == most, token, V), axis=0)
    chosen = tl.where(chosen < V, chosen, 0)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, V, BLOCK):
        id = first + place
        total += tl.exp(tl.load(logits_ptr + id, id < V, other=float("-inf")).to(tl.float32) - peak)
    tl.store(out_ptr + row, chosen.to(tl.float64))
    tl.store(out_ptr + rows + row, (most - peak - tl.log(tl.sum(total, axis=0))).to(tl.float64))


def likeliest(logits_BV: Tensor, never_V: Tensor | None = None) -> Tensor:
    rows, vocab = logits_BV.shape
    out = torch.empty((2, rows), dtype=torch.float64, device=logits_BV.device)
    if rows:
        never = never_V.view(torch.uint8) if never_V is not None else logits_BV
        block = min(BLOCK, triton.next_power_of_2(vocab))
        _likeliest[(rows,)](
            logits_BV,
            never,
            out,
            rows,
            logits_BV.stride(0),
            vocab,
            never_V is not None,
            block,
            num_warps=max(1, block // 512),
        )
    return out
