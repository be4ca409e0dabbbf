"""Gradients of the Triton kernels against those of the torch references in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

import holotron.kernels.attention.reference as attention_reference
import holotron.kernels.conv.reference as conv_reference
import holotron.kernels.delta.reference as delta_reference
import holotron.kernels.linear.reference as linear_reference
import holotron.kernels.norm.reference as norm_reference
import holotron.kernels.scan.reference as scan_reference
from holotron.kernels.attention import packed
from holotron.kernels.conv.triton_backward import Conv
from holotron.kernels.delta.triton_backward import Delta
from holotron.kernels.linear.triton import ReLU2
from holotron.kernels.norm.triton_backward import AddRMSNorm, GatedRMSNorm
from holotron.kernels.scan.triton_backward import Scan
from tests.kernels.material import FP32, TOLERANCE, Bench, Result, delta_inputs, error, scan_inputs


def _gradients(run: Callable[..., Any], inputs: Sequence[Tensor], pushes: Sequence[Tensor]) -> list[Tensor]:
    """Of the sum of outputs times `pushes`, with respect to every input."""
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_() for t in inputs]
        outputs = run(*leaves)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = zip(outputs, pushes, strict=True)
        return list(torch.autograd.grad(sum((o * p.to(o.dtype)).sum() for o, p in pairs), leaves))  # type: ignore[arg-type]


def _compare(
    names: str,
    kernel: Callable[..., Any],
    reference: Callable[..., Any],
    inputs: Sequence[Tensor],
    pushes: list[Tensor],
) -> Iterator[tuple[str, float]]:
    found = _gradients(kernel, inputs, pushes)
    wanted = _gradients(reference, [t.double() for t in inputs], [p.double() for p in pushes])
    for name, ours, theirs in zip(names.split(), found, wanted, strict=True):
        yield name, error(ours, theirs)


def check(bench: Bench) -> Iterator[Result]:
    s = bench.sizes
    layout = bench.fresh()
    tokens = layout.num_tokens
    for dtype in (FP32, bench.half):
        # Sums over many tokens of rounded products: several roundings instead of one.
        tolerance = 2e-5 if dtype == FP32 else 4 * TOLERANCE[dtype]

        def normal(*shape: int, dtype: torch.dtype = dtype, shift: float = 0.0) -> Tensor:
            return bench.normal(*shape, dtype=dtype, shift=shift)

        inputs = scan_inputs(bench, tokens, dtype)
        lines = _compare(
            "x dt dt_bias A B C D",
            lambda *t: Scan.apply(*t, layout),
            lambda *t: scan_reference.state_space_scan(*t, None, layout),
            inputs,
            [normal(tokens, s.heads, s.head_dim)],
        )
        for name, found in lines:
            yield f"scan gradient of {name} {dtype}", found, tolerance

        if dtype != FP32 or bench.device == "cpu":  # on a GPU, fp32 is left to the reference
            lines = _compare(
                "q k v a dt_bias A b",
                lambda *t: Delta.apply(*t, layout),
                lambda *t: delta_reference.gated_delta_rule(*t, None, layout),
                delta_inputs(bench, tokens, dtype),
                [normal(tokens, bench.delta.value_heads, bench.delta.value_dim)],
            )
            for name, found in lines:
                yield f"delta gradient of {name} {dtype}", found, tolerance

        for bias in (True, False):
            inputs = [normal(tokens, s.channels + 8)[:, 8:], normal(s.channels, 4)]
            inputs += [normal(s.channels)] if bias else []
            lines = _compare(
                "x weight bias" if bias else "x weight",
                lambda x, w, b=None: Conv.apply(x, w, b, layout),
                lambda x, w, b=None: conv_reference.causal_conv(x, w, b, None, layout),
                inputs,
                [normal(tokens, s.channels)],
            )
            for name, found in lines:
                yield f"conv gradient of {name} {dtype}, bias {bias}", found, tolerance

        rows, weight = 37, normal(s.hidden, shift=1.0)
        inputs = [normal(rows, s.hidden), normal(rows, s.hidden), weight]
        lines = _compare(
            "x residual weight",
            lambda x, r, w: AddRMSNorm.apply(x, r, w, 1e-5),
            lambda x, r, w: norm_reference.add_rms_norm(x, r, w, 1e-5),
            inputs,
            [normal(rows, s.hidden), normal(rows, s.hidden)],
        )
        for name, found in lines:
            yield f"add_rms_norm gradient of {name} {dtype}", found, tolerance
        lines = _compare(
            "x weight",
            lambda x, w: AddRMSNorm.apply(x, None, w, 1e-5),
            lambda x, w: norm_reference.add_rms_norm(x, None, w, 1e-5),
            [inputs[0], weight],
            [normal(rows, s.hidden), normal(rows, s.hidden)],
        )
        for name, found in lines:
            yield f"add_rms_norm gradient of {name}, start of the stream {dtype}", found, tolerance

        lines = _compare(
            "y gate weight",
            lambda y, g, w: GatedRMSNorm.apply(y, g, w, s.groups, 1e-5),
            lambda y, g, w: norm_reference.gated_rms_norm(y, g, w, s.groups, 1e-5),
            [normal(rows, s.inner), normal(rows, s.inner + 24)[:, 24:], normal(s.inner, shift=1.0)],
            [normal(rows, s.inner)],
        )
        for name, found in lines:
            yield f"gated_rms_norm gradient of {name} {dtype}", found, tolerance

        lines = _compare("x", ReLU2.apply, linear_reference.relu2, [normal(rows, s.mlp)], [normal(rows, s.mlp)])
        for name, found in lines:
            yield f"relu2 gradient of {name} {dtype}", found, tolerance

    if bench.device == "cuda":  # FlashAttention has no interpreter
        q, k, v = (
            bench.normal(tokens, n, s.attention_dim, dtype=bench.half) for n in (s.query_heads, s.kv_heads, s.kv_heads)
        )
        lines = _compare(
            "q k v",
            lambda *t: packed.attend(*t, layout, 0.1),
            lambda *t: attention_reference.attend(*t, None, layout, 0.1),
            [q, k, v],
            [bench.normal(*q.shape, dtype=bench.half)],
        )
        for name, found in lines:
            yield f"attention gradient of {name}", found, 4 * TOLERANCE[bench.half]

        heads, lengths = 3, (5, 34, 9)  # of parts of tiles
        starts = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=bench.device)
        lines = _compare(
            "qkv",
            lambda qkv: packed.attend_looks(qkv, heads, starts, 64),
            lambda qkv: attention_reference.attend_looks(qkv, heads, lengths),
            [bench.normal(sum(lengths), 3 * heads * s.attention_dim, dtype=bench.half)],
            [bench.normal(sum(lengths), heads * s.attention_dim, dtype=bench.half)],
        )
        for name, found in lines:
            yield f"attention in looks, gradient of {name}", found, 4 * TOLERANCE[bench.half]
