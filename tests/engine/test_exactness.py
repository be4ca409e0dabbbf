"""Whatever happens to a session, and whoever else is served beside it, it says what the network alone would say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from holotron.engine.api import EngineConfig
from holotron.engine.core import Core
from tests.engine.schedules import NAMES, Operation, World
from tests.engine.support import micro_model, settings

NUMBER = st.integers(0, 1000)
OPERATIONS = st.lists(st.tuples(st.sampled_from(NAMES), NUMBER, NUMBER, NUMBER), min_size=6, max_size=40)
CONFIGS = st.builds(
    settings,
    page_size=st.sampled_from([1, 4, 16]),
    kv_tokens=st.sampled_from([128, 200, 2000]),
    state_rows=st.sampled_from([2, 3, 6, 40]),
    max_running=st.sampled_from([1, 3, 8]),
    token_budget=st.sampled_from([8, 11, 64]),
    expected_tokens=st.sampled_from([1, 16]),
    host_bytes=st.sampled_from([0, 3000, 1 << 30]),
    prefix_cache_bytes=st.sampled_from([0, 3000, None]),
    vision_cache_bytes=st.sampled_from([0, 1 << 20]),
    overlap=st.booleans(),
    graphs=st.booleans(),
)
THOROUGH: dict[str, Any] = {"derandomize": True, "suppress_health_check": list(HealthCheck)}


def play(kind: str, dtype: torch.dtype, tolerance: float, config: EngineConfig, operations: list[Operation]) -> Core:
    core = Core(micro_model(kind, dtype), config)
    world = World(core, tolerance)
    world.run(operations)
    world.tear_down()
    return core


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hybrid", "attention", "mamba", "sparse"])
@examples(max_examples=130, **THOROUGH)
@given(config=CONFIGS, operations=OPERATIONS)
def test_any_schedule_says_what_the_network_alone_says(
    kind: str, config: EngineConfig, operations: list[Operation]
) -> None:
    play(kind, torch.float64, 0.0, config, operations)


@pytest.mark.slow
@examples(max_examples=30, **THOROUGH)
@given(config=CONFIGS, operations=OPERATIONS)
def test_with_experts_too(config: EngineConfig, operations: list[Operation]) -> None:
    play("experts", torch.float64, 0.0, config, operations)


@pytest.mark.slow
@examples(max_examples=60, **THOROUGH)
@given(config=CONFIGS, replay=st.booleans(), operations=OPERATIONS)
def test_in_single_precision_too_up_to_near_ties(
    config: EngineConfig, replay: bool, operations: list[Operation]
) -> None:
    play("hybrid", torch.float32, 1e-4, replace(config, replay=replay), operations)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hybrid", "attention"])
@examples(max_examples=40, **THOROUGH)
@given(config=CONFIGS, host_bytes=st.sampled_from([0, 2000, 10_000]), operations=OPERATIONS)
def test_with_next_to_no_memory_requests_may_fail_but_none_says_anything_wrong(
    kind: str, config: EngineConfig, host_bytes: int, operations: list[Operation]
) -> None:
    play(kind, torch.float64, 0.0, replace(config, host_bytes=host_bytes), operations)


@pytest.mark.slow
@examples(max_examples=60, **THOROUGH)
@given(config=CONFIGS, host_bytes=st.sampled_from([0, 10_000, 1 << 30]), operations=OPERATIONS)
def test_the_states_of_gated_deltanet_fare_no_worse(
    config: EngineConfig, host_bytes: int, operations: list[Operation]
) -> None:
    play("delta", torch.float64, 0.0, replace(config, host_bytes=host_bytes), operations)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["qwen3-vl", "qwen3.5"])
@examples(max_examples=20, **THOROUGH)
@given(config=CONFIGS, host_bytes=st.sampled_from([10_000, 1 << 30]), operations=OPERATIONS)
def test_positions_in_three_axes_and_deepstack_follow_the_log(
    kind: str, config: EngineConfig, host_bytes: int, operations: list[Operation]
) -> None:
    play(kind, torch.float64, 0.0, replace(config, host_bytes=host_bytes), operations)
