"""The gated delta rule's reference: its two forms agree, cuts and company change nothing, gradients are right, and
transformers' own functions give the same numbers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from holotron.kernels.delta import gated_delta_rule
from holotron.kernels.layout import Layout, Snapshot

KEY_HEADS, HEADS, K, V, ROWS = 2, 4, 6, 5, 9


def inputs(tokens: int, seed: int, dtype: torch.dtype = torch.float64, slow: bool = False) -> list[Tensor]:
    """q, k, v, a, dt_bias, A, b. `slow`: little decay and keys that repeat, which is where triangular systems are hard
    to solve."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    q, k, v = normal(tokens, KEY_HEADS, K), normal(tokens, KEY_HEADS, K), normal(tokens, HEADS, V)
    a, bias, A, b = normal(tokens, HEADS), normal(HEADS), -normal(HEADS).exp(), normal(tokens, HEADS)
    if slow:
        k, A, b = k[:1] + 0.01 * k, A * 1e-3, b + 4
    return [t.to(dtype) for t in (q, k, v, a, bias, A, b)]


PER_TOKEN = {0, 1, 2, 3, 6}


def cut(arguments: list[Tensor], piece: slice) -> list[Tensor]:
    return [t[piece] if i in PER_TOKEN else t for i, t in enumerate(arguments)]


def step_by_step(arguments: list[Tensor], state_RHVK: Tensor, row: int) -> Tensor:
    """The recurrence, one token after the other, in one row."""
    tokens = arguments[0].shape[0]
    layout = Layout.build([1], contexts=[1], rows=[row])
    return torch.cat([gated_delta_rule(*cut(arguments, slice(t, t + 1)), state_RHVK, layout) for t in range(tokens)])


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    decodes=st.integers(0, 2),
    chunk=st.sampled_from([1, 4, 16, 64]),
    slow=st.booleans(),
    data=st.data(),
)
def test_chunks_are_the_recurrence(
    lengths: list[int], decodes: int, chunk: int, slow: bool, data: st.DataObject
) -> None:
    """Any batch of decodes and pieces of prompts, from any states, with a snapshot in one of them."""
    batch = [1] * decodes + lengths
    rows = data.draw(st.permutations(range(ROWS - 1)))[: len(batch)]
    target = data.draw(st.integers(decodes, len(batch) - 1))
    at = data.draw(st.integers(1, batch[target]))
    layout = Layout.build(
        batch,
        contexts=[3] * len(batch),
        rows=rows,
        num_decodes=decodes,
        snapshots=[Snapshot(target, at, ROWS - 1)],
    )
    arguments = inputs(layout.num_tokens, sum(batch), slow=slow)
    state = torch.randn(ROWS, HEADS, V, K, dtype=torch.float64)
    alone = state.clone()
    y = gated_delta_rule(*arguments, state, layout, chunk)

    begin = 0
    for sequence, (length, row) in enumerate(zip(batch, rows, strict=True)):
        mine = cut(arguments, slice(begin, begin + length))
        if sequence == target:
            early = alone.clone()
            step_by_step(cut(mine, slice(0, at)), early, row)
            torch.testing.assert_close(state[ROWS - 1], early[row], rtol=0, atol=1e-9)
        expected = step_by_step(mine, alone, row)
        torch.testing.assert_close(y[begin : begin + length], expected, rtol=0, atol=1e-9)
        begin += length
    torch.testing.assert_close(state[:-1], alone[:-1], rtol=0, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(1, 30), min_size=1, max_size=6), dtype=st.sampled_from([torch.float64, torch.float32]))
def test_any_pieces_are_the_whole(cuts: list[int], dtype: torch.dtype) -> None:
    tokens = sum(cuts)
    tolerance = 1e-9 if dtype == torch.float64 else 2e-5
    arguments = inputs(tokens, 5, dtype)
    whole = gated_delta_rule(*arguments, None, Layout.build([tokens]))
    state = torch.zeros(1, HEADS, V, K, dtype=dtype)
    begin = 0
    for size in cuts:
        layout = Layout.build([size], contexts=[begin])
        y = gated_delta_rule(*cut(arguments, slice(begin, begin + size)), state, layout, chunk=8)
        torch.testing.assert_close(y, whole[begin : begin + size], rtol=0, atol=tolerance)
        begin += size


def test_packed_sequences_are_separate_ones() -> None:
    lengths = [17, 1, 40, 8, 9]
    arguments = inputs(sum(lengths), 1)
    packed = gated_delta_rule(*arguments, None, Layout.build(lengths), chunk=8)
    for part, length, end in zip(packed.split(lengths), lengths, torch.tensor(lengths).cumsum(0).tolist(), strict=True):
        mine = cut(arguments, slice(end - length, end))
        torch.testing.assert_close(part, gated_delta_rule(*mine, None, Layout.build([length])), rtol=0, atol=1e-9)


def test_gradients() -> None:
    """Two packed sequences, several chunks, against finite differences."""
    layout = Layout.build([7, 4])
    arguments = [t.requires_grad_() for t in inputs(11, 2)]
    assert torch.autograd.gradcheck(lambda *t: gated_delta_rule(*t, None, layout, 4), arguments)


@pytest.mark.parametrize("tokens", [1, 63, 64, 130])
def test_transformers_computes_the_same(tokens: int) -> None:
    from transformers.models.qwen3_5.modeling_qwen3_5 import (
        torch_chunk_gated_delta_rule,
        torch_recurrent_gated_delta_rule,
    )

    q, k, v, a, bias, A, b = arguments = inputs(tokens, 3, torch.float32)
    state = torch.randn(1, HEADS, V, K)
    theirs = {"initial_state": state.mT.clone(), "output_final_state": True, "use_qk_l2norm_in_kernel": True}
    wide_q, wide_k = (t.repeat_interleave(HEADS // KEY_HEADS, 1)[None] for t in (q, k))
    g, beta = (A * torch.nn.functional.softplus(a + bias))[None], b.sigmoid()[None]
    y = gated_delta_rule(*arguments, state, Layout.build([tokens], num_decodes=0))
    for function in (torch_chunk_gated_delta_rule, torch_recurrent_gated_delta_rule):
        expected, last = function(wide_q, wide_k, v[None], g=g, beta=beta, **theirs)
        torch.testing.assert_close(y, expected[0], rtol=0, atol=1e-5)
        torch.testing.assert_close(state, last.mT, rtol=0, atol=1e-5)
