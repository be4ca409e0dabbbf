"""The network on a CPU against transformers with the same weights, as a ratio in one run.

    python benchmarks/cpu_model.py [--threads 2] [--prompt 2048] [--decode 64]

The model is the preset `small-30m`: the 12B's 62-layer pattern with everything a twentieth as wide (2 groups of 16
heads of 16, 128 state entries). Rounds of both sides alternate; for both the best counts, and beside that ratio stands
the median of the ratios round by round. Then what the matrix products alone would take in torch (same shapes, same
weights, nothing else), as a share of our time; the native kernels have products of their own, so in decoding that share
can pass 100 %.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from holotron.model.model import Holotron
from holotron.model.presets import preset
from holotron.model.weights import random_model, save_checkpoint


def compare(what: str, per: int, unit: str, rounds: int, *runs: Callable[[], object]) -> None:
    """Ours, transformers, the products alone, in turn."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for mine, run in zip(times, runs, strict=True):
            start = time.perf_counter()
            run()
            mine.append((time.perf_counter() - start) / per * 1e3)
    ours, theirs, products = (min(t) for t in times)
    middle = statistics.median(t / o for o, t, _ in zip(*times, strict=True))
    print(
        f"{what}: ours {ours:.2f} {unit}, transformers {theirs:.2f}, ratio {theirs / ours:.2f}x "
        f"(median of {rounds} rounds {middle:.2f}x), matrix products alone {products / ours:.0%} of ours"
    )


def products_only(model: Holotron, tokens: int, repeats: int) -> Callable[[], None]:
    """Every matrix product of `repeats` forward passes over `tokens` tokens; the head once, as in serving."""
    linears = [m for m in model.language_model.backbone.modules() if isinstance(m, nn.Linear)]
    inputs = {m.in_features: torch.randn(tokens, m.in_features) for m in linears}
    last = torch.randn(1, model.config.decoder.hidden)

    def run() -> None:
        for _ in range(repeats):
            for linear in linears:
                linear(inputs[linear.in_features])
            model.language_model.lm_head(last)

    return run


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=2048)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    from transformers import NemotronHForCausalLM

    model = random_model(preset("small-30m")).eval()
    with tempfile.TemporaryDirectory() as folder:
        save_checkpoint(model, Path(folder))
        theirs = NemotronHForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.randint(0, model.config.decoder.vocab, (args.prompt,))
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{parameters / 1e6:.1f}M parameters, {args.threads} threads, torch {torch.__version__}")

    def our_prefill() -> None:
        model(ids, state=model.new_state(capacity=args.prompt), last_only=True)

    def their_prefill() -> None:
        theirs(ids[None], use_cache=True, logits_to_keep=1)

    work = products_only(model, args.prompt, 1)
    compare(f"prefill {args.prompt}", 1, "ms", args.rounds, our_prefill, their_prefill, work)

    def our_decode() -> None:
        state = model.new_state(capacity=args.decode + 8)
        token = model(ids[:4], state=state, last_only=True).argmax(-1)
        for _ in range(args.decode):
            token = model(token, state=state).argmax(-1)

    def their_decode() -> None:
        reply = theirs(ids[None, :4], use_cache=True)
        for _ in range(args.decode):
            token = reply.logits[:, -1:].argmax(-1)
            reply = theirs(token, past_key_values=reply.past_key_values, use_cache=True)

    work = products_only(model, 1, args.decode)
    compare(f"decode {args.decode}", args.decode, "ms/token", args.rounds, our_decode, their_decode, work)


if __name__ == "__main__":
    main()
