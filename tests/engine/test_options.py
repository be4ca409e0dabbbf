"""Fewer bytes: 8-bit projections, 8-bit keys and values, states written now and then. What they cost and weigh."""

from __future__ import annotations

import copy

import pytest
import torch

from holotron.engine.api import EngineConfig
from holotron.engine.core import Core
from holotron.engine.plan import Planner
from holotron.errors import ConfigError
from holotron.model.layers import Projection
from holotron.model.model import Holotron
from holotron.model.processor import normalise
from tests.engine.support import Asked, assert_greedy, image_log, logits_alone, make_tile, micro_model, settings
from tests.engine.test_scheduling import ask, greedy
from tests.engine.test_sessions import words

FP8 = "float8_e4m3fn"


def fresh(kind: str = "hybrid") -> Holotron:
    return copy.deepcopy(micro_model(kind, torch.float32))


def test_projections_in_8_bits_say_nearly_the_same() -> None:
    plain, model = fresh(), fresh()
    core = Core(model, settings(weight_dtype=FP8))
    projections = [module for module in model.language_model.modules() if isinstance(module, Projection)]
    assert len(projections) == 2 * 2 + 2
    assert all(module.weight.dtype == torch.float8_e4m3fn for module in projections)
    assert model.language_model.lm_head.weight.dtype == torch.float32
    log = words(40)
    exact, rounded = logits_alone(plain, log), logits_alone(model, log)
    # Sums over 16 inputs average little of the rounding (3 % of each factor) away.
    assert 0 < (exact - rounded).norm() / exact.norm() < 0.2
    asked = ask(core, "s", log, 5)
    result = asked.finished(core)
    assert len(result.tokens) == 5
    # The engine's pieces and batches round token by token, so they say what the rounded network alone says.
    alone = logits_alone(model, asked.request.sequence.log)[-6:-1].log_softmax(-1)
    said = alone.gather(-1, torch.tensor(result.tokens)[:, None])[:, 0]
    assert said.tolist() == pytest.approx(result.logprobs, abs=0.05)


def test_new_weights_are_rounded_as_the_first_were() -> None:
    model, other = fresh(), fresh()
    core = Core(model, settings(weight_dtype=FP8))
    generator = torch.Generator().manual_seed(3)
    changed = {
        name: parameter + 0.1 * torch.randn(parameter.shape, generator=generator)
        for name, parameter in other.named_parameters()
        if parameter.dim() > 1
    }
    core.update_weights(changed, "refresh")
    other.load_state_dict(changed, strict=False)
    other.language_model.quantize()
    torch.testing.assert_close(logits_alone(model, words(20)), logits_alone(other, words(20)), rtol=0, atol=0)


def test_a_tower_in_8_bits_sees_nearly_the_same_and_the_engine_what_it_sees_alone() -> None:
    plain, model = fresh(), fresh()
    core = Core(model, settings(vision_dtype=FP8, token_budget=16))
    assert plain.vision_model is not None and plain.mlp1 is not None
    products = [m for part in (model.vision_model, model.mlp1) for m in part.modules() if isinstance(m, Projection)]  # type: ignore[union-attr]
    assert len(products) == 4 + 2
    assert all(module.weight.dtype == torch.float8_e4m3fn for module in products)
    decoder = [module for module in model.language_model.modules() if isinstance(module, Projection)]
    assert not any(module.quantized for module in decoder)
    tiles = torch.stack([normalise(make_tile(n).pixels, model.config.image) for n in range(5)])
    with torch.inference_mode():
        exact, rounded = plain.encode_tiles(tiles), model.encode_tiles(tiles)
        alone = torch.cat([model.encode_tiles(tile[None]) for tile in tiles])
    assert rounded.dtype == exact.dtype and rounded.shape == exact.shape
    assert 0 < (exact - rounded).norm() / exact.norm() < 0.2  # sums over 8 and 16 inputs average little away
    torch.testing.assert_close(rounded, alone, rtol=1e-2, atol=1e-2)  # rows are rounded by themselves
    sequence = core.sessions.open("s")
    for n in (3, 1):
        core.sessions.append(sequence, image_log(make_tile(n)))
    Asked(core, sequence).finished(core)
    assert_greedy(model, sequence.log, 4)
    weights = {"vision_model.radio_model.model.blocks.0.attn.qkv.weight": torch.randn(24, 8), "mlp1.1.weight": None}
    weights["mlp1.1.weight"] = torch.randn_like(plain.mlp1[1].weight)
    core.update_weights(weights, "refresh")
    plain.load_state_dict(weights, strict=False)
    plain.quantize_vision()
    with torch.inference_mode():
        torch.testing.assert_close(model.encode_tiles(tiles), plain.encode_tiles(tiles), rtol=0, atol=0)
    with pytest.raises(ConfigError, match="no RADIO tower"):
        Core(fresh("qwen3.5"), settings(vision_dtype=FP8))


def test_keys_and_values_in_8_bits_say_nearly_the_same() -> None:
    model = fresh("attention")
    core = Core(model, settings(kv_dtype=FP8))
    assert core.pools.cache.kv_ZL2zkD.dtype == torch.float8_e4m3fn
    asked = ask(core, "s", words(40), 5)
    result = asked.finished(core)
    alone = logits_alone(model, asked.request.sequence.log)[-6:-1].log_softmax(-1)
    said = alone.gather(-1, torch.tensor(result.tokens)[:, None])[:, 0]
    assert said.tolist() == pytest.approx(result.logprobs, abs=0.3)


def test_the_ring_is_part_of_what_a_session_remembers() -> None:
    """Forked, swapped out and back in the middle of a ring."""
    core = Core(fresh(), settings(replay=True, kv_tokens=64, state_rows=2, max_running=1))
    asked = ask(core, "s", words(10), 5)
    asked.finished(core)
    sequence = asked.request.sequence
    assert core.pools.cache.replay is not None
    assert int(core.pools.cache.replay.count_R[sequence.memory.row]) == 4
    [twin] = core.sessions.fork(sequence, ["twin"])
    for n in range(3):
        ask(core, f"other-{n}", words(20, n + 2), 3).finished(core)
    assert core.stats().blocks_to_host > 0
    replies = [Asked(core, one, greedy(20)).finished(core) for one in (sequence, twin)]
    assert replies[0].tokens == replies[1].tokens
    reference = Core(fresh(), settings())
    plain = ask(reference, "s", words(10), 25).finished(reference)
    assert plain.tokens[5:] == replies[0].tokens


@pytest.mark.parametrize(
    "options",
    [{"weight_dtype": FP8}, {"vision_dtype": FP8}, {"replay": True}, {"kv_dtype": FP8}, {"graphs": True}],
)
def test_the_plan_knows_the_options(options: dict) -> None:
    model = fresh()
    base = EngineConfig(page_size=16, **options)
    planner = Planner(model.config, torch.float32, base)
    plan, config = planner.plan(sessions=5, context=100), planner.sized(5, 100)
    core = Core(model, config)
    cache, extra = core.pools.cache, core.pools.padding is not None
    assert plan.state + extra * planner.row_bytes == sum(tensor.nbytes for tensor in cache.row_tensors)
    assert plan.kv + extra * planner.page_bytes == cache.kv_ZL2zkD.nbytes
    assert plan.weights == sum(t.nbytes for t in {*model.parameters(), *model.buffers()})
    assert plan.graphs > 0


def test_an_unknown_type_is_refused() -> None:
    for name in ("weight_dtype", "vision_dtype"):
        with pytest.raises(ConfigError, match=name):
            EngineConfig(**{name: "int4"})
