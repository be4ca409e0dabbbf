"""Every spelling of `config.json` that published files use, and clear words about those that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holotron.errors import ConfigError
from holotron.model.families import load_config, parse_config

LLM: dict[str, Any] = {
    "model_type": "nemotron_h",
    "hidden_size": 64,
    "vocab_size": 300,
    "num_hidden_layers": 4,
    "hybrid_override_pattern": "M*-E",
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "mamba_num_heads": 8,
    "mamba_head_dim": 16,
    "ssm_state_size": 16,
    "n_groups": 2,
    "conv_kernel": 4,
    "chunk_size": 32,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n_groups", "mamba_n_groups"),
        ("n_groups", "mamba_num_groups"),
        ("conv_kernel", "mamba_d_conv"),
        ("chunk_size", "mamba_chunk_size"),
        ("head_dim", "attention_head_dim"),
    ],
)
def test_both_spellings_mean_the_same(old: str, new: str) -> None:
    renamed = {new if key == old else key: value for key, value in LLM.items()}
    assert parse_config(renamed).decoder == parse_config(LLM).decoder


def test_pattern_as_a_list_of_block_types() -> None:
    listed = {k: v for k, v in LLM.items() if k != "hybrid_override_pattern"}
    for kinds in (["mamba", "attention", "mlp", "moe"], ["linear_attention", "full_attention", "mlp", "moe"]):
        assert parse_config({**listed, "layers_block_type": kinds}).decoder.pattern == "M*-E"


@pytest.mark.parametrize("nest", ["llm_config", "text_config"])
def test_nesting_under_either_name(nest: str) -> None:
    config = parse_config(
        {nest: LLM, "vision_config": {"args": {"model": "vit_huge_patch16_224"}}, "projector_hidden_size": 20480}
    )
    assert config.decoder == parse_config(LLM).decoder
    assert config.vision is not None
    assert (config.vision.hidden, config.vision.layers, config.vision.grid, config.vision.prefix) == (1280, 32, 128, 16)
    assert config.vision.align_corners
    assert config.tokens.image == 131_072


def test_dynamic_resolution_marks_the_next_generation() -> None:
    arguments = {"model": "vit_huge_patch16_224", "min_num_patches": 1024, "max_num_patches": 13312}
    config = parse_config({"llm_config": LLM, "vision_config": {"args": arguments}})
    assert config.vision is not None
    assert not config.vision.align_corners
    assert config.vision.prefix == 10
    assert config.image.dynamic


def test_expand_is_ignored_and_heads_decide() -> None:
    assert parse_config({**LLM, "expand": 7}).decoder.mamba.inner == 128  # type: ignore[union-attr]


def test_tolerant_reading_of_the_published_file(tmp_path: Path) -> None:
    text = (
        '{"time_step_limit": [0.0, Infinity], "x": NaN, "note": "a, ]",'
        + ",".join(f'"{key}": {value!r}'.replace("'", '"') for key, value in LLM.items())
        + ",}"
    )
    (tmp_path / "config.json").write_text(text)
    config = load_config(tmp_path)
    assert config.decoder.pattern == "M*-E"
    assert config.raw is not None
    assert config.raw["note"] == "a, ]"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"hybrid_override_pattern": "M*X-"}, "letters M - \\* E"),
        ({"hybrid_override_pattern": "M*-"}, "3 letters, num_hidden_layers says 4"),
        ({"hybrid_override_pattern": None}, "lacks hybrid_override_pattern"),
        ({"hybrid_override_pattern": None, "layers_block_type": ["mamba", "rwkv"]}, "rwkv"),
        ({"hidden_size": None}, "lacks hidden_size"),
        ({"hidden_size": -5}, "positive whole number"),
        ({"hidden_size": "64"}, "positive whole number"),
        ({"mlp_hidden_act": "gelu"}, "gelu"),
        ({"n_groups": 3}, "3 groups"),
        ({"num_key_value_heads": 3}, "evenly"),
        ({"intermediate_size": [128, 64]}, "different widths"),
        ({"use_bias": True}, "biases"),
        ({"mamba_hidden_act": "gelu"}, 'mamba_hidden_act "gelu"'),
        ({"hybrid_override_pattern": "M*ME", "mlp_hidden_act": "silu"}, 'mlp_hidden_act "silu"'),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_config({**LLM, **change})


def test_broken_files_name_the_place(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"a": 1\n "b": 2}')
    with pytest.raises(ConfigError, match="line 2, column 2"):
        load_config(tmp_path)
    file.write_text("[1]")
    with pytest.raises(ConfigError, match="JSON object, found list"):
        load_config(tmp_path)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_config(tmp_path)
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(tmp_path / "nowhere.json")


def test_qwen3_rope_parameters_in_both_places() -> None:
    qwen = {
        "model_type": "qwen3",
        "hidden_size": 64,
        "vocab_size": 100,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 128,
    }
    old = parse_config({**qwen, "rope_theta": 5e5}).decoder
    new = parse_config({**qwen, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}).decoder
    assert old == new
    assert old.pattern == "*-*-"
    with pytest.raises(ConfigError, match="yarn"):
        parse_config({**qwen, "rope_parameters": {"rope_type": "yarn"}})
    with pytest.raises(ConfigError, match='hidden_act "gelu"'):
        parse_config({**qwen, "hidden_act": "gelu"})
    window = {"use_sliding_window": True, "sliding_window": 8}
    with pytest.raises(ConfigError, match="use_sliding_window"):
        parse_config({**qwen, **window})
    seen = [{"sliding_window": 8, "max_window_layers": 1}, {**window, "layer_types": ["full_attention"] * 2}]
    assert all(parse_config({**qwen, **whole}).decoder.pattern == "*-*-" for whole in seen)
