"""W + scale B A: what a low-rank adapter makes of a matrix. One function for the trainer, which merges before it saves,
and the engine, which merges what it is sent; so both get the same bits."""

from __future__ import annotations

import torch
from torch import Tensor

PIECE = 2**24  # elements at a time: in 64 bits a whole matrix would need room that a serving GPU does not have


@torch.no_grad()
def merge_adapter(base: Tensor, down: Tensor, up: Tensor, scale: float, out: Tensor | None = None) -> Tensor:
    """`base` [rows, columns], `up` [rows, rank], `down` [rank, columns]; summed in 64 bits, rounded once. Into `out`,
    if there is one."""
    whole = torch.empty_like(base) if out is None else out
    wide = down.to(whole.device, torch.float64) * scale
    step = max(1, PIECE // max(1, base.shape[1]))
    for start in range(0, base.shape[0], step):
        rows = slice(start, start + step)
        before, thin = (part[rows].to(whole.device, torch.float64) for part in (base, up))
        whole[rows] = torch.addmm(before, thin, wide)  # rounded here
    return whole
