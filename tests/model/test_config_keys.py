"""Keys of `config.json` that change what is computed: each is followed as transformers follows it, or refused by name.

They were found by giving every key of transformers' configurations other values and comparing logits.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import transformers

from holotron.errors import ConfigError
from holotron.model.config import ModelConfig, MoEConfig
from holotron.model.families import dump_config, parse_config
from holotron.model.presets import preset

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}


def described(name: str, **changes: Any) -> dict[str, Any]:
    """What a preset's config.json says, with changes one or two levels deep; None takes a key away."""
    data: dict[str, Any] = json.loads(json.dumps(dump_config(preset(name))))
    for key, value in changes.items():
        data[key] = data[key] | value if isinstance(value, dict) and isinstance(data.get(key), dict) else value
        if isinstance(data[key], dict):
            data[key] = {k: v for k, v in data[key].items() if v is not None}
    return data


# ----------------------------------------------------------------------------------------------------------- rotation

ROPES: list[dict[str, Any]] = [
    {"rope_theta": 77.0, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
    {"rope_theta": 77.0, "rope_parameters": {"rope_type": "default"}},
    {"rope_theta": 77.0},
    {"rope_scaling": {"type": "default", "rope_theta": 9.0}},
    {"rope_scaling": {}, "rope_parameters": {"rope_theta": 500.0}},
    {"rope_parameters": {"rope_theta": 500.0, "partial_rotary_factor": 0.5}, "partial_rotary_factor": 1.0},
    {"partial_rotary_factor": 0.5},
    {},
]


@pytest.mark.parametrize("said", ROPES, ids=str)
def test_rotation_is_read_as_transformers_reads_it(said: dict[str, Any]) -> None:
    silent = dict.fromkeys(["rope_theta", "rope_scaling", "rope_parameters"])
    theirs = transformers.Qwen3_5TextConfig(head_dim=32, **json.loads(json.dumps(said))).rope_parameters
    read = parse_config(described("tiny-qwen3.5", text_config={**silent, "head_dim": 32, **said})).decoder.attention
    assert read is not None
    assert (read.rope_theta, read.rotary_dim) == (theirs["rope_theta"], int(32 * theirs["partial_rotary_factor"]))
    if "partial_rotary_factor" not in str(said):
        vl = parse_config(described("tiny-qwen3-vl", text_config={**silent, **said})).decoder.attention
        text = {**described("tiny-transformer", rope_theta=None), **said}
        theirs_vl, theirs_text = transformers.Qwen3VLTextConfig(**said), transformers.Qwen3Config(**said)
        plain = parse_config({k: v for k, v in text.items() if v is not None}).decoder.attention
        assert vl is not None and vl.rope_theta == theirs_vl.rope_parameters["rope_theta"]
        assert plain is not None and plain.rope_theta == theirs_text.rope_parameters["rope_theta"]


def test_heads_of_qwen3_are_as_wide_as_their_class_says() -> None:
    """Where the file does not: that is no part of the hidden width."""
    read = parse_config(described("tiny-transformer") | {"head_dim": None}).decoder.attention
    assert read is not None and read.head_dim == transformers.Qwen3Config().head_dim


# ------------------------------------------------------------------------------------------------------ what is refused

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a context that somebody stretched": (
        "tiny-qwen3.5",
        {"text_config": {"rope_scaling": YARN}},
        "rope_scaling: rope_type 'yarn' is not supported",
    ),
    "two rotations": (
        "tiny-qwen3.5",
        {"text_config": {"rope_scaling": {"rope_type": "default", "rope_theta": 5.0}}},
        "rope_scaling and rope_parameters say different things",
    ),
    "a part of each head": ("tiny-qwen3-vl", {"text_config": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
    "M-RoPE in blocks": (
        "tiny-qwen3-vl",
        {"text_config": {"rope_scaling": {"rope_type": "default", "mrope_interleaved": False}}},
        "mrope_interleaved false is not supported",
    ),
    "a tower's base beside its section": (
        "tiny-qwen3-vl",
        {"vision_config": {"rope_theta": 5.0}},
        "rope_theta must be",
    ),
    "a tower's head size": ("tiny-qwen3-vl", {"vision_config": {"head_dim": 4}}, "head_dim 4 is not supported"),
    "a tower's heads twice": ("tiny-qwen3-vl", {"vision_config": {"num_attention_heads": 1}}, "num_attention_heads 1"),
    "scaled layers of a tower": ("tiny", {"vision_config": {"layerscale_value": 0.5}}, "layerscale_value 0.5"),
    "limited steps": ("tiny", {"llm_config": {"time_step_limit": [0.001, 0.1]}}, r"time_step_limit \[0.001, 0.1\]"),
    "a decoder that sees the future": ("tiny", {"llm_config": {"is_causal": False}}, "is_causal false is not"),
    "the same of Qwen3": ("tiny-transformer", {"is_causal": False}, "is_causal false is not supported"),
    "the same of Qwen3-VL": ("tiny-qwen3-vl", {"text_config": {"is_causal": False}}, "is_causal false is not"),
    "the same of Qwen3.5": ("tiny-qwen3.5", {"text_config": {"is_causal": False}}, "is_causal false is not"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_computes_something_else_is_refused_by_name(what: str) -> None:
    name, changes, message = REFUSED[what]
    with pytest.raises(ConfigError, match=message):
        parse_config(described(name, **changes))


@pytest.mark.parametrize("most", [math.inf, {"__float__": "Infinity"}])
def test_steps_without_limits(most: Any) -> None:
    """The second is how transformers 5 writes what JSON has no word for."""
    parse_config(described("tiny", llm_config={"time_step_limit": [0.0, most]}))


@pytest.mark.parametrize(
    ("groups", "top_groups", "top_k", "message"),
    [
        (3, 1, 2, "8 experts in 3 groups"),
        (8, 2, 2, "two experts at least"),
        (2, 3, 2, "of which 3 are chosen"),
        (4, 1, 3, "3 experts to a token, and only 2 of 8"),
        (1, 1, 9, "9 experts to a token, and only 8 of 8"),
    ],
)
def test_a_choice_of_experts_that_cannot_be_made(groups: int, top_groups: int, top_k: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MoEConfig(8, top_k, width=4, shared_width=4, groups=groups, top_groups=top_groups)


# ------------------------------------------------------------------------------------------------ left out, and at odds


def test_a_tower_that_does_not_say_all_its_sizes() -> None:
    """What transformers' class has then; pictures are cut for the tower in any case."""
    full = parse_config(described("tiny-qwen3-vl"))
    silent = {"spatial_merge_size": None, "deepstack_visual_indexes": None, "depth": None, "num_hidden_layers": 30}
    config = parse_config(described("tiny-qwen3-vl", vision_config=silent, text_config={"num_hidden_layers": 9}))
    assert config.vision is not None and full.vision is not None
    assert config.vision == replace(full.vision, layers=30, deepstack=(8, 16, 24))  # type: ignore[arg-type]
    assert config.image == full.image
    with pytest.raises(ConfigError, match=r"vision tower reads patches of 8 pixels.*cut for 4"):
        replace(full, image=replace(full.image, patch_size=4))


def test_a_picture_may_be_token_zero() -> None:
    tokens = parse_config(described("tiny-qwen3-vl", image_token_id=0, vision_start_token_id=None)).tokens
    assert (tokens.image, tokens.image_start, tokens.image_end) == (0, 1, 258)


def test_a_text_model_of_a_composite_sees_no_pictures(tmp_path: Path) -> None:
    """Trainers copy the processor's files along."""
    from holotron.model.loading import load_model
    from tests.model.folders import tiny_folder

    folder = tiny_folder(tmp_path, "tiny-transformer")
    (folder / "preprocessor_config.json").write_text(json.dumps({"merge_size": 2, "patch_size": 16}))
    model, processor = load_model(folder, device="cpu")
    assert isinstance(model.config, ModelConfig) and model.config.vision is None
    assert processor.images is None
