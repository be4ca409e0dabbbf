"""Check and time every kernel on the shapes of the 12B model.

    python benchmarks/kernels.py                 time everything, print a table
    python benchmarks/kernels.py --check         compare with the float64 references first (tests/kernels/checks.py)
    python benchmarks/kernels.py --only scan     rows whose name contains a word
    python benchmarks/kernels.py --json out.json also write the numbers

Each row shows the fewest bytes or operations the operation needs over the time it took, and the share of the limit that
was measured in the same run: a large copy for memory, a large product for arithmetic. Times are medians over device
events around a captured graph, so the host's launch time is not in them, with a cold cache: between timed calls a
buffer larger than the L2 cache is read.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from holotron.kernels.attention import attend  # noqa: E402
from holotron.kernels.choice import likeliest  # noqa: E402
from holotron.kernels.conv import causal_conv  # noqa: E402
from holotron.kernels.layout import Layout  # noqa: E402
from holotron.kernels.linear import linear, quantize, relu2  # noqa: E402
from holotron.kernels.norm import add_rms_norm, gated_rms_norm  # noqa: E402
from holotron.kernels.scan import Replay, state_space_scan  # noqa: E402

DEVICE = "cuda"
HIDDEN, MLP, HEADS, HEAD_DIM, STATE, GROUPS, VOCAB = 5120, 20480, 128, 80, 128, 8, 131_072
INNER = HEADS * HEAD_DIM
CHANNELS = INNER + 2 * GROUPS * STATE
PROJECTED = INNER + CHANNELS + HEADS
QUERIES, KEYS, DIM, PAGE = 40, 8, 128, 64
BF16 = torch.bfloat16


@dataclass
class Row:
    name: str
    microseconds: float
    rate: float  # GB/s or TFLOP/s
    unit: str
    share: float  # of the limit measured in this run


class Clock:
    """Times calls on the device and keeps the table."""

    def __init__(self, only: str) -> None:
        self.only = only
        self.rows: list[Row] = []
        self.eraser = torch.zeros(64 << 20, dtype=torch.float32, device=DEVICE)
        source, target = torch.empty(2, 2 << 30, dtype=torch.uint8, device=DEVICE)
        self.copy_gbs = 2 * source.nbytes / self.median(lambda: target.copy_(source)) / 1e3
        a = torch.randn(8192, 8192, device=DEVICE, dtype=BF16)
        self.tflops = 2 * 8192**3 / self.median(lambda: a @ a.T) / 1e6
        a8 = quantize(a)
        self.tflops8 = 2 * 8192**3 / self.median(lambda: linear(a8, a8)) / 1e6
        print(f"limits: copy {self.copy_gbs:.0f} GB/s, bf16 {self.tflops:.0f} TFLOP/s, fp8 {self.tflops8:.0f} TFLOP/s")

    def median(self, call: Callable[[], object], repeat: int = 15) -> float:
        """Microseconds."""
        for _ in range(3):
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

    def captured(self, call: Callable[[], object]) -> Callable[[], object]:
        call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        return graph.replay

    def row(
        self,
        name: str,
        call: Callable[[], object],
        *,
        bytes: float = 0.0,
        flops: float = 0.0,
        fp8: bool = False,
    ) -> None:
        if self.only not in name:
            return
        time = self.median(self.captured(call))
        if bytes:
            rate, unit = bytes / time / 1e3, "GB/s"
            share = rate / self.copy_gbs
        else:
            rate, unit = flops / time / 1e6, "TFLOP/s"
            share = rate / (self.tflops8 if fp8 else self.tflops)
        self.rows.append(Row(name, time, rate, unit, share))
        print(f"{name:58} {time:9.1f} us {rate:8.0f} {unit:8} {share:6.1%}", flush=True)


def normal(*shape: int, dtype: torch.dtype = BF16, scale: float = 1.0) -> Tensor:
    return (torch.randn(*shape, device=DEVICE, dtype=torch.float32) * scale).to(dtype)


def mamba_inputs(tokens: int) -> tuple[Tensor, list[Tensor]]:
    """The output of in_proj, and x, dt, dt_bias, A, B, C, D as the model passes them to the scan."""
    projected = normal(tokens, PROJECTED)
    convolved = normal(tokens, CHANNELS)
    x, B, C = convolved.split([INNER, GROUPS * STATE, GROUPS * STATE], dim=-1)
    return projected, [
        x.unflatten(-1, (HEADS, HEAD_DIM)),
        projected[:, INNER + CHANNELS :],
        normal(HEADS, dtype=torch.float32, scale=2.0) - 2,
        -torch.exp(normal(HEADS, dtype=torch.float32)),
        B.unflatten(-1, (GROUPS, STATE)),
        C.unflatten(-1, (GROUPS, STATE)),
        normal(HEADS, dtype=torch.float32),
    ]


def kv_layout(lengths: list[int], contexts: list[int]) -> tuple[Layout, int]:
    """Every sequence on its own, scattered pages."""
    wanted = [-(-(c + n) // PAGE) for c, n in zip(contexts, lengths, strict=True)]
    ids = torch.randperm(sum(wanted)).tolist()
    pages = [[ids.pop() for _ in range(count)] for count in wanted]
    layout = Layout.build(lengths, contexts=contexts, pages=pages, page_size=PAGE, device=DEVICE)
    return layout, sum(wanted)


def elementwise(clock: Clock, tokens: int) -> None:
    """The norms and the activation, 16-bit and 8-bit outputs."""
    label = f"{tokens} tokens"
    x, residual, weight = normal(tokens, HIDDEN), normal(tokens, HIDDEN), normal(HIDDEN)
    up = normal(tokens, MLP)
    y, gate, gain = normal(tokens, INNER), normal(tokens, PROJECTED)[:, :INNER], normal(INNER)
    for quantized, size in ((False, 2), (True, 1)):
        kind = " to fp8" if quantized else ""
        clock.row(
            f"add_rms_norm{kind}, {label}",
            lambda q=quantized: add_rms_norm(x, residual, weight, 1e-5, q),
            bytes=tokens * HIDDEN * (6 + size),
        )
        clock.row(
            f"gated_rms_norm{kind}, {label}",
            lambda q=quantized: gated_rms_norm(y, gate, gain, GROUPS, 1e-5, q),
            bytes=tokens * INNER * (4 + size),
        )
        clock.row(f"relu2{kind}, {label}", lambda q=quantized: relu2(up, q), bytes=tokens * MLP * (2 + size))


def products(clock: Clock, tokens: int) -> None:
    """The two products of a Mamba layer and of an MLP: what the rest is measured against."""
    for name, inputs, outputs in (
        ("in_proj", HIDDEN, PROJECTED),
        ("out_proj", INNER, HIDDEN),
        ("up_proj", HIDDEN, MLP),
        ("down_proj", MLP, HIDDEN),
    ):
        x, weight = normal(tokens, inputs), normal(outputs, inputs, scale=inputs**-0.5)
        x8, weight8 = quantize(x), quantize(weight)
        for kind, call, size in (
            ("bf16", lambda x=x, w=weight: linear(x, w), 2),
            ("fp8", lambda x=x8, w=weight8: linear(x, w), 1),
        ):
            if tokens > 1000:
                need = {"flops": 2.0 * tokens * inputs * outputs, "bytes": 0.0}
            else:
                need = {"bytes": float(inputs * outputs * size), "flops": 0.0}
            clock.row(f"{name} {kind}, {tokens} tokens", call, fp8=kind == "fp8", **need)


def decode(clock: Clock, batch: int, context: int) -> None:
    elementwise(clock, batch)
    products(clock, batch)
    logits, never = normal(batch, VOCAB), torch.zeros(VOCAB, dtype=torch.bool, device=DEVICE)
    clock.row(f"likeliest token, {batch} sequences", lambda: likeliest(logits, never), bytes=logits.nbytes)
    layout = Layout.build([1] * batch, contexts=[context] * batch, rows=torch.randperm(batch).tolist(), device=DEVICE)
    projected, inputs = mamba_inputs(batch)
    conv_state = normal(batch, 2, 3, CHANNELS)
    weight, bias = normal(CHANNELS, 4), normal(CHANNELS)
    clock.row(
        f"conv step, {batch} sequences",
        lambda: causal_conv(projected[:, INNER : INNER + CHANNELS], weight, bias, conv_state[:, 1], layout),
        bytes=batch * CHANNELS * 2 * (2 + 3 + 3),
    )
    states = normal(batch, 2, HEADS, HEAD_DIM, STATE, dtype=torch.float32)
    one = batch * HEADS * HEAD_DIM * STATE * 4
    small = batch * (2 * INNER + 2 * GROUPS * STATE + HEADS) * 2
    clock.row(
        f"state step fp32, {batch} sequences",
        lambda: state_space_scan(*inputs, states[:, 1], layout),
        bytes=2 * one + small,
    )
    rings = Replay.allocate(
        rows=batch, layers=2, heads=HEADS, head_dim=HEAD_DIM, groups=GROUPS, state=STATE, dtype=BF16, device=DEVICE
    )
    rings.x_RLWHP.normal_()
    rings.B_RLWGN.normal_()
    rings.dt_RLWH.fill_(0.05)
    rings.decay_RLWH.fill_(-0.05)
    rings.count_R.copy_(torch.arange(batch) % rings.depth)
    entry = INNER * 2 + GROUPS * STATE * 2 + HEADS * 8
    mean = (rings.depth - 1) / 2
    clock.row(
        f"state step with replay, {batch} sequences, rings 0..15",
        lambda: state_space_scan(*inputs, states[:, 1], layout, ring=rings.layer(1)),
        bytes=one * (1 + 1 / rings.depth) + small + batch * entry * (mean + 1),
    )
    q, k, v = (normal(batch, heads, DIM) for heads in (QUERIES, KEYS, KEYS))
    for kind, dtype in (("bf16", BF16), ("fp8", torch.float8_e4m3fn)):
        for label, contexts in (
            (f"{context}", [context] * batch),
            (f"{context // 2}..{context}", [context // 2 + i * context // (2 * batch) for i in range(batch)]),
        ):
            layout, pages = kv_layout([1] * batch, contexts)
            cache = torch.randn(pages, 1, 2, PAGE, KEYS, DIM, device=DEVICE, dtype=BF16).to(dtype)
            clock.row(
                f"attention step over {kind} keys, {batch} x {label}",
                lambda c=cache, at=layout: attend(q, k, v, (c[:, 0, 0], c[:, 0, 1]), at, DIM**-0.5),
                bytes=sum(contexts) * 2 * KEYS * DIM * cache.element_size(),
            )
            del cache
    for batch_one, long in ((1, 32_768), (8, 32_768)):
        layout, pages = kv_layout([1] * batch_one, [long] * batch_one)
        cache = torch.randn(pages, 1, 2, PAGE, KEYS, DIM, device=DEVICE, dtype=BF16)
        clock.row(
            f"attention step over bf16 keys, {batch_one} x {long}",
            lambda c=cache, at=layout, n=batch_one: attend(
                q[:n], k[:n], v[:n], (c[:, 0, 0], c[:, 0, 1]), at, DIM**-0.5
            ),
            bytes=batch_one * long * 2 * KEYS * DIM * 2,
        )


def prefill(clock: Clock, tokens: int) -> None:
    elementwise(clock, tokens)
    products(clock, tokens)
    projected, inputs = mamba_inputs(tokens)
    weight, bias = normal(CHANNELS, 4), normal(CHANNELS)
    conv_state, states = normal(8, 2, 3, CHANNELS), normal(8, 2, HEADS, HEAD_DIM, STATE, dtype=torch.float32)
    q, k, v = (normal(tokens, heads, DIM) for heads in (QUERIES, KEYS, KEYS))
    # Operations of the recurrence in its cheapest matrix form (chunks of 64), C B^T once per group.
    scan_flops = 2.0 * tokens * (HEADS * (64 * HEAD_DIM + 2 * HEAD_DIM * STATE) + GROUPS * 64 * STATE)
    scan_bytes = tokens * (2 * INNER + 2 * GROUPS * STATE + HEADS) * 2
    for pieces, context in ((1, 0), (4, 8192)):
        lengths, contexts = [tokens // pieces] * pieces, [context] * pieces
        label = f"{pieces} x {tokens // pieces} after {context}"
        layout, pages = kv_layout(lengths, contexts)
        clock.row(
            f"conv, {label}",
            lambda at=layout: causal_conv(projected[:, INNER : INNER + CHANNELS], weight, bias, conv_state[:, 1], at),
            bytes=tokens * CHANNELS * 4,
        )
        clock.row(
            f"scan, {label}: bytes", lambda at=layout: state_space_scan(*inputs, states[:, 1], at), bytes=scan_bytes
        )
        clock.row(
            f"scan, {label}: flops", lambda at=layout: state_space_scan(*inputs, states[:, 1], at), flops=scan_flops
        )
        seen = sum(n * c + n * (n + 1) / 2 for n, c in zip(lengths, contexts, strict=True))
        for kind, dtype in (("bf16", BF16), ("fp8", torch.float8_e4m3fn)):
            cache = torch.randn(pages, 1, 2, PAGE, KEYS, DIM, device=DEVICE, dtype=BF16).to(dtype)
            clock.row(
                f"attention over {kind} keys, {label}",
                lambda c=cache, at=layout: attend(q, k, v, (c[:, 0, 0], c[:, 0, 1]), at, DIM**-0.5),
                flops=4.0 * seen * QUERIES * DIM,
            )


def check() -> int:
    from tests.kernels import checks

    wrong = 0
    for name, (what, found, tolerance), seconds in checks.run_all():
        bad = not found <= tolerance
        wrong += bad
        if bad or "-v" in sys.argv:
            print(f"{'BAD' if bad else 'ok '} {name}: {what}: {found:.2e} (at most {tolerance:.0e}), {seconds:.1f} s")
    print("checks: all right" if not wrong else f"checks: {wrong} WRONG", flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--context", type=int, default=16_384)
    parser.add_argument("--tokens", type=int, default=8192)
    args, _ = parser.parse_known_args()
    if not torch.cuda.is_available():
        print("no GPU here; `python -m tests.kernels.checks` runs the kernels through the interpreter")
        return 1
    wrong = check() if args.check else 0
    with torch.inference_mode():
        clock = Clock(args.only)
        decode(clock, args.batch, args.context)
        prefill(clock, args.tokens)
    if args.json:
        limits = {"copy_gbs": clock.copy_gbs, "bf16_tflops": clock.tflops, "fp8_tflops": clock.tflops8}
        device = torch.cuda.get_device_name()
        args.json.write_text(
            json.dumps({"device": device, "limits": limits, "rows": [asdict(r) for r in clock.rows]}, indent=1)
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
