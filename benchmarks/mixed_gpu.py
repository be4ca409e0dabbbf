"""Captured iterations with prompts, on one GPU: are they right, what do they cost the host, what do they gain?

    python benchmarks/mixed_gpu.py                       # everything, about four minutes on an H200
    python benchmarks/mixed_gpu.py --parts nano --steps 6

Parts: `tests` (the GPU tests of the engine's graphs), `tilings` (a few tiles of the experts' products), `nano`
(Nemotron-3-Nano shape) and `12b` (holotron-12b). For a model, in bf16 and then with 8-bit products: one iteration of 50
decodes and prompts with 8k contexts, kernel by kernel and from captured graphs (milliseconds of the whole, of the host,
and of the kernels on the device), then agent-100 for a few steps.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time
import traceback

import torch

from holotron.bench import inprocess, iterations
from holotron.bench.workload import Workload
from holotron.engine import prompt_graphs
from holotron.model.loading import Loaded, load_model

MODELS = {"nano": "nemotron-3-nano-30b-a3b", "12b": "holotron-12b"}
FP8 = {"weight_dtype": "float8_e4m3fn"}


def tests() -> None:
    wanted = "captured or experts or 8_bit or single_precision"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "tests/engine/test_gpu.py", "-k", wanted]
    kernels = ["tests/kernels/test_kernels.py", "-k", "on_the_gpu and (conv or attention or scan) and 0"]
    for words in (command, [*command[:5], *kernels]):
        done = subprocess.run(words, capture_output=True, text=True, timeout=150)
        print(done.stdout[-1500:], done.stderr[-500:], flush=True)


def tilings() -> None:
    sys.path.insert(0, "benchmarks")
    import experts_gpu

    from holotron.kernels.experts.triton import Tiling

    for eight_bit in (False, True):
        depth = 128 if eight_bit else 64
        tried = [Tiling(128, 128, depth, 8, 3), Tiling(128, 256, depth, 8, 3), Tiling(128, 256, depth, 8, 2)]
        experts_gpu.candidates = lambda *_, tried=tried: tried
        name = next(iter(experts_gpu.SHAPES))
        with torch.inference_mode():
            for line in experts_gpu.tune(experts_gpu.Clock(), name, eight_bit, 2048):
                print(f"{name}, {'fp8' if eight_bit else 'bf16'}, 2,048 tokens: {line}", flush=True)
        experts_gpu.layer_of.cache_clear()
        experts_gpu.material.cache_clear()
        torch.cuda.empty_cache()


def iteration(loaded: Loaded, options: dict[str, object], captured: bool) -> None:
    kept = prompt_graphs.PROMPTS
    prompt_graphs.PROMPTS = kept if captured else ()
    try:
        found = iterations.mixed(loaded.model, 100, 8192, 2400, 16, options, profile=True)
    finally:
        prompt_graphs.PROMPTS = kept
    row, kernels = found.as_dict(), sum(took for _, took in found.kernels)
    print(
        f"   one iteration, {'captured' if captured else 'kernel by kernel'}: {row['iteration_ms']:.1f} ms, host "
        f"{row['host_ms']:.1f}, kernels {kernels:.1f}, {row['prompt_tokens_per_second']:,.0f} prompt tokens/s; "
        + ", ".join(f"{name[:28]} {took:.2f}" for name, took in found.kernels[:12]),
        flush=True,
    )


def agents(loaded: Loaded, options: dict[str, object], steps: int) -> None:
    report = inprocess.measure_loaded(loaded, Workload(steps=steps), engine=dict(options))
    stats = report.engine_stats
    assert stats is not None
    print(
        f"   agent-100, {steps} steps {options}: {report.steps_per_second:.2f} steps/s, p50/p95 "
        f"{report.latency(0.5):.2f}/{report.latency(0.95):.2f} s, {stats.iterations} iterations, host "
        f"{1e3 * stats.host_seconds / stats.iterations:.1f} ms of {1e3 * report.seconds / stats.iterations:.1f}, "
        f"peak {(report.device_bytes or 0) / 2**30:.1f} GiB",
        flush=True,
    )


def model(name: str, steps: int) -> None:
    started = time.perf_counter()
    loaded = load_model(MODELS[name])
    print(f"{MODELS[name]}, loaded in {time.perf_counter() - started:.0f} s", flush=True)
    for options in ({}, FP8):
        print(f"  {'fp8' if options else 'bf16'}", flush=True)
        for captured in (False, True):
            iteration(loaded, dict(options), captured)
            gc.collect()
            torch.cuda.empty_cache()
        agents(loaded, dict(options), steps)
        if name == "nano":
            agents(loaded, {**options, "token_budget": 4096}, steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="tests,nano,12b,tilings", help="%(default)s")
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    for part in args.parts.split(","):
        started = time.perf_counter()
        try:
            if part in MODELS:
                model(part, args.steps)
            else:
                {"tests": tests, "tilings": tilings}[part]()
        except Exception:
            traceback.print_exc()
        gc.collect()
        torch.cuda.empty_cache()
        print(f"{part} took {time.perf_counter() - started:.0f} s\n", flush=True)


if __name__ == "__main__":
    main()
