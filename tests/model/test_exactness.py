"""Chunking, packing and batching must not change results: random cases in float64 (1e-9) and fp32 (1e-4)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from holotron.errors import CapacityError, CheckpointError
from holotron.model.cache import DecoderState
from holotron.model.config import (
    AttentionConfig,
    DecoderConfig,
    DeltaConfig,
    MambaConfig,
    MLPConfig,
    ModelConfig,
    MoEConfig,
)
from holotron.model.model import Holotron
from holotron.model.presets import preset, tiny
from holotron.model.weights import random_model
from tests.model.oracle import unsettle

VOCAB = 61
LONGEST = 40
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}

MODELS = {
    "hybrid": DecoderConfig(
        VOCAB,
        24,
        "M-M*-M",
        mamba=MambaConfig(heads=6, head_dim=5, state=8, groups=2, chunk=8),
        attention=AttentionConfig(heads=4, kv_heads=2, head_dim=6),
        mlp=MLPConfig(32),
        max_positions=512,
    ),
    "experts": DecoderConfig(
        VOCAB,
        24,
        "ME*M",
        mamba=MambaConfig(heads=4, head_dim=8, state=8, groups=1, chunk=16),
        attention=AttentionConfig(heads=4, kv_heads=1, head_dim=6),
        moe=MoEConfig(experts=4, top_k=2, width=16, shared_width=16),
        max_positions=512,
    ),
    "delta": DecoderConfig(
        VOCAB,
        24,
        "G-GE*-G",
        delta=DeltaConfig(key_heads=2, value_heads=4, key_dim=6, value_dim=5, chunk=8),
        attention=AttentionConfig(
            heads=4, kv_heads=2, head_dim=8, rope_theta=1e4, qk_norm=True, rotary_dim=4, gated=True
        ),
        mlp=MLPConfig(32, "swiglu"),
        moe=MoEConfig(
            experts=4, top_k=2, width=16, shared_width=16, scoring="softmax", activation="swiglu", shared_gate=True
        ),
        centred_norms=True,
        max_positions=512,
    ),
    "both recurrences": DecoderConfig(
        VOCAB,
        24,
        "MG*M-G",
        mamba=MambaConfig(heads=4, head_dim=8, state=8, groups=1, chunk=16),
        delta=DeltaConfig(key_heads=1, value_heads=3, key_dim=7, value_dim=4, chunk=4),
        attention=AttentionConfig(heads=4, kv_heads=1, head_dim=6),
        mlp=MLPConfig(32),
        max_positions=512,
    ),
    "transformer": DecoderConfig(
        VOCAB,
        24,
        "*-*-",
        attention=AttentionConfig(heads=4, kv_heads=2, head_dim=6, rope_theta=1e4, qk_norm=True),
        mlp=MLPConfig(32, "swiglu"),
        max_positions=512,
    ),
}
DTYPES = [torch.float64, torch.float32]


@cache
def model_of(name: str, dtype: torch.dtype) -> Holotron:
    family = "qwen3" if name == "transformer" else "nemotron_h"
    config = ModelConfig(MODELS[name], family=family)  # type: ignore[arg-type]
    return unsettle(random_model(config).eval()).to(dtype)


@cache
def truth(name: str, dtype: torch.dtype, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and their logits, computed in one go."""
    ids = torch.randint(0, VOCAB, (LONGEST,), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        return ids, model_of(name, dtype)(ids)


cases = settings(max_examples=120, deadline=None)
names = st.sampled_from(sorted(MODELS))
dtypes = st.sampled_from(DTYPES)
seeds = st.integers(0, 3)


@cases
@given(names, dtypes, seeds, st.lists(st.integers(1, 17), min_size=1, max_size=20))
@torch.no_grad()
def test_prefill_in_any_pieces(name: str, dtype: torch.dtype, seed: int, pieces: list[int]) -> None:
    """Pieces of one token are decodes, longer ones are prefill chunks: all mixed."""
    ids, expected = truth(name, dtype, seed)
    model = model_of(name, dtype)
    state = model.new_state(capacity=4)  # grows on the way
    seen = 0
    for size in pieces:
        piece = ids[seen : seen + size]
        if not len(piece):
            break
        got = model(piece, state=state)
        torch.testing.assert_close(got, expected[seen : seen + size], atol=TOLERANCE[dtype], rtol=0)
        seen += len(piece)


@cases
@given(names, dtypes, st.lists(st.tuples(seeds, st.integers(1, LONGEST)), min_size=1, max_size=5))
@torch.no_grad()
def test_packed_sequences_do_not_see_each_other(name: str, dtype: torch.dtype, parts: list[tuple[int, int]]) -> None:
    ids = torch.cat([truth(name, dtype, seed)[0][:n] for seed, n in parts])
    expected = torch.cat([truth(name, dtype, seed)[1][:n] for seed, n in parts])
    lengths = [n for _, n in parts]
    model = model_of(name, dtype)
    torch.testing.assert_close(model(ids, lengths), expected, atol=TOLERANCE[dtype], rtol=0)
    state = model.new_state(len(parts))
    torch.testing.assert_close(model(ids, lengths, state=state), expected, atol=TOLERANCE[dtype], rtol=0)


@cases
@given(names, dtypes, st.data())
@torch.no_grad()
def test_any_mix_of_decodes_and_prefill(name: str, dtype: torch.dtype, data: st.DataObject) -> None:
    """Three sequences in arbitrary rows advance by arbitrary amounts, decodes and prefill chunks in one batch."""
    model, rows = model_of(name, dtype), 3
    state = model.new_state(rows, capacity=8)
    seen = [0] * rows
    for _ in range(data.draw(st.integers(1, 6))):
        chosen = data.draw(st.permutations(range(rows)).map(lambda p: p[: 1 + p[0]]))
        steps = {row: data.draw(st.sampled_from([1, 1, 2, 9])) for row in chosen}
        steps = {row: n for row, n in steps.items() if seen[row] + n <= LONGEST}
        order = sorted(steps, key=lambda row: not (steps[row] == 1 and seen[row] > 0))  # decodes first
        if not order:
            continue
        ids = torch.cat([truth(name, dtype, row)[0][seen[row] : seen[row] + steps[row]] for row in order])
        expected = torch.cat([truth(name, dtype, row)[1][seen[row] : seen[row] + steps[row]] for row in order])
        got = model(ids, [steps[row] for row in order], state=state, rows=order)
        torch.testing.assert_close(got, expected, atol=TOLERANCE[dtype], rtol=0)
        for row in order:
            seen[row] += steps[row]


@pytest.mark.parametrize("name", ["hybrid", "delta", "both recurrences"])
@torch.no_grad()
def test_a_state_can_be_forked_saved_and_loaded(name: str, tmp_path: Path) -> None:
    model = model_of(name, torch.float64)
    ids, expected = truth(name, torch.float64, 0)
    state = model.new_state()
    model(ids[:20], state=state)

    fork = state.select([0, 0])
    model(torch.tensor([1, 2]), [1, 1], state=fork)  # the copies go their own ways

    state.save(tmp_path / "state.safetensors")
    loaded = DecoderState.load(model.config.decoder, tmp_path / "state.safetensors")
    for memory in (state, loaded):
        torch.testing.assert_close(model(ids[20:], state=memory), expected[20:], atol=1e-9, rtol=0)


@torch.no_grad()
def test_a_state_of_another_model_is_refused(tmp_path: Path) -> None:
    model_of("hybrid", torch.float32).new_state().save(tmp_path / "state.safetensors")
    for other in ("experts", "delta", "both recurrences"):
        with pytest.raises(CheckpointError, match="another model"):
            DecoderState.load(MODELS[other], tmp_path / "state.safetensors")


@torch.no_grad()
def test_keys_and_values_of_another_model_are_refused(tmp_path: Path) -> None:
    """Transformers have no other state, so nothing else tells them apart."""
    model = random_model(preset("tiny-transformer"))
    state = model.new_state()
    model(torch.arange(5), state=state)
    state.save(tmp_path / "state.safetensors")
    assert DecoderState.load(model.config.decoder, tmp_path / "state.safetensors").lengths == [5]
    shorter = replace(model.config.decoder, pattern="*-" * 2)
    with pytest.raises(CheckpointError, match="it was saved by another model"):
        DecoderState.load(shorter, tmp_path / "state.safetensors")


def test_a_file_that_holds_no_state_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a state")
    save_file({"other": torch.ones(1)}, tmp_path / "other")
    for name in ("text", "other", "none"):
        with pytest.raises(CheckpointError, match="is not a file that a state was saved to"):
            DecoderState.load(MODELS["hybrid"], tmp_path / name)


@torch.no_grad()
def test_the_context_limit_is_an_error_not_a_surprise() -> None:
    model = model_of("hybrid", torch.float32)
    with pytest.raises(CapacityError, match="context of 512"):
        model(torch.zeros(513, dtype=torch.long), state=model.new_state())


@torch.no_grad()
def test_last_only_gives_the_last_row_of_each_sequence() -> None:
    model = model_of("hybrid", torch.float64)
    ids = torch.arange(10)
    torch.testing.assert_close(model(ids, [4, 6], last_only=True), model(ids, [4, 6])[[3, 9]])


@torch.no_grad()
def test_bf16_keeps_state_and_decays_in_fp32() -> None:
    model = random_model(tiny(), dtype=torch.bfloat16).eval()
    mixer = model.language_model.backbone.layers[0].mixer
    assert mixer.A_log.dtype == mixer.D.dtype == mixer.dt_bias.dtype == torch.float32  # type: ignore[union-attr]
    assert mixer.in_proj.weight.dtype == torch.bfloat16  # type: ignore[union-attr]
    state = model.new_state()
    assert state.cache.ssm_RLHPN.dtype == torch.float32
    ids = torch.arange(50)
    whole = model(ids).float()
    pieces = torch.cat([model(part, state=state) for part in ids.split(13)]).float()
    assert torch.nn.functional.cosine_similarity(whole, pieces).min() > 0.999


@pytest.mark.parametrize("name", ["hybrid", "transformer", "delta"])
def test_gradients_of_the_training_forward(name: str) -> None:
    """Packed training forward against finite differences, in double precision."""
    config = ModelConfig(MODELS[name])
    model = unsettle(random_model(config)).double()
    picked = [p for name, p in model.named_parameters() if any(k in name for k in ("A_log", "dt_bias", ".D", "q_proj"))]
    embeddings = torch.randn(11, 24, dtype=torch.float64, requires_grad=True)
    from holotron.kernels.layout import Layout

    layout = Layout.build([7, 4])

    def run(x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return model.language_model(x, layout)

    assert torch.autograd.gradcheck(run, (embeddings, *picked), fast_mode=True)
    model.language_model.checkpoint_layers = True
    assert torch.autograd.gradcheck(run, (embeddings, *picked), fast_mode=True)
