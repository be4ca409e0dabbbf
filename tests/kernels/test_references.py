"""What the references promise beyond the model's own tests: snapshots, replay and 8-bit numbers."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from holotron.kernels.conv import causal_conv
from holotron.kernels.layout import Layout, Snapshot
from holotron.kernels.linear import linear, quantize, relu2
from holotron.kernels.norm import add_rms_norm, gated_rms_norm, rms_norm
from holotron.kernels.scan import Replay, flush, state_space_scan

HEADS, HEAD_DIM, GROUPS, STATE, CHANNELS, ROWS = 4, 3, 2, 5, 6, 9


def inputs(tokens: int, seed: int) -> list[Tensor]:
    torch.manual_seed(seed)
    shapes = [
        (tokens, HEADS, HEAD_DIM),
        (tokens, HEADS),
        (HEADS,),
        (HEADS,),
        (tokens, GROUPS, STATE),
        (tokens, GROUPS, STATE),
    ]
    x, dt, bias, A, B, C = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    return [x, dt, bias, -A.exp(), B, C, torch.randn(HEADS, dtype=torch.float64)]


@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    decodes=st.integers(0, 2),
    data=st.data(),
    seed=st.integers(0, 99),
)
def test_a_snapshot_is_what_a_shorter_piece_leaves_behind(
    lengths: list[int], decodes: int, data: st.DataObject, seed: int
) -> None:
    batch = [1] * decodes + lengths
    sequence = data.draw(st.integers(decodes, len(batch) - 1))
    tokens = data.draw(st.integers(1, batch[sequence]))
    spare = ROWS - 1
    contexts = [3] * len(batch)
    layout = Layout.build(batch, contexts=contexts, num_decodes=decodes, snapshots=[Snapshot(sequence, tokens, spare)])
    arguments = inputs(layout.num_tokens, seed)
    x, weight = torch.randn(layout.num_tokens, CHANNELS).double(), torch.randn(CHANNELS, 4).double()
    state, conv = torch.randn(ROWS, HEADS, HEAD_DIM, STATE).double(), torch.randn(ROWS, 3, CHANNELS).double()
    short_state, short_conv = state.clone(), conv.clone()
    state_space_scan(*arguments, state, layout, chunk=4)
    causal_conv(x, weight, None, conv, layout)

    begin = sum(batch[:sequence])
    piece = Layout.build([tokens], contexts=[3], rows=[sequence], num_decodes=0)
    cut = slice(begin, begin + tokens)
    per_token = {0, 1, 4, 5}
    some = [a[cut] if i in per_token else a for i, a in enumerate(arguments)]
    state_space_scan(*some, short_state, piece)
    causal_conv(x[cut], weight, None, short_conv, piece)
    torch.testing.assert_close(state[spare], short_state[sequence], rtol=0, atol=1e-9)
    torch.testing.assert_close(conv[spare], short_conv[sequence], rtol=0, atol=0)


@settings(max_examples=20)
@given(
    steps=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True), min_size=1, max_size=12),
    flush_at=st.integers(0, 12),
    depth=st.integers(2, 5),
)
def test_replay_equals_writing_every_state(steps: list[list[int]], flush_at: int, depth: int) -> None:
    """Any subset of rows steps at any time; a flush in the middle changes nothing."""
    layers = 2
    states = torch.randn(ROWS, layers, HEADS, HEAD_DIM, STATE, dtype=torch.float64)
    plain = states.clone()
    rings = Replay.allocate(
        rows=ROWS,
        layers=layers,
        heads=HEADS,
        head_dim=HEAD_DIM,
        groups=GROUPS,
        state=STATE,
        dtype=torch.float64,
        device="cpu",
        depth=depth,
    )
    for wide in ("dt_RLWH", "decay_RLWH"):  # as precise as the rest of this test
        object.__setattr__(rings, wide, getattr(rings, wide).double())
    for number, rows in enumerate(steps):
        layout = Layout.build([1] * len(rows), contexts=[1] * len(rows), rows=rows)
        if number == flush_at:
            flush(states, rings, layout.rows_S)
            assert not rings.count_R[rows].any()
        arguments = inputs(len(rows), number)
        for layer in range(layers):
            found = state_space_scan(*arguments, states[:, layer], layout, ring=rings.layer(layer))
            wanted = state_space_scan(*arguments, plain[:, layer], layout)
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)
        rings.advance(layout.rows_S)
    flush(states, rings, torch.arange(ROWS, dtype=torch.int32))
    torch.testing.assert_close(states, plain, rtol=0, atol=1e-9)


def test_eight_bit_products_are_close_and_scales_absorb_any_range() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(7, 64) * 10.0 ** torch.arange(-3, 4)[:, None], torch.randn(32, 64)
    x[3] = 0
    out = linear(x, quantize(weight))
    exact = x @ weight.T
    assert out.dtype == torch.bfloat16
    relative = (out.float() - exact).norm(dim=1) / exact.norm(dim=1).clamp_min(1e-30)
    assert bool((relative < 0.06).all())
    assert not out[3].any()
    again = linear(quantize(x), quantize(weight))
    torch.testing.assert_close(again, out, rtol=0, atol=0)


def test_quantised_outputs_are_the_plain_ones_quantised() -> None:
    torch.manual_seed(0)
    x, residual, gate = torch.randn(3, 5, 24, dtype=torch.float32)
    weight = torch.rand(24) + 0.5
    plain, total = add_rms_norm(x, residual, weight, 1e-5)
    small, same = add_rms_norm(x, residual, weight, 1e-5, quantized=True)
    assert isinstance(plain, Tensor)
    assert not isinstance(small, Tensor)
    torch.testing.assert_close(total, x + residual)
    torch.testing.assert_close(same, total)
    torch.testing.assert_close(plain, rms_norm(total, weight, 1e-5))
    torch.testing.assert_close(small.values, quantize(plain).values)
    first, start = add_rms_norm(x, None, weight, 1e-5)
    assert start is x
    torch.testing.assert_close(first, rms_norm(x, weight, 1e-5))
    for function in (lambda q: gated_rms_norm(x, gate, weight, 4, 1e-5, q), lambda q: relu2(x, q)):
        wide, narrow = function(False), function(True)
        torch.testing.assert_close(narrow.values, quantize(wide).values)
        torch.testing.assert_close(narrow.scale, quantize(wide).scale)
