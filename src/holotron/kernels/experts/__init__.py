"""A mixture of experts: the choice of a few experts for every token, their products, and the weighted sum."""

from __future__ import annotations

import torch
from torch import Tensor

from holotron.kernels.dispatch import train_with_triton, use_triton
from holotron.kernels.experts import reference
from holotron.kernels.experts.reference import Routing, Stacks
from holotron.kernels.linear.reference import Quantized

__all__ = ["Routing", "Stacks", "different_sizes", "mix", "route", "router_logits"]


def router_logits(x_TD: Tensor, weight_ED: Tensor) -> Tensor:
    """x W^T in fp32 at least."""
    if x_TD.dtype == weight_ED.dtype == torch.bfloat16 and use_triton(x_TD, weight_ED):
        return torch.mm(x_TD, weight_ED.t(), out_dtype=torch.float32)  # the products are exact, the sums fp32
    return reference.router_logits(x_TD, weight_ED)


def route(logits_TE: Tensor, bias_E: Tensor | None, routing: Routing) -> tuple[Tensor, Tensor]:
    """The experts of every token, best first, and what each counts; both [T, k]."""
    if use_triton(logits_TE):
        from holotron.kernels.experts import triton_routing

        if triton_routing.can_route(routing):
            return triton_routing.route(logits_TE, bias_E, routing)
    return reference.route(logits_TE, bias_E, routing)


def mix(
    x_TD: Tensor | Quantized, chosen_Tk: Tensor, weight_Tk: Tensor, stacks: Stacks, beside_TD: Tensor | None = None
) -> Tensor:
    """What a token's experts make of it, summed by their weights, and added to what stands beside them, [T, D]."""
    everything = [t for part in (x_TD, weight_Tk, *stacks) if part is not None for t in _tensors(part)]
    if use_triton(*everything):
        from holotron.kernels.experts import triton

        return triton.mix(x_TD, chosen_Tk, weight_Tk, stacks, beside_TD)
    if isinstance(x_TD, Tensor) and train_with_triton(*everything):
        from holotron.kernels.experts import triton_backward

        mixed = triton_backward.mix(x_TD, chosen_Tk, weight_Tk, stacks)
    else:
        mixed = reference.mix(x_TD, chosen_Tk, weight_Tk, stacks)
    return mixed if beside_TD is None else mixed + beside_TD


def different_sizes(experts: int, top_k: int, most: int) -> list[int]:
    """Numbers of tokens, up to `most`, for which `mix` runs different kernels on a GPU; each is compiled when it is
    first needed, which takes seconds."""
    from holotron.kernels.experts.triton import BOUNDS

    counts = [1, *(int(bound * experts / top_k) + 1 for bound in BOUNDS)]
    return [count for count in counts if count <= most]


def _tensors(part: Tensor | Quantized) -> tuple[Tensor, ...]:
    return (part.values, part.scale) if isinstance(part, Quantized) else (part,)
