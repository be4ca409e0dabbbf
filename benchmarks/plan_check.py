"""`holotron plan` against the measured peak of the whole process, on a GPU.

    python benchmarks/plan_check.py [--model holotron-12b] [--points 100x16384,40x65536,300x4096]

For each point a fresh process builds the engine that the plan describes and works it as hard as it gets: iterations
full of prompt tokens, as many sequences decoding as may run, a full batch of image tiles, a full vision cache. Then the
peak of torch's allocator and what CUDA holds beside it are compared with the plan, and the parts that can be told apart
are printed, so that the constants of `engine/plan.py` can be set.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from concurrent.futures import Future
from dataclasses import replace

import torch

from holotron.bench.process import DevicePeak
from holotron.engine.api import EngineConfig, SamplingParams
from holotron.engine.engine import Engine
from holotron.engine.generation import Generation
from holotron.engine.log import Log, Tile, TileSpan
from holotron.engine.plan import GiB, Planner
from holotron.model.loading import load_model


def work(engine: Engine) -> None:
    """Everything that takes memory, at its fullest."""
    config, model = engine.config, engine.model
    draw = random.Random(0)
    vocab = min(model.config.tokens.first_unsampled or model.config.decoder.vocab, model.config.decoder.vocab)

    def ids(count: int) -> list[int]:
        return [draw.randrange(min(1000, vocab // 2), vocab) for _ in range(count)]

    sampling = SamplingParams(max_tokens=24, ignore_eos=True, top_p=0.9, top_k=50, temperature=0.8, top_logprobs=5)
    prompt = max(64, min(4 * config.token_budget, engine.context_limit // 2) // 4)
    starts: list[Future[list[Generation]]] = []
    for n in range(config.max_running):
        starts.append(engine.complete_later(Log(ids(prompt if n < 8 else 64)), sampling, [None]))
    if model.vision_model is not None:
        per_tile, side = model.config.tokens_per_tile, model.config.image.tile_size
        per_prompt = max(1, min(engine.context_limit // 2, 64 * per_tile) // per_tile)
        wanted = (
            int(1.1 * config.vision_cache_bytes / (per_tile * model.config.decoder.hidden * model.dtype.itemsize)) + 1
        )
        while wanted > 0:
            log = Log()
            for _ in range(per_prompt):
                tile = Tile(draw.randbytes(16), torch.randint(0, 256, (3, side, side), dtype=torch.uint8))
                piece = Log([model.config.tokens.image] * per_tile, [TileSpan(0, per_tile, tile)])
                log.extend(piece)
            log.extend(Log(ids(8)))
            starts.append(engine.complete_later(log, sampling, [None]))
            wanted -= per_prompt
    for start in starts:
        for generation in start.result():
            generation.result()


def measure(name: str, sessions: int, context: int, token_budget: int, vision_gib: float) -> dict[str, float]:
    base = EngineConfig(token_budget=token_budget, vision_cache_bytes=int(vision_gib * GiB), host_bytes=16 * GiB)
    model = load_model(name, device="cuda", dtype=torch.bfloat16).model
    weights = torch.cuda.memory_allocated()
    peak = DevicePeak(model.device)
    planner = Planner(model.config, model.dtype, base)
    config = replace(planner.sized(sessions, context), max_waiting=4096)
    plan = planner.plan_for(config)
    with Engine(model, None, config) as engine:
        pools = torch.cuda.memory_allocated() - weights
        work(engine)
        measured = peak.bytes()
        assert measured is not None
        free, total = torch.cuda.mem_get_info()
        beside = total - free - torch.cuda.memory_reserved()
        allocated = torch.cuda.max_memory_allocated()
        vision = engine.stats().vision_bytes_used
    return {
        "sessions": sessions,
        "context": context,
        "token_budget": token_budget,
        "max_running": config.max_running,
        "planned": plan.total,
        "measured": measured,
        "error": measured / plan.total - 1,
        "weights planned": plan.weights,
        "weights measured": weights,
        "pools planned": plan.state + plan.kv,
        "pools measured": pools,
        "vision cache planned": plan.vision_cache,
        "vision cache measured": vision,
        "workspace planned": plan.workspace,
        "workspace measured": allocated - weights - pools - vision,
        "reserved but not used at the peak": torch.cuda.max_memory_reserved() - allocated,
        "runtime planned": plan.runtime,
        "runtime measured": beside,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="holotron-12b")
    parser.add_argument("--points", default="100x16384,40x65536,300x4096")
    parser.add_argument("--token-budget", default="2048")
    parser.add_argument("--vision-cache", type=float, default=1.0, help="GiB")
    parser.add_argument("--one", action="store_true", help="measure in this very process")
    args = parser.parse_args()
    budgets = [int(text) for text in args.token_budget.split(",")]
    for point in args.points.split(","):
        for budget in budgets:
            if args.one:
                sessions, context = (int(part) for part in point.split("x"))
                print(json.dumps(measure(args.model, sessions, context, budget, args.vision_cache)))
                continue
            words = ["--model", args.model, "--points", point, "--token-budget", str(budget), "--one"]
            command = [sys.executable, __file__, *words, "--vision-cache", str(args.vision_cache)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                print(f"{point}, budget {budget}: failed")
                continue
            row = json.loads(done.stdout.splitlines()[-1])
            print(f"\n{point}, budget {budget}: planned {row['planned'] / GiB:.3f} GiB, measured "
                  f"{row['measured'] / GiB:.3f} GiB, off by {row['error']:+.2%}")  # fmt: skip
            for key, value in row.items():
                print(f"  {key:36} {value:>20,}" if isinstance(value, int) else f"  {key:36} {value:>20}")


if __name__ == "__main__":
    main()
