"""Every kernel against its torch reference in float64, written once for every place where kernels run.

`python -m tests.kernels.checks` runs them all and prints one line each: with a GPU on the shapes of the 12B model,
without one on small shapes through Triton's interpreter (which executes kernels with numpy, one program at a time).
`test_kernels.py` turns the same lines into tests, `benchmarks/kernels.py --check` runs them before timing.

A check yields (what, error, tolerance) with error = |out - ref| / |ref| in float64. Inputs are random; torch is told to
fill fresh memory with NaN, so an element that a kernel forgets to write cannot pass.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product

if __name__ == "__main__" and not os.path.exists("/dev/nvidia0"):
    os.environ["TRITON_INTERPRET"] = "1"  # has to be set before triton is imported

import torch
from torch import Tensor

import holotron.kernels.attention.reference as attention_reference
import holotron.kernels.attention.triton as attention_triton
import holotron.kernels.attention.triton_tiles as tiles_triton
import holotron.kernels.choice.reference as choice_reference
import holotron.kernels.choice.triton as choice_triton
import holotron.kernels.conv.reference as conv_reference
import holotron.kernels.conv.triton as conv_triton
import holotron.kernels.delta.reference as delta_reference
import holotron.kernels.delta.triton as delta_triton
import holotron.kernels.linear.reference as linear_reference
import holotron.kernels.linear.triton as linear_triton
import holotron.kernels.linear.triton_skinny as skinny_triton
import holotron.kernels.norm.reference as norm_reference
import holotron.kernels.norm.triton as norm_triton
import holotron.kernels.norm.triton_layer as layer_triton
import holotron.kernels.rotary.reference as rotary_reference
import holotron.kernels.rotary.triton as rotary_triton
import holotron.kernels.scan.reference as scan_reference
import holotron.kernels.scan.triton as scan_triton
from holotron.kernels.scan import replay, triton_replay
from holotron.kernels.scan.replay import Replay
from tests.kernels import experts, gradients
from tests.kernels.material import (
    BF16,
    FP8,
    FP32,
    REAL,
    SMALL,
    TOLERANCE,
    Bench,
    Result,
    delta_inputs,
    error,
    scan_inputs,
    wide,
)


def check_norms(bench: Bench) -> Iterator[Result]:
    s = bench.sizes
    for dtype in (FP32, bench.half):
        x, residual = (bench.normal(37, s.hidden, dtype=dtype, shift=0.3) for _ in range(2))
        weight = bench.normal(s.hidden, dtype=dtype, shift=1.0)
        normed, total = norm_triton.add_rms_norm(x, residual, weight, 1e-5)
        assert isinstance(normed, Tensor)
        reference = norm_reference.rms_norm((x + residual).double(), weight.double(), 1e-5)
        yield f"add_rms_norm {dtype}", error(normed, reference), TOLERANCE[dtype]
        yield f"add_rms_norm sum {dtype}", error(total, x + residual), 0.0
        started, same = norm_triton.add_rms_norm(x, None, weight, 1e-5)
        assert same is x
        assert isinstance(started, Tensor)
        reference = norm_reference.rms_norm(x.double(), weight.double(), 1e-5)
        yield f"add_rms_norm without residual {dtype}", error(started, reference), TOLERANCE[dtype]
        bias = torch.randn_like(weight)
        normed, total = layer_triton.add_layer_norm(x, residual, weight, bias, 1e-6)
        total_wide, *parameters = wide(total, weight, bias)
        reference, _ = norm_reference.add_layer_norm(total_wide, None, *parameters, 1e-6)
        yield f"add_layer_norm {dtype}", error(normed, reference), TOLERANCE[dtype]
        yield f"add_layer_norm sum {dtype}", error(total, x + residual), 0.0
        heads = bench.normal(9, 3, s.attention_dim, dtype=dtype)
        weight = bench.normal(s.attention_dim, dtype=dtype, shift=1.0)
        reference = norm_reference.rms_norm(heads.double(), weight.double(), 1e-5)
        yield (
            f"rms_norm of heads {dtype}",
            error(norm_triton.rms_norm(heads, weight, 1e-5), reference),
            TOLERANCE[dtype],
        )
        y, projected = bench.normal(5, 3, 20, dtype=dtype), bench.normal(5, 80, dtype=dtype)
        gate, weight = projected[:, 20:].unflatten(-1, (3, 20)), bench.normal(20, shift=1.0)
        reference = norm_reference.rms_norm_gated(*wide(y, gate, weight), 1e-6)
        yield (
            f"rms_norm_gated {dtype}",
            error(norm_triton.rms_norm_gated(y, gate, weight, 1e-6), reference),
            TOLERANCE[dtype],
        )
        projected = bench.normal(11, 2 * s.inner, dtype=dtype)
        y, gate = bench.normal(11, s.inner, dtype=dtype), projected[:, s.inner :]
        weight = bench.normal(s.inner, dtype=dtype, shift=1.0)
        out = norm_triton.gated_rms_norm(y, gate, weight, s.groups, 1e-5)
        assert isinstance(out, Tensor)
        reference = norm_reference.gated_rms_norm(*wide(y, gate, weight), s.groups, 1e-5)
        assert isinstance(reference, Tensor)
        yield f"gated_rms_norm {dtype}", error(out, reference), TOLERANCE[dtype]


def check_rotary(bench: Bench) -> Iterator[Result]:
    """Angles are fp32, so the reference takes them in fp32 too: at position 100,000 the last bit is 0.008 radians."""
    cases = [(dim, turned, sections) for dim, turned in ((32, None), (80, 32)) for sections in (None, (6, 5, 5))]
    for dtype, (dim, turned, sections) in product((FP32, bench.half), cases):
        q, k = (bench.normal(7, 2 * heads * dim, dtype=dtype)[:, : heads * dim] for heads in (12, 3))
        q, k = q.unflatten(-1, (12, dim)), k.unflatten(-1, (3, dim))
        weights = [bench.normal(dim, dtype=dtype, shift=1.0) for _ in range(2)]
        at = torch.tensor([0, 1, 2, 77, 1000, 9999, 100_000], device=bench.device)
        rotation, shift = rotary_reference.Rotation(1e6, turned, sections), None
        if sections is not None:  # the tokens of a picture, behind the first two
            shift = torch.arange(-30, 3 * 9 - 30, device=bench.device).view(3, 9)[:, 2:]
        found = rotary_triton.norm_and_rotate(q, k, *weights, 1e-6, at, rotation, shift)
        wide_inputs = (t.float() for t in (q, k, *weights))
        wanted = rotary_reference.norm_and_rotate(*wide_inputs, 1e-6, at, rotation, shift)
        for name, ours, theirs in zip(("queries", "keys"), found, wanted, strict=True):
            label = f"norm_and_rotate {turned or dim} of {dim} dimensions {dtype}, sections {sections}: {name}"
            yield label, error(ours, theirs), 2 * TOLERANCE[dtype]


def check_quantized(bench: Bench) -> Iterator[Result]:
    s = bench.sizes
    half = bench.half
    x = bench.eight_bit(13, s.hidden) * 2.0 ** torch.arange(-6, 7, device=bench.device)[:, None].to(half)
    x[5] = 0
    weight = bench.normal(s.hidden, dtype=half, shift=1.0)
    up = bench.normal(13, s.mlp, dtype=half)
    y, gate = (bench.normal(13, s.inner, dtype=half) for _ in range(2))
    gain = bench.normal(s.inner, dtype=half, shift=1.0)
    pairs = {
        "quantize": (linear_triton.quantize(x), linear_reference.quantize(x)),
        "relu2": (linear_triton.relu2(up, True), linear_reference.relu2(up, True)),
        "add_rms_norm": (
            norm_triton.add_rms_norm(x, x, weight, 1e-5, True)[0],
            norm_reference.add_rms_norm(x, x, weight, 1e-5, True)[0],
        ),
        "gelu": (linear_triton.gelu_quantized(up), linear_reference.gelu_quantized(up)),
        "add_layer_norm": (
            layer_triton.add_layer_norm(x, x, weight, gain[: s.hidden], 1e-6, True)[0],
            norm_reference.add_layer_norm(x, x, weight, gain[: s.hidden], 1e-6, True)[0],
        ),
        "gated_rms_norm": (
            norm_triton.gated_rms_norm(y, gate, gain, s.groups, 1e-5, True),
            norm_reference.gated_rms_norm(y, gate, gain, s.groups, 1e-5, True),
        ),
    }
    for name, (ours, theirs) in pairs.items():
        assert isinstance(ours, linear_reference.Quantized)
        assert isinstance(theirs, linear_reference.Quantized)
        # The largest value of a row by the tanh form of GELU is not quite that of the exact one.
        yield f"{name} to 8 bits: scale", error(ours.scale, theirs.scale), 5e-4 if name == "gelu" else 1e-6
        # A value on the edge between two e4m3 numbers may fall either way. (The interpreter's rounding: see Bench.)
        edge = 0.0 if name == "quantize" else 5e-3 if bench.device == "cuda" else 8e-2
        yield f"{name} to 8 bits: values", error(ours.dequantize(), theirs.dequantize()), edge
    out = linear_triton.relu2(up)
    assert isinstance(out, Tensor)
    yield "relu2", error(out, up.double().relu().square()), TOLERANCE[bench.half]


def check_choice(bench: Bench) -> Iterator[Result]:
    vocab = 131_072 if bench.device == "cuda" else 9_000
    for dtype in (FP32, bench.half):
        logits = bench.normal(5, vocab + 3, dtype=dtype, scale=3.0)[:, :vocab]
        logits[1, [7, vocab - 1]] = 40.0  # equals: the first counts
        logits[2, 11] = 40.0
        logits[3, 5000] = float("nan")
        never = torch.zeros(vocab, dtype=torch.bool, device=logits.device)
        never[[11, vocab // 2]] = True
        for name, mask in (("all", None), ("some never", never)):
            ours, theirs = choice_triton.likeliest(logits, mask), choice_reference.likeliest(logits.double(), mask)
            sound = [0, 1, 2, 4]
            yield f"likeliest of {name} {dtype}", float((ours[0] != theirs[0])[sound].sum()), 0.0
            yield f"likeliest of {name} {dtype}: logprobs", error(ours[1, sound], theirs[1, sound]), 1e-5
            yield f"likeliest of {name} {dtype}: not a number", float(~ours[1, 3].isnan()), 0.0
            yield f"likeliest of {name} {dtype}: an id all the same", float(not 0 <= ours[0, 3] < vocab), 0.0


def check_skinny(bench: Bench) -> Iterator[Result]:
    """Few rows; sizes that do not divide, and several programs for the same channels (which count themselves)."""
    half, rounded = bench.half, TOLERANCE[BF16] if bench.device == "cuda" else 5e-3  # the interpreter cuts bf16 off
    shapes = [(1, 512, 128), (3, 192, 70), (16, 256, 130)] if bench.device == "cpu" else []
    shapes += [(1, 5120, 22_656), (5, 20_480, 5120), (16, 5120, 1024)] if bench.device == "cuda" else []
    for rows, inputs, outputs in shapes:
        x, weight = bench.normal(rows, inputs, dtype=half), bench.normal(outputs, inputs, dtype=half, scale=0.02)
        bias = bench.normal(outputs, dtype=half)
        x8, w8 = linear_reference.quantize(x), linear_reference.quantize(weight)
        for splits, bent in product((1, 2, 4), (None, bias)):
            cut = skinny_triton.Cut(depth=64 if bench.device == "cpu" else 256, splits=splits, stages=3)
            what = f"{rows} rows, {inputs} to {outputs}, {splits} splits{', bias' if bent is not None else ''}"
            shift = 0 if bent is None else bent.double()
            for _ in range(2):  # the second call finds what the first has left
                out = skinny_triton.linear(x, weight, bent, cut)
                yield f"{what}, {half}", error(out, x.double() @ weight.double().T + shift), TOLERANCE[half]
                out = skinny_triton.linear(x8, w8, bent, cut)
                reference = x8.dequantize().double() @ w8.dequantize().double().T + shift
                # Hopper's matrix unit adds 8-bit products in 14 bits: sums over very many inputs are less exact.
                long = inputs // splits > 10_240
                yield f"{what}, 8 bits", error(out, reference), 2 * rounded if long else rounded
        yield (
            f"{rows} rows, as it comes",
            error(skinny_triton.linear(x8, w8), linear_reference.linear(x8, w8)),
            2 * rounded,
        )


def check_product(bench: Bench) -> Iterator[Result]:
    """8-bit products need the GPU's own instruction, and products with an activation its library."""
    if bench.device == "cpu":
        return
    s = bench.sizes
    x, weight = bench.normal(2, 300, 1280, dtype=BF16), bench.normal(5120, 1280, dtype=BF16, scale=1280**-0.5)
    bias = bench.normal(5120, dtype=BF16, scale=0.5)
    out = linear_triton.linear_gelu(x, weight, bias)
    reference = linear_reference.linear_gelu(*wide(x, weight, bias))
    yield "product with gelu", error(out, reference), TOLERANCE[bench.half]
    w8 = linear_triton.quantize(weight)
    wanted = linear_reference.linear(x, linear_reference.quantize(weight), bias)
    yield "8-bit product with bias", error(linear_triton.linear(x, w8, bias), wanted), TOLERANCE[bench.half]
    for rows in (1, 20, 300):
        x, weight = bench.normal(rows, s.hidden, dtype=BF16), bench.normal(s.mlp, s.hidden, dtype=BF16, scale=0.02)
        w8 = linear_triton.quantize(weight)
        out = linear_triton.linear(x, w8)
        reference = linear_reference.quantize(x).dequantize().double() @ w8.dequantize().double().T
        yield f"8-bit product, {rows} rows", error(out, reference), TOLERANCE[bench.half]
        yield f"8-bit product, {rows} rows, against bf16 operands", error(out, x.double() @ weight.double().T), 5e-2


def check_conv(bench: Bench) -> Iterator[Result]:
    s = bench.sizes
    for dtype in (FP32, bench.half):
        weight, bias = bench.normal(s.channels, 4, dtype=dtype, scale=0.5), bench.normal(s.channels, dtype=dtype)
        for name, prompts, decodes in (("mixed", True, True), ("prompts", True, False), ("decodes", False, True)):
            layout = bench.layout(prompts, decodes)
            projected = bench.normal(layout.num_tokens, s.channels + 32, dtype=dtype)
            x = projected[:, 16 : 16 + s.channels]
            states = bench.normal(2 * layout.num_sequences + 2, 2, 3, s.channels, dtype=dtype)
            state, wide_state = states[:, 1], states.double()[:, 1]
            out = conv_triton.causal_conv(x, weight, bias, state, layout)
            reference = conv_reference.causal_conv(*wide(x, weight, bias), wide_state, layout)
            yield f"conv {name} {dtype}", error(out, reference), TOLERANCE[dtype]
            yield f"conv {name} {dtype}: memory", error(state, wide_state), 0.0
        layout = bench.fresh()
        x = bench.normal(layout.num_tokens, s.channels, dtype=dtype)
        out = conv_triton.causal_conv(x, weight, None, None, layout)
        reference = conv_reference.causal_conv(*wide(x, weight), None, None, layout)
        yield f"conv without memory or bias {dtype}", error(out, reference), TOLERANCE[dtype]


def check_scan(bench: Bench) -> Iterator[Result]:
    s = bench.sizes
    for dtype in (FP32, bench.half):
        for name, prompts, decodes in (("mixed", True, True), ("prompts", True, False), ("decodes", False, True)):
            layout = bench.layout(prompts, decodes)
            inputs = scan_inputs(bench, layout.num_tokens, dtype)
            states = bench.normal(2 * layout.num_sequences + 2, 2, s.heads, s.head_dim, s.state)
            state, wide_state = states[:, 1], states.double()[:, 1]
            untouched = states[:, 0].clone()
            out = scan_triton.state_space_scan(*inputs, state, layout)
            reference = scan_reference.state_space_scan(*wide(*inputs), wide_state, layout)
            # Inside a chunk, weights and inputs are rounded to bf16 once more before they are multiplied.
            exact = dtype == FP32 or name == "decodes"
            yield f"scan {name} {dtype}", error(out, reference), 2e-6 if dtype == FP32 else 2 * TOLERANCE[dtype]
            yield f"scan {name} {dtype}: state", error(state, wide_state), 2e-6 if exact else 2 * TOLERANCE[dtype]
            yield f"scan {name} {dtype}: other layers", error(states[:, 0], untouched), 0.0
        layout = bench.fresh()
        inputs = scan_inputs(bench, layout.num_tokens, dtype)
        out = scan_triton.state_space_scan(*inputs, None, layout)
        reference = scan_reference.state_space_scan(*wide(*inputs), None, layout)
        yield f"scan without memory {dtype}", error(out, reference), 2e-6 if dtype == FP32 else 2 * TOLERANCE[dtype]


def check_delta(bench: Bench) -> Iterator[Result]:
    g = bench.delta
    for dtype in (FP32, bench.half):
        for name, prompts, decodes in (("mixed", True, True), ("decodes", False, True)):
            if prompts and dtype == FP32 and bench.device == "cuda":
                continue  # there, prompts in fp32 are left to the reference
            layout = bench.layout(prompts, decodes)
            inputs = delta_inputs(bench, layout.num_tokens, dtype)
            states = bench.normal(2 * layout.num_sequences + 2, 2, g.value_heads, g.value_dim, g.key_dim)
            state, wide_state = states[:, 1], states.double()[:, 1]
            untouched = states[:, 0].clone()
            out = delta_triton.gated_delta_rule(*inputs, state, layout)
            reference = delta_reference.gated_delta_rule(*wide(*inputs), wide_state, layout)
            # Inside a chunk, operands are rounded once more before they are multiplied.
            exact = dtype == FP32 or name == "decodes"
            yield f"delta {name} {dtype}", error(out, reference), 2e-6 if dtype == FP32 else 2 * TOLERANCE[dtype]
            yield f"delta {name} {dtype}: state", error(state, wide_state), 2e-6 if exact else 2 * TOLERANCE[dtype]
            yield f"delta {name} {dtype}: other layers", error(states[:, 0], untouched), 0.0
    # Keys that repeat, no decay and full corrections: where a series for the triangular system would break down.
    layout = bench.fresh()
    q, k, v, a, bias, A, b = delta_inputs(bench, layout.num_tokens, bench.half)
    k = (k[:1] + 0.02 * k).to(k.dtype)
    inputs = [q, k, v, a, bias, A * 1e-4, b + 5]
    out = delta_triton.gated_delta_rule(*inputs, None, layout)
    reference = delta_reference.gated_delta_rule(*wide(*inputs), None, layout)
    yield "delta with keys that repeat", error(out, reference), 6 * TOLERANCE[bench.half]


def check_replay(bench: Bench) -> Iterator[Result]:
    """Steps from a ring against steps that write every state, in float64; rows start at different fillings, so that
    they write their states at different times; then a flush of everything."""
    s = bench.sizes
    depth, layers, steps = 16, 2, 18 if bench.device == "cuda" else 6
    for dtype in (FP32, bench.half):
        layout = bench.layout(False, True)
        rows, rows_S = 2 * layout.num_sequences + 2, layout.rows_S
        states = bench.normal(rows, layers, s.heads, s.head_dim, s.state)
        wide_state = states.double()
        rings = Replay.allocate(
            rows=rows,
            layers=layers,
            heads=s.heads,
            head_dim=s.head_dim,
            groups=s.groups,
            state=s.state,
            dtype=dtype,
            device=bench.device,
            depth=depth,
        )
        sizes = [rows, 1, depth, s.heads]
        rings.x_RLWHP[:] = bench.normal(*rings.x_RLWHP.shape, dtype=dtype)
        rings.B_RLWGN[:] = bench.normal(*rings.B_RLWGN.shape, dtype=dtype)
        rings.dt_RLWH[:] = bench.normal(*sizes).exp() * 0.1
        rings.decay_RLWH[:] = -rings.dt_RLWH * bench.normal(*sizes).exp()
        filled = torch.arange(layout.num_sequences, device=bench.device, dtype=torch.int32)
        rings.count_R[rows_S.long()] = (depth - 1 - 2 * filled) % depth
        for layer in range(layers):
            ring, state = rings.layer(layer), wide_state[:, layer]
            state[rows_S.long()] = replay._caught_up(state[rows_S.long()], ring, rows_S.long())
        worst = 0.0
        for _ in range(steps):
            inputs = scan_inputs(bench, layout.num_tokens, dtype)
            for layer in range(layers):
                y = scan_triton.state_space_scan(*inputs, states[:, layer], layout, rings.layer(layer))
                ref = scan_reference.state_space_scan(*wide(*inputs), wide_state[:, layer], layout)
                worst = max(worst, error(y, ref))
            rings.advance(rows_S)
        yield f"replay {dtype}: worst of {steps} steps", worst, TOLERANCE[dtype]
        triton_replay.flush(states, rings, rows_S)
        yield f"replay {dtype}: states after a flush", error(states, wide_state), 2e-6
        yield f"replay {dtype}: counts after a flush", float(rings.count_R.abs().sum()), 0.0


def check_attention(bench: Bench) -> Iterator[Result]:
    s = bench.sizes
    for dtype, kv_dtype in ((FP32, FP32), (bench.half, bench.half), (bench.half, FP8)):
        for name, prompts, decodes, page_size in (
            ("mixed", True, True, 64),
            ("prompts", True, False, 24),
            ("decodes", False, True, 20),
        ):
            layout = bench.layout(prompts, decodes, page_size)
            q = bench.normal(layout.num_tokens, s.query_heads * s.attention_dim, dtype=dtype, scale=2.0)
            kv = bench.normal(layout.num_tokens, 2 * s.kv_heads * s.attention_dim, dtype=dtype)
            if kv_dtype == FP8:
                kv = kv.to(FP8).to(dtype)
            q = q.unflatten(-1, (s.query_heads, s.attention_dim))
            k, v = (t.unflatten(-1, (s.kv_heads, s.attention_dim)) for t in kv.chunk(2, dim=-1))
            pages = int(layout.pages_SM.max()) + 2
            cache = bench.normal(pages, 2, 2, page_size, s.kv_heads, s.attention_dim, dtype=dtype).to(kv_dtype)
            wide_cache = cache.double()
            out = attention_triton.attend(q, k, v, (cache[:, 1, 0], cache[:, 1, 1]), layout, s.attention_dim**-0.5)
            stored = [t.to(kv_dtype) for t in (k, v)]
            reference = attention_reference.attend(
                q.double(), *wide(*stored), (wide_cache[:, 1, 0], wide_cache[:, 1, 1]), layout, s.attention_dim**-0.5
            )
            label = f"attention {name} {dtype} over {kv_dtype}"
            yield label, error(out, reference), TOLERANCE[dtype]
            yield f"{label}: cache", error(cache.double(), wide_cache), 0.0


def check_tiles(bench: Bench) -> Iterator[Result]:
    """What vision towers use: heads of 80 and 72, of a power of two, and smaller than a matrix unit's tile."""
    shapes = [(2, 74, 3, 80), (1, 80, 2, 72), (1, 128, 2, 32), (2, 37, 2, 12)]
    if bench.device == "cuda":
        shapes += [(3, 1040, 16, 80), (1, 260, 8, 32), (2, 64, 2, 80), (1, 321, 1, 80)]
        shapes += [(2, 3648 + more, 16, 80) for more in (33, 48, 63)]  # the last block nearly as wide as the others
    for dtype in (FP32, bench.half):
        for n, length, heads, dim in shapes:
            qkv = bench.normal(n, length, 3 * heads * dim, dtype=dtype)
            out = tiles_triton.attend_tiles(qkv, heads)
            reference = attention_reference.attend_tiles(qkv.double(), heads)
            label = f"attention in tiles of {length}, {heads} heads of {dim} {dtype}"
            yield label, error(out, reference), TOLERANCE[dtype]


CHECKS: dict[str, Callable[[Bench], Iterator[Result]]] = {
    "norms": check_norms,
    "rotary": check_rotary,
    "quantized": check_quantized,
    "choice": check_choice,
    "skinny": check_skinny,
    "product": check_product,
    "conv": check_conv,
    "scan": check_scan,
    "delta": check_delta,
    "replay": check_replay,
    "attention": check_attention,
    "tiles": check_tiles,
    "gradients": gradients.check,
    "experts": experts.check,
}


def run_all(names: list[str] | None = None, seed: int = 0) -> Iterator[tuple[str, Result, float]]:
    """(check, result, seconds since the check began) for every line of every check."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.use_deterministic_algorithms(True, warn_only=True)  # fresh memory is filled with NaN
    for name in names or CHECKS:
        begin = time.perf_counter()
        torch.manual_seed(seed)  # anew for each: what one check draws must not depend on which others there are
        bench = Bench(device, REAL if device == "cuda" else SMALL, seed)
        with torch.no_grad():
            for result in CHECKS[name](bench):
                yield name, result, time.perf_counter() - begin
    torch.use_deterministic_algorithms(False)


def main() -> int:
    as_json = "--json" in sys.argv
    wrong = 0
    for name, (what, found, tolerance), seconds in run_all([a for a in sys.argv[1:] if not a.startswith("-")]):
        wrong += not found <= tolerance
        if as_json:
            print(json.dumps({"check": name, "what": what, "error": found, "tolerance": tolerance}), flush=True)
        else:
            mark = "ok " if found <= tolerance else "BAD"
            print(f"{mark} {name:10} {what:60} {found:.2e} (at most {tolerance:.0e})  {seconds:.1f} s", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
