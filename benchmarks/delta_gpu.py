"""The gated delta rule on a GPU: right against the torch reference in float64, then timed against the floor.

    PYTHONPATH=src python benchmarks/delta_gpu.py       # checks, the table, and launch configurations beside each other

Shapes are Qwen3.5-35B-A3B's: 30 layers of 16 key heads and 32 value heads of 128 x 128, bf16 inputs, fp32 states. The
floor is the larger of two: bytes that must move at 4.3 TB/s (states once in and out; q, k, v, y once), and products at
790 TFLOP/s, the rates measured on an H200 for copies and large matrix products. Needs torch and triton alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from holotron.kernels.delta import reference, triton, triton_backward, triton_prefill
from holotron.kernels.delta.triton_prepare import CHUNK, Prepared
from holotron.kernels.layout import Layout, Snapshot

G, H, K, V = 16, 32, 128, 128
LAYERS = 30
BYTES_PER_SECOND, FLOPS = 4.3e12, 790e12
BF16 = torch.bfloat16
Check = tuple[str, float, float]


def inputs(tokens: int, *, shape: tuple[int, int, int, int] = (G, H, K, V), hard: bool = False) -> list[Tensor]:
    """q, k, v, a, dt_bias, A, b. `hard`: keys that repeat, hardly any decay, full corrections."""
    g, h, k_dim, v_dim = shape
    line = torch.randn(tokens, 2 * g * k_dim + h * v_dim, device="cuda").to(BF16)
    q, k, v = line.split([g * k_dim, g * k_dim, h * v_dim], dim=-1)
    k = (k[:1] + 0.02 * k).to(BF16) if hard else k
    a, b = torch.randn(2, tokens, h, device="cuda").to(BF16)
    rates = -torch.exp(torch.randn(h, device="cuda")) * (1e-4 if hard else 1.0)
    return [
        q.unflatten(-1, (g, k_dim)),
        k.unflatten(-1, (g, k_dim)),
        v.unflatten(-1, (h, v_dim)),
        a,
        torch.randn(h, device="cuda") * 2 - 2,
        rates,
        b + 5 if hard else b,
    ]


def error(out: Tensor, ref: Tensor) -> float:
    out, ref = out.detach().double(), ref.detach().double()
    if not bool(torch.isfinite(out).all()):
        return float("inf")
    return float((out - ref).norm() / ref.norm().clamp_min(1e-30))


def wide(tensors: list[Tensor]) -> list[Tensor]:
    return [t.detach().double() for t in tensors]


# --------------------------------------------------------------------------------------------------------------- right


def check_forward() -> Iterator[Check]:
    cases = [
        ("published shape", (G, H, K, V), [700, 1, 33, 64], 3, False),
        ("keys that repeat", (G, H, K, V), [257, 90], 0, True),
        ("small heads, odd values", (2, 6, 16, 20), [40, 2, 75], 2, False),
    ]
    for name, shape, lengths, decodes, hard in cases:
        _, h, k_dim, v_dim = shape
        batch = [1] * decodes + lengths
        rows = torch.randperm(2 * len(batch) + 2).tolist()
        marks = [Snapshot(decodes, lengths[0] // 3, rows[-1]), Snapshot(decodes, lengths[0], rows[-2])]
        layout = Layout.build(
            batch,
            contexts=[5] * len(batch),
            rows=rows[: len(batch)],
            num_decodes=decodes,
            snapshots=marks,
            device="cuda",
        )
        arguments = inputs(layout.num_tokens, shape=shape, hard=hard)
        pool = torch.randn(len(rows), 2, h, v_dim, k_dim, device="cuda")  # two layers, as the engine's pool has them
        state, wide_state, other = pool[:, 1], pool.double()[:, 1], pool[:, 0].clone()
        y = triton.gated_delta_rule(*arguments, state, layout)
        expected = reference.gated_delta_rule(*wide(arguments), wide_state, layout)
        tolerance = 2e-2 if hard else 8e-3
        yield f"{name}: outputs", error(y, expected), tolerance
        yield f"{name}: states and snapshots", error(state, wide_state), tolerance
        yield f"{name}: other layers untouched", error(pool[:, 0], other), 0.0


def check_decode() -> Iterator[Check]:
    """A captured step, replayed on other rows."""
    batch, rows = 7, 20
    order = torch.randperm(rows)[:batch].tolist()
    fixed = Layout.build([1] * batch, contexts=[3] * batch, rows=list(range(batch)), device="cuda")
    arguments = inputs(batch)
    state = torch.randn(rows, H, V, K, device="cuda")
    before = state.clone()
    triton.gated_delta_rule(*arguments, state, fixed)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = triton.gated_delta_rule(*arguments, state, fixed)
    state.copy_(before)
    fixed.rows_S.copy_(torch.tensor(order, dtype=torch.int32))
    graph.replay()
    moved = Layout.build([1] * batch, contexts=[3] * batch, rows=order, device="cuda")
    wide_state = before.double()
    expected = reference.gated_delta_rule(*wide(arguments), wide_state, moved)
    yield "captured decode: outputs", error(y, expected), 4e-3
    yield "captured decode: states", error(state, wide_state), 2e-6


def check_backward() -> Iterator[Check]:
    for name, shape, lengths in (
        ("published shape", (G, H, K, V), [300, 33, 64, 1]),
        ("small heads", (1, 2, 32, 24), [70, 5]),
    ):
        layout = Layout.build(lengths, device="cuda")
        arguments = [t.detach().requires_grad_() for t in inputs(sum(lengths), shape=shape)]
        push = torch.randn(sum(lengths), shape[1], shape[3], device="cuda").to(BF16)
        y = triton_backward.Delta.apply(*arguments, layout)
        found = torch.autograd.grad((y * push).sum(), arguments)
        exact = [t.requires_grad_() for t in wide(arguments)]
        expected = torch.autograd.grad((reference.gated_delta_rule(*exact, None, layout) * push).sum(), exact)
        for part, ours, theirs in zip(["q", "k", "v", "a", "dt_bias", "A", "b"], found, expected, strict=True):
            yield f"{name}: gradient of {part}", error(ours, theirs), 1.6e-2


# --------------------------------------------------------------------------------------------------------------- timed


def seconds(run: Callable[[], object], repeats: int = 20) -> float:
    """The median of single runs, after two to warm up."""
    for _ in range(2):
        run()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return sorted(times)[len(times) // 2]


def line(name: str, took: float, moved: float, products: float) -> None:
    floor = max(moved / BYTES_PER_SECOND, products / FLOPS)
    print(
        f"{name:44} {took * 1e6:9.1f} us {took * LAYERS * 1e3:8.2f} ms  {moved / took / 1e12:5.2f} TB/s "
        f"{products / took / 1e12:6.1f} TFLOP/s  floor {floor * 1e6:7.1f} us = {floor / took:5.1%}",
        flush=True,
    )


def forward_cost(tokens: int, sequences: int) -> tuple[float, float]:
    """Bytes and operations of a prompt: q, k, v, y and decays; the state in and out; and per token and head three
    products with the state, four rows of a chunk's matrices and the products that make them."""
    moved = tokens * (2 * G * K + 2 * H * V + 2 * H) * 2 + sequences * 2 * H * V * K * 4
    return moved, tokens * H * 2 * (3 * K * V + 2 * CHUNK * V + 2 * CHUNK * K)


PROMPTS = {
    "1 x 8192": [8192],
    "4 x 2048": [2048] * 4,
    "8192 in 9 pieces": [3000, 2400, 1000, 700, 500, 300, 200, 80, 12],
    "32 x 256": [256] * 32,
}


def time_prefill(name: str) -> None:
    lengths = PROMPTS[name]
    layout = Layout.build(lengths, contexts=[1] * len(lengths), num_decodes=0, device="cuda")
    arguments, state = inputs(8192), torch.randn(len(lengths), H, V, K, device="cuda")
    q, k, v, a, bias, A, b = arguments
    y = torch.empty_like(v, memory_format=torch.contiguous_format)
    prepared = Prepared(q, k, a, bias, A, b, layout)
    took = seconds(lambda: triton.gated_delta_rule(*arguments, state, layout))
    line(f"prefill {name}", took, *forward_cost(8192, len(lengths)))
    alone = seconds(lambda: Prepared(q, k, a, bias, A, b, layout))
    walked = seconds(lambda: triton_prefill.walk(q, k, v, prepared, state, y, layout))
    print(f"{'':44} {alone * 1e6:9.1f} us without state, {walked * 1e6:.1f} us walking")


def time_backward() -> None:
    lengths = PROMPTS["4 x 2048"]
    layout = Layout.build(lengths, device="cuda")
    arguments = [t.detach().requires_grad_() for t in inputs(8192)]
    push = torch.randn(8192, H, V, device="cuda").to(BF16)
    y = triton_backward.Delta.apply(*arguments, layout)
    took = seconds(lambda: torch.autograd.grad(y, arguments, push, retain_graph=True), 8)
    moved, products = forward_cost(8192, 4)
    line("backward 4 x 2048", took, 2 * moved, 3.5 * products)


def time_decode(batch: int) -> None:
    layout = Layout.build([1] * batch, contexts=[1] * batch, device="cuda")
    arguments, state = inputs(batch), torch.randn(batch, H, V, K, device="cuda")
    moved = batch * (2 * H * V * K * 4 + (2 * G * K + 2 * H * V) * 2)
    took = seconds(lambda: triton.gated_delta_rule(*arguments, state, layout))
    line(f"decode {batch} sequences", took, moved, batch * H * 6 * K * V)


def tune() -> None:
    kept = triton_prefill.WARPS, triton_prefill.STAGES
    for warps, stages in ((2, 2), (4, 1), (4, 2), (4, 3)):
        triton_prefill.WARPS, triton_prefill.STAGES = warps, stages
        print(f"walk with {warps} warps, {stages} stages", "(as shipped)" if (warps, stages) == kept else "")
        for name in ("4 x 2048", "1 x 8192"):
            time_prefill(name)
    triton_prefill.WARPS, triton_prefill.STAGES = kept
    kept = triton_backward.WARPS, triton_backward.STAGES
    for warps, stages in ((4, 1), (8, 1)):
        triton_backward.WARPS, triton_backward.STAGES = warps, stages
        print(f"gradient with {warps} warps, {stages} stages", "(as shipped)" if (warps, stages) == kept else "")
        time_backward()
    triton_backward.WARPS, triton_backward.STAGES = kept


def main() -> int:
    began = time.perf_counter()
    torch.manual_seed(0)
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    wrong = 0
    for check in (check_decode, check_forward, check_backward):
        try:
            for what, found, tolerance in check():
                wrong += not found <= tolerance
                mark = "ok " if found <= tolerance else "BAD"
                print(f"{mark} {what:60} {found:.1e} (at most {tolerance:.0e})", flush=True)
        except RuntimeError as problem:  # a kernel that does not launch: say so and go on with the others
            wrong += 1
            print(f"BAD {check.__name__}: {problem}", flush=True)
        print(f"    {time.perf_counter() - began:.0f} s", flush=True)
    print(f"\n{'one layer':44} {'':12} {LAYERS} layers")
    for batch in (1, 16, 100, 256):
        time_decode(batch)
    for name in PROMPTS:
        time_prefill(name)
    time_backward()
    tune()
    print(f"{time.perf_counter() - began:.0f} s in all, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
