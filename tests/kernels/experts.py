"""Routed experts: Triton against the torch reference in float64, choices, sums, 8 bits and gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from holotron.kernels.experts import reference, triton, triton_backward, triton_routing
from holotron.kernels.experts.reference import Routing, Stacks
from holotron.kernels.linear.reference import Quantized, quantize
from tests.kernels.material import FP8, FP32, TOLERANCE, Bench, Result, error

SMALL = ((37, 40, 24, 6, 2), (1, 20, 36, 17, 3))  # tokens, hidden, width, experts, chosen
REAL = ((100, 2688, 1856, 32, 6), (2148, 2048, 512, 256, 8), (1, 1344, 928, 128, 6), (700, 200, 136, 20, 4))


def check(bench: Bench) -> Iterator[Result]:
    for case in cases(bench):
        yield from case


def cases(bench: Bench, shapes: Sequence[tuple[int, int, int, int, int]] | None = None) -> Iterator[Iterator[Result]]:
    yield _choices(bench)
    for tokens, hidden, width, experts, k in shapes or (REAL if bench.device == "cuda" else SMALL):
        label = f"{tokens} tokens, {k} of {experts} experts"
        for name, chosen in _choices_of(bench, tokens, experts, k).items():
            yield _order(f"{label}, {name}", chosen, experts)
            for gated, dtype in ((False, FP32), (True, FP32), (False, bench.half), (True, bench.half)):
                if dtype == FP32 and bench.device == "cuda" and tokens > 1000:
                    continue  # fp32 has no matrix instruction, and float64 takes long
                if bench.device == "cpu" and ((dtype == FP32) != gated or (gated and name != "spread")):
                    continue  # the interpreter takes long too
                what = f"{label}, {name}, {'swiglu' if gated else 'relu2'} {dtype}"
                x, weight, stacks = _material(bench, chosen, hidden, width, experts, gated, dtype)
                yield _forward(what, x, chosen, weight, stacks, dtype)
                if name == "spread" and tokens <= 700:
                    yield _backward(what, bench, x, chosen, weight, stacks, dtype)
            for gated in (False, True):
                if bench.device == "cpu" and (tokens == 1) != gated:
                    continue
                what = f"{label}, {name}, {'swiglu' if gated else 'relu2'}, 8 bits"
                yield _eight_bit(what, bench, chosen, hidden, width, experts, gated)


def _choices(bench: Bench) -> Iterator[Result]:
    """The same experts in the same order, and their weights; equal scores and numbers that are none included."""
    for routing in (
        Routing(6, scale=2.5),
        Routing(3, normalise=False),
        Routing(4, "softmax"),
        Routing(2, "softmax", normalise=False),
    ):
        for experts in (128, 20) if bench.device == "cuda" else (20,):
            logits = bench.normal(9, experts, scale=2.0)
            logits[3] = 0.25  # all alike: the first ones
            for bias in (None, bench.normal(experts, scale=0.2)):
                chosen, weight = triton_routing.route(logits, bias, routing)
                wanted, wanted_weight = reference.route(
                    logits.double(), None if bias is None else bias.double(), routing
                )
                label = f"route {routing.scoring} {routing.top_k} of {experts}, bias {bias is not None}"
                yield f"{label}: experts", float((chosen != wanted).sum()), 0.0
                yield f"{label}: weights", error(weight, wanted_weight), 1e-5
            logits[5] = float("nan")
            logits[6, 1:] = float("nan")
            chosen, weight = triton_routing.route(logits, None, routing)
            distinct = all(len(set(row)) == routing.top_k for row in chosen.tolist())
            inside = bool(((chosen >= 0) & (chosen < experts)).all())
            yield f"route {routing.scoring} {routing.top_k} of {experts}: not a number", float(not distinct), 0.0
            yield f"route {routing.scoring} {routing.top_k} of {experts}: experts that exist", float(not inside), 0.0
            yield "route: what is not a number stays none", float(not bool(weight[5].isnan().all())), 0.0


def _choices_of(bench: Bench, tokens: int, experts: int, k: int) -> dict[str, Tensor]:
    spread = torch.rand(tokens, experts, generator=bench.generator, device=bench.device).argsort(-1)[:, :k]
    same = torch.arange(experts - 1, experts - 1 - k, -1, device=bench.device).expand(tokens, k)
    return {"spread": spread, "all alike": same.int()}  # neither is contiguous


def _order(label: str, chosen: Tensor, experts: int) -> Iterator[Result]:
    for block in (16, 64):
        order = triton_routing.order_by_expert(chosen, experts, block)
        wanted = chosen.flatten().sort(stable=True).indices
        yield f"{label}: order", float((order.pair_P != wanted).sum()), 0.0
        yield f"{label}: places", float((order.row_P != wanted.argsort()).sum()), 0.0
        starts = chosen.flatten().long().bincount(minlength=experts).cumsum(0)
        yield f"{label}: starts", float((order.start_E1[1:] != starts).sum() + order.start_E1[0].abs()), 0.0
        covered = torch.zeros(chosen.numel(), dtype=torch.int64)
        wrong = 0
        sorted_experts = chosen.flatten()[wanted].tolist()
        for expert, begin, end in order.tiles_3B.T.tolist():
            end = min(end, begin + block)
            covered[begin:end] += 1
            wrong += sum(found != expert for found in sorted_experts[begin:end])
        yield f"{label}: tiles cover every row once", float((covered != 1).sum()), 0.0
        yield f"{label}: rows of another expert in a tile", float(wrong), 0.0


def _material(
    bench: Bench, chosen: Tensor, hidden: int, width: int, experts: int, gated: bool, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Stacks]:
    x = bench.normal(len(chosen), hidden + 8, dtype=dtype)[:, :hidden]
    weight = bench.normal(*chosen.shape).sigmoid()
    up, gate = (bench.normal(experts, width, hidden, dtype=dtype, scale=hidden**-0.5) for _ in range(2))
    down = bench.normal(experts, hidden, width, dtype=dtype, scale=width**-0.5)
    return x, weight, Stacks(up, down, gate if gated else None)


def _wide(stacks: Stacks) -> Stacks:
    return Stacks(*(t.double() if isinstance(t, Tensor) else None for t in stacks))  # type: ignore[arg-type]


def _forward(
    label: str, x: Tensor, chosen: Tensor, weight: Tensor, stacks: Stacks, dtype: torch.dtype
) -> Iterator[Result]:
    # The hidden layer and each expert's answer are rounded, a sum of several roundings against one.
    tolerance = 4e-6 if dtype == FP32 else 2 * TOLERANCE[dtype]
    wanted = reference.mix(x.double(), chosen, weight.double(), _wide(stacks))
    yield label, error(triton.mix(x, chosen, weight, stacks), wanted), tolerance
    beside = torch.randn_like(wanted).to(dtype)
    plain = triton.tilings(chosen.numel(), stacks.up_EFD.shape[0], x.element_size() == 2)
    tiles = [t._replace(descriptors=True, swapped=True) for t in plain]
    together = triton.mix_with(*tiles, x, chosen, weight, stacks, beside)
    yield f"{label}, beside something, by descriptors, swapped", error(together, wanted + beside.double()), tolerance
    few = min(len(x), 5)
    alone = triton.mix_with(*tiles, x[:few], chosen[:few], weight[:few], stacks, beside[:few])
    yield f"{label}: tokens alone and among others, with the same tiles", float((alone != together[:few]).sum()), 0.0


def _eight_bit(
    label: str, bench: Bench, chosen: Tensor, hidden: int, width: int, experts: int, gated: bool
) -> Iterator[Result]:
    """With operands that e4m3 holds exactly: what is left is the rounding of the hidden layer and of the result."""
    x, weight, stacks = _material(bench, chosen, hidden, width, experts, gated, FP32)
    x8 = Quantized(x.to(FP8).contiguous(), x.abs().amax(-1, keepdim=True) * 0.1)
    narrow = Stacks(*(quantize(t) if isinstance(t, Tensor) else None for t in stacks))  # type: ignore[arg-type]
    found = triton.mix(x8, chosen, weight, narrow)
    wide = Stacks(*(t.dequantize().double() if isinstance(t, Quantized) else None for t in narrow))  # type: ignore[arg-type]
    wanted = reference.mix(x8.dequantize().double(), chosen, weight.double(), wide)
    # The interpreter rounds the hidden layer to e4m3 without carrying.
    yield label, error(found, wanted), 5e-2 if bench.device == "cuda" else 0.12
    if bench.device == "cuda":
        yield f"{label}, as the reference", error(found, reference.mix(x8, chosen, weight, narrow)), 3e-2


def _backward(
    label: str, bench: Bench, x: Tensor, chosen: Tensor, weight: Tensor, stacks: Stacks, dtype: torch.dtype
) -> Iterator[Result]:
    push = bench.normal(*x.shape, dtype=dtype)
    names = ["tokens", "weights", "up", "down", "gate"][: 4 + (stacks.gate_EFD is not None)]
    inputs = [x, weight, *(t for t in stacks if isinstance(t, Tensor))]
    found = _gradients(triton_backward.mix, inputs, chosen, push)
    wanted = _gradients(reference.mix, [t.double() for t in inputs], chosen, push.double())
    for name, ours, theirs in zip(names, found, wanted, strict=True):
        yield f"{label}: gradient of {name}", error(ours, theirs), 2e-5 if dtype == FP32 else 4 * TOLERANCE[dtype]
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        frozen = triton_backward.mix(leaf, chosen, weight, stacks)
        (d_leaf,) = torch.autograd.grad(frozen, leaf, push)
    yield f"{label}: gradient of tokens, experts frozen", float((d_leaf != found[0]).sum()), 0.0


def _gradients(mix, inputs: list[Tensor], chosen: Tensor, push: Tensor) -> list[Tensor]:  # type: ignore[no-untyped-def]
    with torch.enable_grad():
        x, weight, *matrices = [t.detach().requires_grad_() for t in inputs]
        out = mix(x, chosen, weight, Stacks(*matrices))
        return list(torch.autograd.grad(out, [x, weight, *matrices], push))
