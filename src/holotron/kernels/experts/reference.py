"""A mixture of experts, in torch: which experts read a token, what each makes of it, and their weighted sum.

A token and one of its experts are a *pair*. Pairs are sorted by expert, so that an expert's rows lie together and its
matrices are read once:

    chosen    token 0: B A   token 1: C A   token 2: B C          pairs 0 1 | 2 3 | 4 5
    sorted    A: 1 3    B: 0 4    C: 2 5                          each expert multiplies its own segment
    summed    every token takes its own rows back, in the order it chose them

The sum of a token runs over its experts from the first chosen to the last, whoever else is in the batch: beside other
tokens it gets what it gets alone, up to how the matrix product of a segment rounds, which may depend on the segment's
length. (In float64 that is 1e-15; in 16 bits a product of another shape may differ in the last bit, and a near-tie of
the router may then fall the other way. That holds for every matrix product here, routed or not.)

Legend: T tokens, D hidden, E experts, k experts of a token, P = T k pairs, F width of an expert, I inputs, O outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from holotron.kernels.linear.reference import Quantized, linear, quantize


@dataclass(frozen=True)
class Routing:
    """How scores become a choice. Nemotron and DeepSeek take the sigmoid of each score, add a learned bias for the
    choice alone, and may choose groups of experts first; Qwen takes the softmax over all experts."""

    top_k: int
    scoring: Literal["sigmoid", "softmax"] = "sigmoid"
    normalise: bool = True  # the weights of the chosen sum to one
    scale: float = 1.0
    groups: int = 1
    top_groups: int = 1


class Stacks(NamedTuple):
    """The matrices of all experts, one above the other; `gate` makes the activation SwiGLU instead of a squared ReLU.
    In 8 bits they have one scale per output channel of each expert, [E, O, 1]."""

    up_EFD: Tensor | Quantized
    down_EDF: Tensor | Quantized
    gate_EFD: Tensor | Quantized | None = None


def router_logits(x_TD: Tensor, weight_ED: Tensor) -> Tensor:
    """In fp32 at least: two experts that score alike in 16 bits are two different experts."""
    wide = torch.promote_types(x_TD.dtype, torch.float32)
    return F.linear(x_TD.to(wide), weight_ED.to(wide))


def route(logits_TE: Tensor, bias_E: Tensor | None, routing: Routing) -> tuple[Tensor, Tensor]:
    """The experts of every token, best first (of equals the first), and what each counts; both [T, k]."""
    scores_TE = logits_TE.sigmoid() if routing.scoring == "sigmoid" else logits_TE.softmax(-1)
    choice_TE = scores_TE.detach() if bias_E is None else scores_TE.detach() + bias_E
    if routing.groups > 1:
        grouped_TGe = choice_TE.unflatten(-1, (routing.groups, -1))
        group_score = grouped_TGe.topk(2, dim=-1).values.sum(-1)
        keep = torch.zeros_like(group_score, dtype=torch.bool)
        keep.scatter_(-1, _best(group_score, routing.top_groups), True)
        choice_TE = grouped_TGe.masked_fill(~keep[..., None], -torch.inf).flatten(-2)
    chosen_Tk = _best(choice_TE, routing.top_k)
    weight_Tk = scores_TE.gather(-1, chosen_Tk)
    if routing.normalise:
        weight_Tk = weight_Tk / (weight_Tk.sum(-1, keepdim=True) + 1e-20)
    return chosen_Tk, weight_Tk * routing.scale


def _best(score: Tensor, count: int) -> Tensor:
    return score.sort(dim=-1, descending=True, stable=True).indices[..., :count]


def mix(x_TD: Tensor | Quantized, chosen_Tk: Tensor, weight_Tk: Tensor, stacks: Stacks) -> Tensor:
    """What a token's experts make of it, summed by their weights, [T, D]."""
    top_k, experts = chosen_Tk.shape[1], stacks.up_EFD.shape[0]
    order_P = chosen_Tk.flatten().sort(stable=True).indices  # pairs by expert
    sizes = chosen_Tk.flatten().bincount(minlength=experts).tolist()
    rows = _rows(x_TD, order_P // top_k)
    up = _products(rows, stacks.up_EFD, sizes)
    if stacks.gate_EFD is not None:
        hidden_PF = F.silu(_products(rows, stacks.gate_EFD, sizes)) * up
    else:
        hidden_PF = F.relu(up).square()
    y_PD = _products(hidden_PF, stacks.down_EDF, sizes)
    y_TkD = y_PD[order_P.argsort()].unflatten(0, (-1, top_k))  # back to the order of the pairs
    total_TD = y_TkD.new_zeros((), dtype=torch.promote_types(y_PD.dtype, torch.float32))
    for j in range(top_k):
        total_TD = total_TD + weight_Tk[:, j, None] * y_TkD[:, j]
    return total_TD.to(y_PD.dtype)


def _rows(x_TD: Tensor | Quantized, token_P: Tensor) -> Tensor | Quantized:
    if isinstance(x_TD, Tensor):
        return x_TD.index_select(0, token_P)
    values = x_TD.values.view(torch.uint8).index_select(0, token_P).view(x_TD.values.dtype)
    return Quantized(values, x_TD.scale.index_select(0, token_P))


def _products(rows_PI: Tensor | Quantized, weight_EOI: Tensor | Quantized, sizes: list[int]) -> Tensor:
    """Each expert's product with its own segment of the rows."""
    if isinstance(weight_EOI, Tensor):
        assert isinstance(rows_PI, Tensor), "8-bit activations need 8-bit weights"
        segments = zip(rows_PI.split(sizes), weight_EOI.unbind(0), strict=True)
        return torch.cat([linear(rows, weight) for rows, weight in segments if len(rows)])
    rows8 = quantize(rows_PI) if isinstance(rows_PI, Tensor) else rows_PI
    weights = map(Quantized, weight_EOI.values.unbind(0), weight_EOI.scale.unbind(0))
    parts = zip(rows8.values.split(sizes), rows8.scale.split(sizes), weights, strict=True)
    return torch.cat([linear(Quantized(values, scale), weight) for values, scale, weight in parts if len(values)])
