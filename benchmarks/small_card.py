"""A model on a card of 24 GB: loaded in 8 bits, two sessions of 32k tokens with pictures, the peak against the plan.

    python benchmarks/small_card.py                          # holotron-12b in fp8, the process held to 22 GiB
    python benchmarks/small_card.py --model tiny --device cpu --context 2048      # the same path, without the memory

1. A process of its own writes the model's shape with random weights as a checkpoint in bf16 (26 GB for the 12B).
2. A second process may hold no more than --limit GiB: torch's allocator is limited to that, less what CUDA holds beside
   it. It loads the checkpoint (`load_model(..., weight_dtype=float8_e4m3fn)`) and serves --sessions sessions at once:
   in each, screenshots of 1920 x 1080 and text are appended and 32 tokens generated after each of them, until it holds
   --context tokens.
3. Printed as JSON: the peak while loading and the size of what was loaded, the peak of the whole process against
   `holotron plan`'s figure, and what was served. The exit status is 0 if everything was served, the process stayed
   under the limit and the plan is within 2 % of the measured peak.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from holotron.bench.process import DevicePeak, peak_host_bytes
from holotron.engine import Engine, EngineConfig, SamplingParams
from holotron.engine.plan import RUNTIME_BYTES, GiB, Planner
from holotron.model.loading import load_model
from holotron.model.weights import save_checkpoint

FP8 = torch.float8_e4m3fn
TOLERANCE = 0.02
STEP = "The page has changed. What do you do next?"
REPLY = 32  # tokens after every screenshot


def write(model_name: str, device: str, folder: Path) -> None:
    """The checkpoint, as a publisher would have it: bf16, in files of 4 GiB."""
    model, processor = load_model(f"preset:{model_name}", device=device, dtype=torch.bfloat16)
    save_checkpoint(model, folder)
    processor.save(folder)


def converse(engine: Engine, number: int, context: int, size: tuple[int, int]) -> dict[str, int]:
    """One session until it is full."""
    draw = np.random.default_rng(number)
    pictures = generated = 0
    with engine.open() as session:
        held = 0
        while True:
            # Noise, so that no tile is like another and every one is encoded.
            picture = draw.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
            added = engine.processor.image_tokens(*size) if engine.processor else 0
            if held + added + 2 * REPLY + 64 > context:
                # The last tokens: text until the context is full.
                filler = [int(index) for index in draw.integers(32, 96, max(0, context - held - REPLY - 2))]
                held += session.append(filler)
            else:
                held += session.append(picture, STEP)
                pictures += 1
            result = session.generate(SamplingParams(max_tokens=REPLY, ignore_eos=True, seed=number)).result()
            generated += len(result.tokens)
            held += len(result.tokens)
            if held >= context - 2 * REPLY:
                return {"tokens": len(session.tokens()), "pictures": pictures, "generated": generated}


def measure(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    device = torch.device(args.device)
    limit = int(args.limit * GiB)
    if device.type == "cuda":
        torch.zeros(1, device=device)
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction((limit - RUNTIME_BYTES) / total, device)
    peak = DevicePeak(device)
    started = time.monotonic()
    model, processor = load_model(folder, device=device, dtype=torch.bfloat16, weight_dtype=FP8)
    loading = time.monotonic() - started
    final = sum(t.nbytes for t in {*model.parameters(), *model.buffers()})
    peak_loading = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    planner = Planner(model.config, model.dtype, EngineConfig(weight_dtype="float8_e4m3fn"))
    config = planner.sized(args.sessions, args.context)
    plan = planner.plan_for(config)
    started = time.monotonic()
    with Engine(model, processor, config) as engine:
        with ThreadPoolExecutor(args.sessions) as pool:
            size = (1920, 1080) if args.context >= 16_384 else (128, 64)
            jobs = [pool.submit(converse, engine, n, args.context, size) for n in range(args.sessions)]
            served = [job.result() for job in jobs]
        measured = peak.bytes()
    serving = time.monotonic() - started
    found: dict[str, Any] = {
        "model": args.model,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "weights on disk": sum(file.stat().st_size for file in folder.glob("*.safetensors")),
        "weights loaded": final,
        "weights planned": plan.weights,
        "peak of the allocator while loading": peak_loading,
        "seconds to load": round(loading, 1),
        "seconds to serve": round(serving, 1),
        "sessions": served,
        "host peak": peak_host_bytes(),
        "planned": plan.total,
        "measured": measured,
        "limit": limit,
    }
    if measured is not None:
        found |= {
            "measured / planned - 1": round(measured / plan.total - 1, 4),
            "under the limit": measured <= limit,
            "plan within 2 %": abs(measured / plan.total - 1) <= TOLERANCE,
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="holotron-12b", help="a preset")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit", type=float, default=22.0, help="GiB that the process may hold")
    parser.add_argument("--sessions", type=int, default=2)
    parser.add_argument("--context", type=int, default=32_768)
    parser.add_argument("--folder", type=Path, help="keep the checkpoint here and use it again; else it is thrown away")
    parser.add_argument("--only", choices=["write", "measure"], help="one of the two processes (used by this script)")
    args = parser.parse_args()
    if args.only == "write":
        write(args.model, args.device, args.folder)
        return
    if args.only == "measure":
        found = measure(args.folder, args)
        print(json.dumps(found, indent=2))
        sys.exit(0 if found.get("under the limit", True) and found.get("plan within 2 %", True) else 1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch) / args.model
        words = [sys.executable, __file__, "--model", args.model, "--device", args.device, "--folder", str(folder)]
        words += ["--limit", str(args.limit), "--sessions", str(args.sessions), "--context", str(args.context)]
        if not (folder / "config.json").exists():
            started = time.monotonic()
            subprocess.run([*words, "--only", "write"], check=True)
            print(f"wrote the checkpoint in {time.monotonic() - started:.0f} s", file=sys.stderr)
        sys.exit(subprocess.run([*words, "--only", "measure"]).returncode)


if __name__ == "__main__":
    main()
