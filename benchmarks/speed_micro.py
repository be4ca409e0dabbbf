"""Parts of the engine's speed by themselves, on one GPU, each checked before it is timed: about 90 seconds in all.

    python benchmarks/speed_micro.py                           # everything
    python benchmarks/speed_micro.py --parts skinny,tower

Parts: `skinny` (products of one to sixteen rows: ours, with several cuts, beside the library's), `tower` (nine tiles in
16 and in 8 bits, and the products inside), `copies` (what pinning host memory costs, and how fast blocks travel, alone
and beside a computation), `decode` (one sequence of the 12B in 8 bits: milliseconds per token, and which kernels).
Bytes over 4.3 TB/s are the floor of a product of few rows.
"""

from __future__ import annotations

import argparse
import gc
import mmap
import statistics
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from holotron.kernels.linear import Quantized, quantize, triton_skinny
from holotron.kernels.linear.triton_skinny import Cut

BANDWIDTH = 4.3e12
FP8 = torch.float8_e4m3fn
BF16 = torch.bfloat16


def microseconds(calls: Sequence[Callable[[], object]], rounds: int = 5) -> float:
    """Of one call, from a captured graph of all of them, which should work on different memory."""
    for call in calls[:2]:
        call()
    torch.cuda.synchronize()
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for call in calls:
            call()
    times = []
    for _ in range(rounds + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / len(calls))
    return statistics.median(times[1:])


def off(found: Tensor, wanted: Tensor) -> float:
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())


# ------------------------------------------------------------------------------------------------------------ skinny


def skinny() -> None:
    shapes = {"in_proj": (5120, 22_656), "out_proj": (10_240, 5120), "up": (5120, 20_480), "down": (20_480, 5120)}
    cuts = [Cut(256, n, stages) for n in (1, 2, 4) for stages in (3, 4, 6)] + [Cut(512, n, 3) for n in (1, 2)]
    total: dict[str, float] = {}
    for name, (inputs, outputs) in shapes.items():
        copies = 6
        weights = [quantize(torch.randn(outputs, inputs, device="cuda", dtype=BF16)) for _ in range(copies)]
        floor = 1e6 * outputs * inputs / BANDWIDTH
        for rows in (1, 8, 16):
            x = quantize(torch.randn(rows, inputs, device="cuda", dtype=BF16))
            wanted = x.dequantize().double() @ weights[0].dequantize().double().T
            found: dict[str, float] = {}
            tried = cuts if rows == 1 else [triton_skinny.cut_for(inputs, outputs, 1, torch.device("cuda", 0))]
            for cut in tried:
                if cut.splits > 1 and outputs > 10_000:
                    continue
                error = off(triton_skinny.linear(x, weights[0], cut=cut), wanted)
                if not error < 4e-3:
                    print(f"  WRONG {name} {rows} rows {cut}: {error:.2e}", flush=True)
                    continue
                calls = [partial(triton_skinny.linear, x, weight, cut=cut) for weight in weights] * 3
                found[f"{cut.depth}x{cut.splits}x{cut.stages}"] = microseconds(calls)
            found["library"] = microseconds([partial(_scaled, x, weight) for weight in weights] * 3)
            best = min(took for cut, took in found.items() if cut != "library")
            for kind, took in (("ours", best), ("library", found["library"])):
                total[f"{kind}, {rows} rows"] = total.get(f"{kind}, {rows} rows", 0.0) + took
            listed = ", ".join(f"{cut} {took:.1f}" for cut, took in sorted(found.items(), key=lambda f: f[1]))
            print(f"  fp8 {name} {rows} rows, floor {floor:.1f} us: {listed}", flush=True)
        del weights
        torch.cuda.empty_cache()
    for name, took in total.items():
        print(f"  28 layers, {name}: {28e-3 * took:.2f} ms (floor {28 * 378.5e6 / BANDWIDTH * 1e3:.2f})")
    for name, (inputs, outputs, copies) in {
        "q or o": (5120, 5120, 4), "k or v": (5120, 1024, 16), "head": (5120, 131_072, 2),
    }.items():  # fmt: skip
        wide = [torch.randn(outputs, inputs, device="cuda", dtype=BF16) * 0.02 for _ in range(copies)]
        for rows in (1, 8):
            few = torch.randn(rows, inputs, device="cuda", dtype=BF16)
            error = off(triton_skinny.linear(few, wide[0]), few.double() @ wide[0].double().T)
            ours = {
                f"128x{n}x{stages}": microseconds(
                    [partial(triton_skinny.linear, few, weight, cut=Cut(128, n, stages)) for weight in wide] * 3
                )
                for n in ((1,) if outputs > 10_000 else (2, 4, 8))
                for stages in (3, 4)
            }
            library = microseconds([partial(torch.nn.functional.linear, few, weight) for weight in wide] * 3)
            listed = ", ".join(f"{cut} {took:.1f}" for cut, took in ours.items())
            floor = 1e6 * 2 * outputs * inputs / BANDWIDTH
            print(f"  bf16 {name} {rows} rows, floor {floor:.1f} us: {listed}, library {library:.1f}; off {error:.1e}")
        del wide
        torch.cuda.empty_cache()


def _scaled(x: Quantized, weight: Quantized, bias: Tensor | None = None) -> Tensor:
    return torch._scaled_mm(
        x.values, weight.values.t(), bias=bias, scale_a=x.scale, scale_b=weight.scale.t(), out_dtype=BF16,
        use_fast_accum=True,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- tower


@torch.inference_mode()
def tower() -> None:
    from dataclasses import replace

    from holotron.bench import tiles
    from holotron.model.presets import preset
    from holotron.model.weights.initialise import random_model

    whole = preset("holotron-12b")
    config = replace(whole, decoder=replace(whole.decoder, pattern="-", vocab=2048))  # the decoder is not needed
    model = random_model(replace(config, tokens=replace(config.tokens, image=1)), device="cuda", dtype=BF16).eval()
    pixels = torch.randn(9, 3, 512, 512, device="cuda", dtype=BF16)
    exact = model.encode_tiles(pixels)
    for name in ("bf16", "fp8"):
        if name == "fp8":
            model.quantize_vision()
            rows = model.encode_tiles(pixels)
            cosine = torch.nn.functional.cosine_similarity(exact.float(), rows.float(), dim=-1)
            print(f"  8-bit rows: off by {off(rows, exact):.3f}, cosine {float(cosine.mean()):.5f}", flush=True)
        took = tiles.measure(model, (9, 27))
        print(f"  {name}: " + ", ".join(f"{what} {ms:.2f} ms" for what, ms in took.items()), flush=True)
        print("    " + kernels(partial(model.encode_tiles, pixels)), flush=True)
    for what, inputs, outputs in (("qkv", 1280, 3840), ("proj", 1280, 1280), ("fc1", 1280, 5120), ("fc2", 5120, 1280)):
        x, weight = (torch.randn(n, inputs, device="cuda", dtype=BF16) for n in (9360, outputs))
        bias = torch.randn(outputs, device="cuda", dtype=BF16)
        x8, w8 = quantize(x), quantize(weight)
        wide = microseconds([partial(torch.nn.functional.linear, x, weight, bias)] * 6)
        narrow = microseconds([partial(_scaled, x8, w8, bias)] * 6)
        rounding = microseconds([partial(quantize, x)] * 6)
        rate = 2e-6 * 9360 * inputs * outputs
        print(f"  {what}: bf16 {wide:.0f} us ({rate / wide:.0f} TFLOP/s), fp8 {narrow:.0f} us ({rate / narrow:.0f}), "
              f"rounding x {rounding:.0f} us", flush=True)  # fmt: skip


def kernels(run: Callable[[], object], count: int = 3) -> str:
    from torch.profiler import ProfilerActivity, profile

    run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        for _ in range(count):
            run()
        torch.cuda.synchronize()
    rows = [(event.key, event.device_time_total / 1e3 / count) for event in recorded.key_averages()]
    rows.sort(key=lambda row: -row[1])
    return ", ".join(f"{name[:40]} {took:.2f}" for name, took in rows[:12]) + f" ms; all {sum(r[1] for r in rows):.2f}"


# ------------------------------------------------------------------------------------------------------------ copies


def copies() -> None:
    register = torch.cuda.cudart().cudaHostRegister
    size = 1 << 30
    for name in ("as it comes", "touched before", "huge pages", "huge pages, touched by 8 threads"):
        block = mmap.mmap(-1, size)
        if name.startswith("huge"):
            block.madvise(mmap.MADV_HUGEPAGE)
        started = time.perf_counter()
        if "touched" in name:
            _touch(block, 8 if "8" in name else 1)
        touched = time.perf_counter() - started
        tensor = torch.frombuffer(block, dtype=torch.uint8)
        started = time.perf_counter()
        torch.cuda.check_error(register(tensor.data_ptr(), size, 0))
        took = time.perf_counter() - started
        print(f"  pinning 1 GiB, {name}: touching {touched:.3f} s, registering {took:.3f} s", flush=True)
        if name.endswith("threads"):
            _travel(tensor)
        torch.cuda.cudart().cudaHostUnregister(tensor.data_ptr())
        del tensor


def _touch(block: mmap.mmap, threads: int) -> None:
    tensor = torch.frombuffer(block, dtype=torch.uint8)
    parts = [threading.Thread(target=part.zero_) for part in tensor.chunk(threads)]
    for part in parts:
        part.start()
    for part in parts:
        part.join()


def _travel(pinned: Tensor) -> None:
    """Blocks of three sizes to the device and back, one way and both, alone and beside products."""
    there = torch.empty_like(pinned, device="cuda")
    out_stream, in_stream = torch.cuda.Stream(), torch.cuda.Stream()
    half = len(pinned) // 2
    factor = torch.randn(8192, 8192, device="cuda", dtype=BF16)
    result = torch.empty_like(factor)

    def send(block: int, ways: str) -> float:
        torch.cuda.synchronize()
        started = time.perf_counter()
        for at in range(0, half, block):
            if "in" in ways:
                with torch.cuda.stream(in_stream):
                    there[at : at + block].copy_(pinned[at : at + block], non_blocking=True)
            if "out" in ways:
                with torch.cuda.stream(out_stream):
                    pinned[half + at : half + at + block].copy_(there[half + at : half + at + block], non_blocking=True)
        out_stream.synchronize()
        in_stream.synchronize()
        return half / (time.perf_counter() - started) / 1e9

    def products(count: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            torch.mm(factor, factor, out=result)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / count

    for block in (1 << 20, 8 << 20, 128 << 20):
        rates = {ways: max(send(block, ways) for _ in range(3)) for ways in ("in", "out", "in and out")}
        listed = ", ".join(f"{ways} {rate:.1f} GB/s" for ways, rate in rates.items())
        print(f"  blocks of {block >> 20} MiB: {listed} (each way)", flush=True)
    alone = products(30)
    busy = threading.Thread(target=lambda: [send(8 << 20, "in and out") for _ in range(6)])
    busy.start()
    beside = products(30)
    busy.join()
    print(f"  products of 8192: {alone:.3f} ms alone, {beside:.3f} ms beside copies both ways", flush=True)


# ------------------------------------------------------------------------------------------------------------ decode


def decode() -> None:
    from holotron.bench import iterations
    from holotron.model.loading import load_model

    model = load_model("holotron-12b", weight_dtype=FP8).model
    for replay in (False, True):
        options = {"weight_dtype": "float8_e4m3fn", "replay": replay}
        found = iterations.decode(model, 1, 4096, 48, options, profile=True)
        row = found.as_dict()
        listed = ", ".join(f"{name[:36]} {took:.3f}" for name, took in found.kernels[:14])
        together = sum(took for _, took in found.kernels)
        print(f"  one sequence, fp8{', replay' if replay else ''}: {row['iteration_ms']:.3f} ms a token, host "
              f"{row['host_ms']:.2f}, kernels {together:.3f}; {listed}", flush=True)  # fmt: skip
        gc.collect()
        torch.cuda.empty_cache()


PARTS = {"skinny": skinny, "tower": tower, "copies": copies, "decode": decode}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    for part in parser.parse_args().parts.split(","):
        started = time.perf_counter()
        print(part, flush=True)
        try:
            PARTS[part]()
        except Exception:
            traceback.print_exc()
        gc.collect()
        torch.cuda.empty_cache()
        print(f"{part} took {time.perf_counter() - started:.0f} s\n", flush=True)


if __name__ == "__main__":
    main()
