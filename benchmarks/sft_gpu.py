"""Where an update of the small policy spends its time: data, launches, kernels.

    python benchmarks/sft_gpu.py                                      # holotron-mini at laptop size, one GPU, a minute
    python benchmarks/sft_gpu.py --compile                            # as it is, then with `model.compile`, in one call
    python benchmarks/sft_gpu.py --device cpu --samples 2 --updates 1 # does it run?

Painted pages alone, as recipes/holotron-mini-2/worlds.toml mixes them, so nothing has to be brought along but fonts.
Batches are made first and taken again, so that the figures are of the GPU; how fast worker processes make them is a row
of its own.

    update      one update, data at hand: the clock, and the time in which the GPU had a kernel to run
    compiled    the same after compiling, with the seconds that took and the losses of one batch before and after
    data        samples a second from the worker processes alone
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

from holotron.training.batches import Batch
from holotron.training.compiling import compile_parts
from holotron.training.distributed import Ranks
from holotron.training.learner import LOSSES
from holotron.training.recipe import Recipe, make_recipe
from holotron.training.recipes import find_recipe
from holotron.training.trainer import Trainer


def painted(args: argparse.Namespace) -> Recipe:
    data: dict[str, Any] = tomllib.loads(find_recipe(args.recipe).read_text())
    data["data"] = [part for part in data["data"] if part["kind"] in ("drawn", "text")]
    if args.fonts:
        data["data"] = [part | ({"fonts": args.fonts} if part["kind"] == "drawn" else {}) for part in data["data"]]
    data["evaluate"] = {}
    data["batch"] |= {"samples": args.samples, "workers": args.workers, "reuse": 1}
    return make_recipe(data)


def synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def busy(profile: Any) -> dict[str, float]:
    """Milliseconds on the device, by kernel."""
    spent: dict[str, float] = defaultdict(float)
    for event in profile.key_averages():
        spent[event.key[:64]] += event.device_time_total / 1e3
    return dict(sorted(spent.items(), key=lambda item: -item[1]))


def measured(trainer: Trainer, weights: torch.Tensor, updates: int, warm: int) -> dict[str, Any]:
    """Some updates on batches at hand; kernels are compiled in the first ones, which do not count."""
    device = str(trainer.where.device)
    for _ in range(warm):
        trainer.step(weights, 1e-4)
    synchronize(device)
    before, started = trainer.progress.pictures, time.monotonic()
    for _ in range(updates):
        trainer.step(weights, 1e-4)
    synchronize(device)
    seconds = (time.monotonic() - started) / updates
    pictures = (trainer.progress.pictures - before) / updates
    row: dict[str, Any] = {
        "update_ms": round(1e3 * seconds, 1),
        "tiles": pictures,
        "tiles_per_s": round(pictures / seconds),
    }
    if device.startswith("cuda"):
        row["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 1)
        torch.cuda.reset_peak_memory_stats()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            trainer.step(weights, 1e-4)
            synchronize(device)
        spent = busy(profile)
        row["kernels_ms"] = round(sum(spent.values()), 1)
        row["by_kernel"] = {name: round(ms, 2) for name, ms in list(spent.items())[:28]}
    return row


@torch.enable_grad()
def losses(trainer: Trainer, batch: Batch) -> list[float]:
    """Of one batch, with the weights as they are."""
    sums = trainer.learner(batch, trainer.learner.pixels(batch.tiles_n3HW)) / trainer.learner.counts(batch).clamp(min=1)
    return [round(value, 5) for value in sums.tolist()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="holotron-mini-2/worlds")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("--workers", type=int, default=max(0, (os.cpu_count() or 1) - 2))
    parser.add_argument("--fonts", help="a folder of fonts to paint with")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    recipe = painted(args)
    with tempfile.TemporaryDirectory() as scratch:
        trainer = Trainer(recipe, Path(scratch) / "run", Ranks(device=torch.device(args.device)))
        trainer.lanes.step(0)  # starts the workers
        started = time.monotonic()
        made = [trainer.lanes.step(n) for n in range(1, 4)]
        rate = sum(batch.samples for step in made for _, batch in step) / (time.monotonic() - started)
        print(json.dumps({"data": {"samples_per_s": round(rate, 1), "workers": args.workers}}), flush=True)
        trainer.lanes.step = lambda n: made[n % len(made)]  # type: ignore[method-assign]
        weights = torch.tensor([getattr(recipe.loss, name) for name in LOSSES], device=args.device)
        row = measured(trainer, weights, args.updates, warm=len(made))
        row["tokens"] = sum(batch.tokens for _, batch in made[0])
        print(json.dumps({"update": row}, indent=1), flush=True)
        if args.compile:
            before, started = losses(trainer, made[0][0][1]), time.monotonic()
            why_not = compile_parts(trainer.learner)
            seconds = round(time.monotonic() - started, 1)
            print(json.dumps({"compile": {"seconds": seconds, "failed": why_not}}), flush=True)
            same = {"losses_before": before, "losses": losses(trainer, made[0][0][1])}
            print(json.dumps({"compiled": measured(trainer, weights, args.updates, len(made)) | same}, indent=1))
        trainer.curves.close()


if __name__ == "__main__":
    main()
