"""Holotron-12B in its true shape with random weights on one GPU: build, look, prefill, decode; times and memory.

    python benchmarks/model_gpu.py [--model holotron-12b] [--prompt 8192] [--decode 32]

This is the bare network, one sequence at a time, without the engine: the floor of what must work. The first pass of
each kind is shown apart because it includes kernel compilation.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from holotron.model.cache import DecoderState
from holotron.model.presets import preset
from holotron.model.weights import random_model


def timed(run: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - start


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="holotron-12b")
    parser.add_argument("--prompt", type=int, default=8192)
    parser.add_argument("--decode", type=int, default=32)
    parser.add_argument("--tiles", type=int, default=9)
    args = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, model {args.model}")

    def peak() -> str:
        return f"peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB"

    config = preset(args.model)
    model = None

    def build() -> None:
        nonlocal model
        model = random_model(config, device="cuda", dtype=torch.bfloat16).eval()

    print(f"build {timed(build):.2f} s, {peak()}")
    assert model is not None
    if config.vision is not None:
        pixels = torch.randn(args.tiles, 3, config.image.tile_size, config.image.tile_size, device="cuda")
        times = [timed(lambda: model.encode_tiles(pixels)) for _ in range(4)]
        print(f"{args.tiles} tiles: first {times[0] * 1e3:.0f} ms, then {min(times[1:]) * 1e3:.1f} ms, {peak()}")

    ids = torch.randint(0, config.decoder.vocab, (args.prompt,), device="cuda")
    capacity = args.prompt + args.decode + 8
    for round_name in ("first", "again"):
        state = model.new_state(capacity=capacity)
        logits = None

        def prefill(state: DecoderState = state) -> None:
            nonlocal logits
            logits = model(ids, state=state, last_only=True)

        seconds = timed(prefill)
        assert logits is not None
        assert bool(torch.isfinite(logits).all()), "the logits are not finite"
        rate = args.prompt / seconds
        print(f"prefill {args.prompt} ({round_name}): {seconds * 1e3:.0f} ms, {rate:,.0f} tokens/s, {peak()}")

    token = logits.argmax(-1)

    def decode() -> None:
        nonlocal token
        for _ in range(args.decode // 2):
            token = model(token, state=state).argmax(-1)

    decode_first, decode_again = timed(decode), timed(decode)
    steps = args.decode // 2
    first, again = decode_first / steps * 1e3, decode_again / steps * 1e3
    print(f"decode, one sequence: {first:.1f} ms/token at first, then {again:.1f}, {peak()}")
    print(f"state {model.new_state(capacity=1).cache.ssm_RLHPN.nbytes / 2**20:.1f} MiB of fp32 per session")


if __name__ == "__main__":
    main()
