"""Every kernel against its reference: here through Triton's interpreter on small shapes, on a GPU on real ones.

The checks themselves are in `checks.py`. The interpreter must be switched on before triton is first imported, so there
they run in a process of their own, once for all tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

HERE = Path(__file__).parent
NAMES = ("norms", "rotary", "quantized", "choice", "skinny", "conv", "scan", "delta", "replay", "attention", "tiles")
NAMES += ("gradients", "experts")


@cache
def interpreted() -> dict[str, list[dict[str, float | str]]]:
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    root = HERE.parent.parent
    environment["PYTHONPATH"] = os.pathsep.join([str(root / "src"), str(root)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.checks", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=550,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stderr
    assert done.returncode in (0, 1), done.stderr
    return {name: [line for line in lines if line["check"] == name] for name in NAMES}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_through_the_interpreter(name: str) -> None:
    results = interpreted()[name]
    assert results, "the check yielded nothing"
    wrong = [line for line in results if not line["error"] <= line["tolerance"]]
    assert not wrong, wrong


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*NAMES, "product"])
@pytest.mark.parametrize("seed", [0, 1])
def test_on_the_gpu(name: str, seed: int) -> None:
    from tests.kernels.checks import run_all

    results = [result for _, result, _ in run_all([name], seed)]
    assert results, "the check yielded nothing"
    wrong = [result for result in results if not result[1] <= result[2]]
    assert not wrong, wrong


@pytest.mark.gpu
def test_a_captured_decode_step_follows_its_inputs() -> None:
    """What CUDA graphs need: contexts, rows, pages and slots may change between replays, launch grids may not."""
    from holotron.kernels.attention import attend
    from holotron.kernels.conv import causal_conv
    from holotron.kernels.delta import gated_delta_rule
    from holotron.kernels.layout import Layout
    from holotron.kernels.scan import state_space_scan
    from tests.kernels.material import REAL, Bench, delta_inputs, scan_inputs

    bench = Bench("cuda", REAL)
    s, batch, page = REAL, 6, 64
    width = 40

    def layout(contexts: list[int], rows: list[int]) -> Layout:
        table = torch.randperm(batch * width)[: batch * width].view(batch, width).tolist()
        return Layout.build([1] * batch, contexts=contexts, rows=rows, pages=table, page_size=page, device="cuda")

    fixed, other = (
        layout([5, 70, 200, 64, 63, 1], [0, 1, 2, 3, 4, 5]),
        layout([900, 3, 64, 2000, 129, 5], [7, 6, 5, 1, 0, 2]),
    )
    x = bench.normal(batch, s.channels, dtype=torch.bfloat16)
    weight, bias = bench.normal(s.channels, 4, dtype=torch.bfloat16), bench.normal(s.channels, dtype=torch.bfloat16)
    inputs, g = scan_inputs(bench, batch, torch.bfloat16), bench.delta
    corrections = delta_inputs(bench, batch, torch.bfloat16)
    q, k, v = (
        bench.normal(batch, heads, s.attention_dim, dtype=torch.bfloat16)
        for heads in (s.query_heads, s.kv_heads, s.kv_heads)
    )
    conv = bench.normal(8, 3, s.channels, dtype=torch.bfloat16)
    state = bench.normal(8, s.heads, s.head_dim, s.state)
    matrix = bench.normal(8, g.value_heads, g.value_dim, g.key_dim)
    cache = bench.normal(batch * width, 2, page, s.kv_heads, s.attention_dim, dtype=torch.bfloat16)

    def step(at: Layout) -> tuple[torch.Tensor, ...]:
        return (
            causal_conv(x, weight, bias, conv, at),
            state_space_scan(*inputs, state, at),
            gated_delta_rule(*corrections, matrix, at),
            attend(q, k, v, (cache[:, 0], cache[:, 1]), at, s.attention_dim**-0.5),
        )

    with torch.inference_mode():
        memory = [t.clone() for t in (conv, state, matrix, cache)]
        expected = step(other)
        changed = [t.clone() for t in (conv, state, matrix, cache)]
        step(fixed)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = step(fixed)
        for name in ("context_S", "rows_S", "pages_SM", "slots_T"):
            getattr(fixed, name).copy_(getattr(other, name))
        for t, before in zip((conv, state, matrix, cache), memory, strict=True):
            t.copy_(before)
        graph.replay()
        for found, wanted in zip((*outputs, conv, state, matrix, cache), (*expected, *changed), strict=True):
            assert torch.equal(found, wanted)
