"""Routed experts on a GPU: checked against the torch reference, then timed against what the chip allows.

    python benchmarks/experts_gpu.py                    all of it, in under two minutes
    python benchmarks/experts_gpu.py --json out.json    also write the numbers

Needs torch, triton and this repository. Two layers in their published shapes, Nemotron-3-Nano (128 experts, six chosen,
squared ReLU) and Qwen3.5-35B-A3B (256 experts, eight chosen, SwiGLU), in bf16 and in 8 bits, with M tokens at once.

First, in many processes at a time: the checks of tests/kernels/experts.py, and one run of every tiling that will be
timed, so that it is compiled. Then, alone: the time of each product with each tiling, held against the result of the
first (a table to choose `kernels.experts.triton.tilings` from), and that of a whole layer as the model runs it, from a
captured graph. The floor is the larger of bytes (every expert that is chosen once, and the shared one) at 4.3 TB/s and
operations at 700 TFLOP/s in bf16, 1400 in 8 bits.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from holotron.kernels.experts import Routing, Stacks, mix, reference, route, router_logits  # noqa: E402
from holotron.kernels.experts.triton import RELU2, SWIGLU, Tiling, products, tilings  # noqa: E402
from holotron.kernels.experts.triton_routing import Order, order_by_expert  # noqa: E402
from holotron.kernels.linear import Quantized, linear, quantize, relu2  # noqa: E402

BYTES, FLOPS = 4.3e12, {False: 700e12, True: 1400e12}
MANY = (1, 100, 2148, 8192)
WORKERS = 8  # that compile; four more check


@dataclass(frozen=True)
class Shape:
    hidden: int
    width: int
    experts: int
    top_k: int
    shared: int
    gated: bool
    routing: Routing


SHAPES = {
    "nemotron-3-nano": Shape(2688, 1856, 128, 6, 3712, False, Routing(6, scale=2.5)),
    "qwen3.5-35b-a3b": Shape(2048, 512, 256, 8, 512, True, Routing(8, "softmax")),
}


# ---------------------------------------------------------------------------------------------------- what is timed


def candidates(pairs: int, experts: int, eight_bit: bool, gated: bool) -> list[Tiling]:
    """The tilings worth trying, the one in use first."""
    rows = pairs / experts
    d = 2 if eight_bit else 1  # twice as many inputs in the same bytes
    few = [
        Tiling(16, 64, 128 * d, 4, 4), Tiling(16, 128, 64 * d, 4, 4), Tiling(16, 32, 128 * d, 4, 5),
        Tiling(16, 64, 128 * d, 4, 4, descriptors=True), Tiling(16, 64, 128 * d, 4, 4, swapped=True),
        Tiling(16, 128, 64 * d, 4, 5, descriptors=True, swapped=True),
        Tiling(16, 64, 128 * d, 4, 5, descriptors=True, swapped=True),
    ]  # fmt: skip
    some = [
        Tiling(64, 128, 64 * d, 4, 4), Tiling(64, 128, 64 * d, 4, 3, descriptors=True),
        Tiling(64, 256, 64 * d, 8, 3, descriptors=True), Tiling(64, 256, 64 * d, 4, 3, descriptors=True),
    ]  # fmt: skip
    many = [
        Tiling(128, 128, 64 * d, 8, 3), Tiling(128, 128, 64 * d, 4, 4, descriptors=True),
        Tiling(128, 128, 64 * d, 8, 3, descriptors=True), Tiling(128, 256, 64 * d, 8, 3, descriptors=True),
        Tiling(128, 256, 64 * d, 8, 3), Tiling(128, 64, 64 * d, 4, 4, descriptors=True),
    ]  # fmt: skip
    wanted = few if rows <= 12 else many if rows > 200 else [*some, *many]
    in_use = tilings(pairs, experts, True, eight_bit)
    most = 64 if gated else 128  # sums per thread, twice if gated; more do not fit into its registers
    return [t for t in dict.fromkeys([*in_use, *wanted]) if t.rows * t.columns <= most * 32 * t.warps]


class Layer:
    """One layer's weights, and everything it does with M tokens."""

    def __init__(self, shape: Shape, eight_bit: bool) -> None:
        self.shape, self.eight_bit = shape, eight_bit
        draw = torch.Generator("cuda").manual_seed(0)
        s = shape

        def matrix(*sizes: int) -> Tensor:
            made = torch.empty(sizes, dtype=torch.bfloat16, device="cuda")
            return made.normal_(0, sizes[-1] ** -0.5, generator=draw)

        def narrow(weight: Tensor) -> Tensor | Quantized:
            if not eight_bit:
                return weight
            values, scale = quantize(weight.flatten(0, -2))
            return Quantized(values.view(weight.shape), scale.view(*weight.shape[:-1], 1))

        self.gate = narrow(matrix(s.experts, s.width, s.hidden)) if s.gated else None
        self.stacks = Stacks(
            narrow(matrix(s.experts, s.width, s.hidden)), narrow(matrix(s.experts, s.hidden, s.width)), self.gate
        )
        self.router, self.bias = matrix(s.experts, s.hidden), torch.zeros(s.experts, device="cuda")
        self.shared = [narrow(matrix(s.shared, s.hidden)) for _ in range(1 + s.gated)]
        self.shared_down = narrow(matrix(s.hidden, s.shared))

    def tokens(self, count: int) -> Tensor:
        draw = torch.Generator("cuda").manual_seed(count)
        return torch.randn(count, self.shape.hidden, generator=draw, device="cuda").to(torch.bfloat16)

    def choose(self, x_TD: Tensor) -> tuple[Tensor, Tensor]:
        bias = self.bias if self.shape.routing.scoring == "sigmoid" else None
        return route(router_logits(x_TD, self.router), bias, self.shape.routing)

    def __call__(self, x_TD: Tensor) -> Tensor:
        chosen, weight = self.choose(x_TD)
        x = quantize(x_TD) if self.eight_bit else x_TD
        hidden = linear(x, self.shared[0])
        if self.shape.gated:
            inner: Tensor | Quantized = torch.nn.functional.silu(linear(x, self.shared[1])) * hidden
        else:
            inner = relu2(hidden, self.eight_bit)
        return mix(x, chosen, weight, self.stacks, linear(inner, self.shared_down))

    def floor(self, x_TD: Tensor) -> tuple[float, float]:
        """Seconds for the bytes, and for the operations."""
        s = self.shape
        matrices = 3 if s.gated else 2
        touched = self.choose(x_TD)[0].unique().numel()
        size = matrices * s.hidden * (touched * s.width + s.shared) * (1 if self.eight_bit else 2)
        flops = 2 * matrices * len(x_TD) * s.hidden * (s.top_k * s.width + s.shared)
        return size / BYTES, flops / FLOPS[self.eight_bit]

    def first(self, x: Tensor | Quantized, order: Order, tiling: Tiling, at_tokens: bool = True) -> Tensor:
        activation = SWIGLU if self.shape.gated else RELU2
        return products(
            x, self.stacks.up_EFD, order, tiling, gate_EOI=self.gate, activation=activation, at_tokens=at_tokens
        )  # fmt: skip

    def first_of_sorted(self, x: Tensor | Quantized, order: Order, tiling: Tiling) -> Tensor:
        return self.first(x, order, tiling, at_tokens=False)

    def second(self, hidden: Tensor | Quantized, order: Order, tiling: Tiling) -> Tensor:
        return products(hidden, self.stacks.down_EDF, order, tiling)


def jobs() -> Iterator[tuple[str, bool, int, Tiling]]:
    for name, s in SHAPES.items():
        for eight_bit in (False, True):
            for count in MANY:
                for tiling in candidates(count * s.top_k, s.experts, eight_bit, s.gated):
                    yield name, eight_bit, count, tiling


@cache
def layer_of(name: str, eight_bit: bool) -> Layer:
    return Layer(SHAPES[name], eight_bit)


@cache
def material(name: str, eight_bit: bool, count: int, rows: int) -> tuple[Tensor | Quantized, Tensor, Order]:
    """Tokens, as the first product wants them; the choice; its order."""
    layer = layer_of(name, eight_bit)
    x = layer.tokens(count)
    chosen, _ = layer.choose(x)
    return (quantize(x) if eight_bit else x), chosen, order_by_expert(chosen, layer.shape.experts, rows)


def sorted_rows(x: Tensor | Quantized, eight_bit: bool, order: Order) -> Tensor | Quantized:
    """Every expert's rows, copied together."""
    token = order.pair_P // order.top_k
    if isinstance(x, Tensor) and not eight_bit:
        return x[token]
    narrow = x if isinstance(x, Quantized) else quantize(x)
    return Quantized(narrow.values.view(torch.uint8)[token].view(narrow.values.dtype), narrow.scale[token])


# ----------------------------------------------------------------------------------------------- many processes first


def compile_part(part: int) -> None:
    """One run of every WORKERS-th kernel, on a few experts; what fails here fails again when it is timed."""
    seen: set[tuple[str, bool, Tiling]] = set()
    few: dict[tuple[str, bool], Layer] = {}
    for name, eight_bit, _, tiling in jobs():
        if (name, eight_bit, tiling) in seen:
            continue
        seen.add((name, eight_bit, tiling))
        if len(seen) % WORKERS != part:
            continue
        if (name, eight_bit) not in few:
            few[name, eight_bit] = Layer(replace(SHAPES[name], experts=16), eight_bit)
        layer = few[name, eight_bit]
        x = layer.tokens(32)
        order = order_by_expert(layer.choose(x)[0], 16, tiling.rows)
        try:
            hidden = layer.first(quantize(x) if eight_bit else x, order, tiling)
            layer.second(quantize(hidden) if eight_bit else hidden, order, tiling)
            if tiling.rows > 16:
                layer.first_of_sorted(sorted_rows(x, eight_bit, order), order, tiling)
            torch.cuda.synchronize()
        except Exception as error:
            print(f"   {name} {'fp8' if eight_bit else 'bf16'} {short(tiling)}: {str(error).splitlines()[0][:120]}")


def check_part(part: int) -> None:
    from tests.kernels.experts import REAL, cases
    from tests.kernels.material import REAL as SIZES
    from tests.kernels.material import Bench

    wrong = done = 0
    with torch.no_grad():
        for case in cases(Bench("cuda", SIZES), [REAL[part]]):
            try:
                for what, found, tolerance in case:
                    done += 1
                    if not found <= tolerance:
                        wrong += 1
                        print(f"   BAD {what}: {found:.2e}, at most {tolerance:.0e}")
            except Exception:
                wrong += 1
                print("   BAD", traceback.format_exc(limit=-3))
    print(f"   {REAL[part]}: {done} checks, {wrong} wrong")


def prepare(seconds: float) -> None:
    begin = time.perf_counter()
    parts = [f"check:{n}" for n in range(4)] + [f"compile:{n}" for n in range(WORKERS)]
    running = [
        (part, subprocess.Popen([sys.executable, __file__, "--part", part], stdout=subprocess.PIPE, text=True))
        for part in parts
    ]
    for part, process in running:
        try:
            said, _ = process.communicate(timeout=max(1.0, seconds - (time.perf_counter() - begin)))
        except subprocess.TimeoutExpired:
            process.kill()
            said = process.communicate()[0] + "   did not finish\n"
        if said or process.returncode:
            print(f"{part} (exit {process.returncode})\n{said}", end="")
    print(f"checked and compiled in {time.perf_counter() - begin:.0f} s\n", flush=True)


# ------------------------------------------------------------------------------------------------------- then timing


class Clock:
    def __init__(self) -> None:
        self.eraser = torch.zeros(256 << 20, dtype=torch.float32, device="cuda")  # far more than the L2 cache

    def __call__(self, call: Callable[[], object], repeat: int = 9) -> float:
        """Microseconds on the device, caches cold; the host launches while the eraser still runs."""
        call()
        times = []
        for _ in range(repeat):
            self.eraser.max()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3)
        return statistics.median(times)


def short(t: Tiling) -> str:
    marks = ("d" if t.descriptors else "") + ("s" if t.swapped else "")
    return f"{t.rows}x{t.columns}x{t.depth} w{t.warps} s{t.stages} {marks}"


def tune(clock: Clock, name: str, eight_bit: bool, count: int) -> list[dict[str, object]]:
    layer, s = layer_of(name, eight_bit), SHAPES[name]
    found: list[dict[str, object]] = []
    wanted: list[Tensor] = []
    for tiling in candidates(count * s.top_k, s.experts, eight_bit, s.gated):
        x, _, order = material(name, eight_bit, count, tiling.rows)
        times, wrong = [], 0.0
        try:
            given: list[Tensor | Quantized] = [x]
            for n, product in enumerate((layer.first, layer.second)):
                out = product(given[n], order, tiling)
                if len(wanted) == n:
                    wanted.append(out)
                wrong = max(wrong, float((out - wanted[n]).float().norm() / wanted[n].float().norm()))
                given.append(quantize(wanted[n]) if eight_bit else wanted[n])
                times.append(clock(partial(product, given[n], order, tiling)))
            if tiling.rows > 16:
                together = sorted_rows(x, eight_bit, order)
                out = layer.first_of_sorted(together, order, tiling)
                wrong = max(wrong, float((out - wanted[0]).float().norm() / wanted[0].float().norm()))
                times.append(clock(partial(layer.first_of_sorted, together, order, tiling)))
        except Exception as error:
            found.append({"tiling": short(tiling), "failed": str(error).splitlines()[0][:100]})
            continue
        named = dict(zip(("first", "second", "first of sorted rows"), times, strict=False))
        found.append({"tiling": short(tiling), **named, "error": wrong})
    return found


def library(clock: Clock, name: str, eight_bit: bool, count: int) -> list[float]:
    """The grouped products of torch, on rows that lie sorted already."""
    layer = layer_of(name, eight_bit)
    x, _, order = material(name, eight_bit, count, 128)
    ends = order.start_E1[1:].contiguous()
    token = order.pair_P // order.top_k
    hidden = layer.first(x, order, tilings(10**9, 1, True, eight_bit)[0])
    times = []
    for rows, weight in ((x, layer.stacks.up_EFD), (hidden, layer.stacks.down_EDF)):
        if isinstance(weight, Quantized):
            narrow = quantize(rows) if isinstance(rows, Tensor) else rows
            if rows is x:
                narrow = Quantized(
                    narrow.values.view(torch.uint8)[token].view(narrow.values.dtype), narrow.scale[token]
                )
            arguments = (narrow.scale.flatten(), weight.scale.flatten(1))
            times.append(
                clock(
                    lambda n=narrow, w=weight, a=arguments: torch._scaled_grouped_mm(
                        n.values, w.values.transpose(-2, -1), *a, offs=ends, out_dtype=torch.bfloat16
                    )
                )
            )
        else:
            assert isinstance(rows, Tensor)
            sorted_rows = rows[token] if rows is x else rows
            times.append(clock(lambda r=sorted_rows, w=weight: torch._grouped_mm(r, w.transpose(-2, -1), offs=ends)))
    return times


def whole(clock: Clock, name: str, eight_bit: bool, count: int) -> dict[str, object]:
    layer = layer_of(name, eight_bit)
    x = layer.tokens(count)
    for _ in range(3):
        layer(x)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(10):
        layer(x)
    host = (time.perf_counter() - begin) / 10 * 1e6
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layer(x)
    taken = clock(graph.replay)
    chosen, weight = layer.choose(x)
    given = quantize(x) if eight_bit else x
    wanted = reference.mix(given, chosen.long(), weight, layer.stacks).float()
    off = float((mix(given, chosen, weight, layer.stacks).float() - wanted).norm() / wanted.norm())
    size, flops = layer.floor(x)
    floor = max(size, flops) * 1e6
    return {
        "microseconds": taken,
        "floor": floor,
        "bytes": size * 1e6,
        "operations": flops * 1e6,
        "host": host,
        "off": off,
    }


@torch.inference_mode()
def measure() -> list[dict[str, object]]:
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    clock, report = Clock(), []
    for name in SHAPES:
        for eight_bit in (False, True):
            label = f"{name} {'fp8' if eight_bit else 'bf16'}"
            for count in MANY:
                row: dict[str, object] = {"layer": label, "tokens": count, **whole(clock, name, eight_bit, count)}
                took, floor = float(row["microseconds"]), float(row["floor"])  # type: ignore[arg-type]
                print(
                    f"{label}, M = {count}: {took:.0f} us, floor {floor:.0f} (bytes {row['bytes']:.0f}, operations "
                    f"{row['operations']:.0f}), {floor / took:.0%}; host, launching one by one, {row['host']:.0f} us; "
                    f"off from the reference by {row['off']:.1e}"
                )
                row["tilings"] = tune(clock, name, eight_bit, count)
                for line in row["tilings"]:
                    if "failed" in line:
                        print(f"    {line['tiling']:24} failed: {line['failed']}")
                    else:
                        times = [f"{key} {took:8.1f}" for key, took in line.items() if key not in ("tiling", "error")]
                        print(f"    {line['tiling']:24} {', '.join(times)} us  off by {line['error']:.1e}")
                if count >= MANY[2]:
                    try:
                        first, second = library(clock, name, eight_bit, count)
                        row["library"] = [first, second]
                        print(f"    {'torch grouped_mm':24} first {first:8.1f} us, second {second:8.1f} us")
                    except Exception as error:
                        print(f"    torch grouped_mm failed: {str(error).splitlines()[0][:160]}")
                report.append(row)
                material.cache_clear()
                sys.stdout.flush()
            layer_of.cache_clear()
            torch.cuda.empty_cache()
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-checks", action="store_true", help="everything is compiled already: only time")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        kind, _, number = args.part.partition(":")
        {"check": check_part, "compile": compile_part}[kind](int(number))
        return
    begin = time.perf_counter()
    if not args.no_checks:
        prepare(75)
    report = measure()
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    print(f"all of it took {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
