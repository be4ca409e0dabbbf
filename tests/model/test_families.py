"""Families: every file belongs to one of them at most, and each can be told, read and written in one place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from holotron.errors import ConfigError
from holotron.model.config import ModelConfig
from holotron.model.families import (
    FAMILIES,
    agent_defaults,
    dump_config,
    families,
    family,
    family_of,
    parse_config,
    recognise,
)
from holotron.model.families.base import AgentDefaults, Family
from holotron.model.families.nemotron_h import NemotronH
from holotron.model.model import Holotron
from holotron.model.presets import PRESETS, preset
from holotron.model.weights.names import entries
from tests.model.test_config import LLM

TILES = {"args": {"model": "vit_huge_patch16_224"}}
DYNAMIC = {"args": {"model": "vit_huge_patch16_224", "min_num_patches": 1024, "max_num_patches": 13312}}

FILES: list[tuple[str | None, dict[str, Any]]] = [
    ("nemotron_h", LLM),
    ("nemotron_h", {"architectures": ["NemotronHForCausalLM"], "hybrid_override_pattern": "M*"}),
    ("nemotron_h", {"hybrid_override_pattern": "M*"}),
    ("nemotron_vl", {"model_type": "NemotronH_Nano_VL_V2", "llm_config": LLM, "vision_config": TILES}),
    ("nemotron_vl", {"llm_config": LLM, "vision_config": TILES}),
    ("nemotron_omni", {"model_type": "NemotronH_Nano_VL_V2", "llm_config": LLM, "vision_config": DYNAMIC}),
    ("nemotron_omni", {"model_type": "NemotronH_Nano_Omni_Reasoning_V3", "llm_config": LLM, "vision_config": TILES}),
    ("nemotron_omni", {"model_type": "nemotron_h_omni", "text_config": LLM, "vision_config": {"model_type": "radio"}}),
    ("qwen3", {"model_type": "qwen3"}),
    ("qwen3", {"architectures": ["Qwen3ForCausalLM"]}),
    ("qwen3_vl", {"model_type": "qwen3_vl", "text_config": {"model_type": "qwen3_vl_text"}}),
    ("qwen3_vl", {"model_type": "qwen3_vl_moe", "architectures": ["Qwen3VLMoeForConditionalGeneration"]}),
    ("qwen3_5", {"model_type": "qwen3_5_moe_text"}),
    ("qwen3_5", {"model_type": "qwen3_5_moe_text", "architectures": ["Qwen3_5MoeForConditionalGeneration"]}),
    ("qwen3_5", {"model_type": "qwen3_5", "architectures": ["Qwen3_5ForCausalLM"], "hidden_size": 8}),
    ("qwen3_5_vl", {"model_type": "qwen3_5", "text_config": {"model_type": "qwen3_5_text"}}),
    ("qwen3_5_vl", {"model_type": "qwen3_5_moe", "architectures": ["Qwen3_5MoeForConditionalGeneration"]}),
    (None, {"model_type": "qwen4_exp", "hybrid_override_pattern": "M*"}),
    (None, {"model_type": "qwen2_5_vl", "text_config": {"hidden_size": 8}}),
    (None, {"llm_config": {"model_type": "qwen3"}}),
    (None, {}),
]


@pytest.mark.parametrize(("name", "data"), FILES)
def test_a_file_belongs_to_one_family_or_to_none(name: str | None, data: dict[str, Any]) -> None:
    assert [each.name for each in families() if each.recognises(data)] == ([name] if name else [])


def test_an_unknown_family_is_named_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match=r"some/config.json.*'qwen4_exp'.*nemotron_h.*qwen3"):
        parse_config({"model_type": "qwen4_exp"}, "some/config.json")
    with pytest.raises(ConfigError, match="nemotron_omni"):
        family("nemotron_onni")


@pytest.mark.parametrize("name", PRESETS)
def test_names_go_both_ways(name: str) -> None:
    """Every parameter has a key of its own, which leads back to it; and what is written is recognised."""
    config = preset(name)
    decoder = config.decoder
    if decoder.moe:
        config = replace(config, decoder=replace(decoder, moe=replace(decoder.moe, experts=8)))
    with torch.device("meta"):
        found = entries(Holotron(config))
    assert len({entry.key for entry in found}) == len(found)
    assert recognise(dump_config(config)) is family_of(config)


@pytest.fixture
def mine() -> Iterator[type[Family]]:
    class Mine(NemotronH):
        name = "mine"
        model_types = ("mine",)
        agents = (AgentDefaults("my-holotron", "tools", history="append"),)

        def recognises(self, data: Mapping[str, Any]) -> bool:
            return data.get("model_type") == "mine"

        def read(self, data: Mapping[str, Any], where: str, preprocessor: Any = None) -> ModelConfig:
            return replace(super().read(data, where), name="read by me")

    FAMILIES.register("mine")(Mine)
    yield Mine
    del FAMILIES._known["mine"]
    family.cache_clear()


def test_a_family_from_outside_is_a_family(mine: type[Family]) -> None:
    config = parse_config({**LLM, "model_type": "mine"})
    assert (config.family, config.name) == ("mine", "read by me")
    assert isinstance(family_of(config), mine)
    known = agent_defaults("me/My-Holotron-7B")
    assert known is not None and known.dialect == "tools"


def test_the_most_particular_name_counts() -> None:
    for name, dialect in {
        "holotron-mini": "compact",
        "Hcompany/Holotron-12B": "holotron",
        "holo1-7b": "surfer",
    }.items():
        known = agent_defaults(name)
        assert known is not None and known.dialect == dialect
    assert agent_defaults("somebody/else") is None
    hosted = agent_defaults("o3-mini")
    assert hosted is not None and hosted.dialect == "tools"


def test_a_family_of_hosted_models_loads_nothing() -> None:
    with pytest.raises(ConfigError, match="only reached by URL"):
        family("hosted").read({}, "config.json")
