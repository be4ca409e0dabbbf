"""The mixture-of-experts layer: against transformers, alone and in company, in 8 bits, under a cast, in training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import Qwen3MoeConfig
from transformers.models.qwen3_5_moe.configuration_qwen3_5_moe import Qwen3_5MoeTextConfig
from transformers.models.qwen3_5_moe.modeling_qwen3_5_moe import Qwen3_5MoeSparseMoeBlock
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

from holotron.engine.weights import WeightLoader
from holotron.kernels.experts import Routing, Stacks, different_sizes, mix, route
from holotron.kernels.layout import Layout
from holotron.model.config import MLPConfig, MoEConfig
from holotron.model.decoder import Decoder
from holotron.model.layers import MoE
from holotron.model.presets import tiny
from holotron.model.weights import load_checkpoint, random_model, save_checkpoint

HIDDEN, WIDTH, EXPERTS = 24, 16, 8
NEMOTRON = MoEConfig(experts=EXPERTS, top_k=3, width=WIDTH, shared_width=32, scale=2.5)
QWEN = MoEConfig(
    experts=EXPERTS, top_k=3, width=WIDTH, shared_width=0, activation="swiglu", scoring="softmax", normalise=False
)
QWEN35 = replace(QWEN, shared_width=20, shared_gate=True, normalise=True)


def layer(config: MoEConfig, dtype: torch.dtype = torch.float32, seed: int = 0) -> MoE:
    made = MoE(HIDDEN, config).to(dtype)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in made.state_dict(keep_vars=True).values():
            noise = torch.randn(tensor.shape, generator=draw, dtype=torch.float64)
            tensor.copy_(noise * (0.2 if tensor.dim() == 1 else tensor.shape[-1] ** -0.5))
    return made


def tokens(count: int, dtype: torch.dtype = torch.float32, seed: int = 1) -> Tensor:
    return torch.randn(count, HIDDEN, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def run(layer: MoE, x: Tensor) -> Tensor:
    return layer(x, Layout.build([len(x)]))


# ------------------------------------------------------------------------------------------------ against transformers


@pytest.mark.parametrize("normalise", [False, True])
@torch.no_grad()
def test_as_qwen3_moe_computes_it(normalise: bool) -> None:
    ours = layer(replace(QWEN, normalise=normalise))
    config = Qwen3MoeConfig(
        hidden_size=HIDDEN, moe_intermediate_size=WIDTH, num_experts=EXPERTS, num_experts_per_tok=3,
        norm_topk_prob=normalise,
    )  # fmt: skip
    theirs = Qwen3MoeSparseMoeBlock(config)
    _give(theirs, ours)
    x = tokens(50)
    torch.testing.assert_close(run(ours, x), theirs(x[None])[0], atol=1e-5, rtol=0)


@torch.no_grad()
def test_as_qwen3_5_moe_computes_it_with_a_gated_shared_expert() -> None:
    ours = layer(QWEN35)
    config = Qwen3_5MoeTextConfig(
        hidden_size=HIDDEN, moe_intermediate_size=WIDTH, num_experts=EXPERTS, num_experts_per_tok=3,
        shared_expert_intermediate_size=20,
    )  # fmt: skip
    theirs = Qwen3_5MoeSparseMoeBlock(config)
    _give(theirs, ours)
    shared = ours.shared_experts
    assert shared is not None and shared.gate_proj is not None and ours.shared_expert_gate is not None
    for name, mine in (("gate_proj", shared.gate_proj), ("up_proj", shared.up_proj), ("down_proj", shared.down_proj)):
        getattr(theirs.shared_expert, name).weight.copy_(mine.weight)
    theirs.shared_expert_gate.weight.copy_(ours.shared_expert_gate.weight)
    x = tokens(50)
    torch.testing.assert_close(run(ours, x), theirs(x[None])[0], atol=1e-5, rtol=0)


def _give(theirs: torch.nn.Module, ours: MoE) -> None:
    """Router and experts; they keep gate and up in one tensor."""
    assert ours.experts.gate_proj is not None
    theirs.gate.weight.copy_(ours.gate.weight)
    theirs.experts.gate_up_proj.copy_(torch.cat([ours.experts.gate_proj, ours.experts.up_proj], dim=1))
    theirs.experts.down_proj.copy_(ours.experts.down_proj)


# ----------------------------------------------------------------------------------------------- the specification


def token_by_token(x: Tensor, chosen: Tensor, weight: Tensor, stacks: Stacks) -> Tensor:
    """The definition, written down once more."""
    up, down, gate = stacks
    assert isinstance(up, Tensor)
    assert isinstance(down, Tensor)
    rows = []
    for t in range(len(x)):
        total = torch.zeros_like(x[t])
        for j, expert in enumerate(chosen[t].tolist()):
            h = up[expert] @ x[t]
            g = torch.nn.functional.silu(gate[expert] @ x[t]) if isinstance(gate, Tensor) else h.relu()
            total = total + weight[t, j] * (down[expert] @ (g * (h if isinstance(gate, Tensor) else h.relu())))
        rows.append(total)
    return torch.stack(rows)


@settings(max_examples=40)
@given(
    st.integers(1, 9), st.integers(1, 4), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 2**31)
)  # fmt: skip
def test_experts_are_what_their_definition_says(
    count: int, top_k: int, gated: bool, softmax: bool, one: bool, seed: int
) -> None:
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    x, logits = normal(count, 6), normal(count, 5)
    if one:
        logits = logits[:1].expand(count, 5)  # all tokens to the same experts, the others have none
    routing = Routing(top_k, "softmax" if softmax else "sigmoid")
    chosen, weight = route(logits, None if softmax else normal(5), routing)
    assert (weight.sum(-1) - 1).abs().max() < 1e-12
    stacks = Stacks(normal(5, 7, 6), normal(5, 6, 7), normal(5, 7, 6) if gated else None)
    torch.testing.assert_close(
        mix(x, chosen, weight, stacks), token_by_token(x, chosen, weight, stacks), rtol=1e-10, atol=1e-10
    )


def test_equal_scores_choose_the_first_and_groups_come_before_experts() -> None:
    chosen, _ = route(torch.zeros(1, 8), None, Routing(3))
    assert chosen.tolist() == [[0, 1, 2]]
    # The best single expert sits in a group whose best two together are not the best.
    logits = torch.tensor([[3.0, -9, 2, 2, -9, -9, 0, 0]])
    chosen, _ = route(logits, None, Routing(2, groups=4, top_groups=1))
    assert chosen.tolist() == [[2, 3]]


@pytest.mark.parametrize("config", [NEMOTRON, QWEN35], ids=["relu2", "swiglu"])
def test_gradients(config: MoEConfig) -> None:
    made, x = layer(config, torch.float64), tokens(5, torch.float64)
    parameters = list(made.parameters())

    def function(x: Tensor, *values: Tensor) -> Tensor:
        named = dict(zip((name for name, _ in made.named_parameters()), values, strict=True))
        return torch.func.functional_call(made, named, (x, Layout.build([len(x)])))

    some = [p.detach().clone().requires_grad_() for p in parameters]
    assert torch.autograd.gradcheck(function, [x.requires_grad_(), *some], fast_mode=True)


@pytest.mark.parametrize("config", [NEMOTRON, QWEN, QWEN35], ids=["nemotron", "qwen3", "qwen3.5"])
@torch.no_grad()
def test_a_token_gets_among_others_what_it_gets_alone(config: MoEConfig) -> None:
    made, x = layer(config, torch.float64), tokens(40, torch.float64)
    alone = torch.cat([run(made, x[t : t + 1]) for t in range(len(x))])
    torch.testing.assert_close(run(made, x), alone, rtol=1e-13, atol=1e-13)


def test_a_rehearsal_meets_every_kernel() -> None:
    pytest.importorskip("triton")
    from holotron.kernels.experts.triton import tilings

    for experts, top_k, most in ((128, 6, 2048), (256, 8, 8192), (8, 3, 64)):
        met = {tilings(count * top_k, experts, True) for count in different_sizes(experts, top_k, most)}
        assert met == {tilings(count * top_k, experts, True) for count in range(1, most + 1)}
    layer(NEMOTRON).rehearse(64)


# -------------------------------------------------------------------------------------------------------- casts, 8 bits


def test_a_cast_leaves_the_bias_of_the_router_in_full() -> None:
    made = layer(NEMOTRON)
    before = made.gate.e_score_correction_bias
    assert before is not None
    after = made.to(torch.bfloat16).gate.e_score_correction_bias
    assert after is not None and after.dtype == torch.float32
    assert torch.equal(before, after)


@pytest.mark.parametrize("config", [NEMOTRON, QWEN35, replace(NEMOTRON, latent=16)], ids=["relu2", "swiglu", "latent"])
@torch.no_grad()
def test_in_eight_bits_the_same_up_to_their_rounding(config: MoEConfig) -> None:
    made, x = layer(config).to(torch.bfloat16), tokens(64).to(torch.bfloat16)
    wide = run(made, x).float()
    decoder = replace(tiny().decoder, pattern="E", hidden=HIDDEN, moe=config)
    holder = Decoder(decoder).to(torch.bfloat16)
    holder.backbone.layers[0].mixer = made
    holder.quantize()
    assert made.experts.quantized and made.experts.up_proj.dtype == torch.float8_e4m3fn
    narrow = run(made, x)
    assert narrow.dtype == torch.bfloat16
    off = (narrow.float() - wide).norm() / wide.norm()
    assert 1e-3 < off < 0.08


@torch.no_grad()
def test_new_weights_for_experts_in_eight_bits_are_rounded_in_place() -> None:
    config = replace(tiny(), decoder=replace(tiny().decoder, pattern="ME*", moe=NEMOTRON))
    model, other = random_model(config, seed=0).eval(), random_model(config, seed=1).eval()
    model.language_model.quantize()
    experts = model.language_model.backbone.layers[1].mixer.experts
    address = experts.up_proj.data_ptr()
    WeightLoader(model).load(dict(other.named_parameters()))
    other.language_model.quantize()
    ids = torch.arange(20)
    assert experts.up_proj.data_ptr() == address
    assert torch.equal(model(ids), other(ids))


# ------------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("change", [lambda moe: moe, lambda moe: replace(moe, latent=16)], ids=["plain", "latent"])
@torch.no_grad()
def test_saved_and_loaded_it_is_the_same(change: Callable[[MoEConfig], MoEConfig], tmp_path: Path) -> None:
    decoder = replace(tiny().decoder, pattern="ME*-", mlp=MLPConfig(32), moe=change(NEMOTRON))
    model = random_model(replace(tiny(), decoder=decoder)).eval()
    save_checkpoint(model, tmp_path)
    again = load_checkpoint(tmp_path)
    ids = torch.arange(30)
    assert torch.equal(model(ids), again(ids))
