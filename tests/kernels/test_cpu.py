"""What is arranged for a CPU computes what the references compute."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holotron.kernels.layout import Layout, Snapshot
from holotron.kernels.norm import cpu as norms
from holotron.kernels.norm import reference as plain_norms
from holotron.kernels.scan import cpu, reference

HEADS, DIM, GROUPS, STATE = 6, 5, 2, 7


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    decodes = draw(st.integers(0, 3))
    prompts = draw(st.lists(st.integers(1, 90), min_size=0 if decodes else 1, max_size=3))
    lengths = [1] * decodes + prompts
    rows = draw(st.permutations(range(len(lengths) + 4)))
    spare = list(rows[len(lengths) :])
    snapshots = []
    for n, length in enumerate(prompts):
        for tokens in draw(st.lists(st.integers(1, length), max_size=2, unique=True)):
            if spare:
                snapshots.append(Snapshot(decodes + n, tokens, spare.pop()))
    contexts = [3] * decodes + [0] * len(prompts)
    return Layout.build(lengths, contexts=contexts, rows=rows[: len(lengths)], num_decodes=decodes, snapshots=snapshots)


@settings(max_examples=60)
@given(layouts(), st.integers(0, 2**31))
def test_the_scan(layout: Layout, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    tokens = layout.num_tokens
    channels = normal(tokens, HEADS * DIM + 2 * GROUPS * STATE)  # views of one tensor, as in the network
    x, B, C = channels.split([HEADS * DIM, GROUPS * STATE, GROUPS * STATE], dim=-1)
    B, C = B.unflatten(-1, (GROUPS, STATE)), C.unflatten(-1, (GROUPS, STATE))
    common = x.unflatten(-1, (HEADS, DIM)), normal(tokens, HEADS), normal(HEADS), -normal(HEADS).exp(), B, C
    D, states = normal(HEADS), normal(layout.num_sequences + 4, HEADS, DIM, STATE)
    expected, found = states.clone(), states.clone()
    wanted = reference.state_space_scan(*common, D, expected, layout, 16)
    torch.testing.assert_close(cpu.state_space_scan(*common, D, found, layout), wanted, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 40), st.sampled_from([1e-12, 1.0, 1e6]), st.integers(0, 2**31))
def test_the_norms(groups: int, width: int, size: float, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    y, gate, weight = (torch.randn(s, groups * width, generator=random, dtype=torch.float64) for s in (5, 5, 1))
    y, weight = y * size, weight[0]
    torch.testing.assert_close(
        norms.rms_norm(y, weight, 1e-5), plain_norms.rms_norm(y, weight, 1e-5), rtol=1e-9, atol=1e-12
    )
    torch.testing.assert_close(
        norms.gated_rms_norm(y, gate, weight, groups, 1e-5),
        plain_norms.gated_rms_norm(y, gate, weight, groups, 1e-5),
        rtol=1e-9,
        atol=1e-12,
    )
