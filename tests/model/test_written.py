"""Checkpoints that others wrote, and that others will read: what theirs carry beyond ours, what they look for."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from holotron.model.config import VisionConfig
from holotron.model.families import dump_config, parse_config
from holotron.model.presets import preset
from holotron.model.weights import load_checkpoint
from tests.model.folders import edit, tiny_folder
from tests.model.test_config import LLM

NVIDIA = "nvidia/NVIDIA-Nemotron-Nano-12B-v2-VL-BF16"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_folder(tmp_path / "model")


# ---------------------------------------------------------------------------------------------------------- written


def test_references_to_code_point_to_where_the_code_is(folder: Path) -> None:
    """Published files refer to Python files beside them, which neither we nor anybody who gets our files has."""
    classes = {"AutoConfig": "configuration.NemotronH_Nano_VL_V2_Config", "AutoModel": "mine/own--modeling.Other"}
    edit(folder / "config.json", auto_map=classes)
    written = dump_config(load_checkpoint(folder).config)
    assert written["auto_map"] == {
        "AutoConfig": f"{NVIDIA}--configuration.NemotronH_Nano_VL_V2_Config",
        "AutoModel": "mine/own--modeling.Other",
    }
    known_elsewhere = parse_config({**LLM, "auto_map": {"AutoConfig": "configuration_nemotron_h.NemotronHConfig"}})
    assert "auto_map" not in dump_config(known_elsewhere)


@pytest.mark.parametrize("name", ["holotron-12b", "tiny"])
def test_what_vllm_looks_for_is_there(name: str) -> None:
    """The attributes that vLLM's nano_nemotron_vl.py and SGLang's configuration read, and no file of ours to miss."""
    config = json.loads(json.dumps(dump_config(preset(name))))
    top = {"force_image_size", "patch_size", "downsample_ratio", "use_thumbnail", "norm_mean", "norm_std", "template"}
    top |= {"ps_version", "image_tag_type", "vit_hidden_size", "projector_hidden_size", "llm_config", "vision_config"}
    assert top <= config.keys()
    assert all("--" in reference for reference in config["auto_map"].values())
    assert config["vision_config"]["args"]["model"] == ("vit_huge_patch16_224" if name == "holotron-12b" else None)
    assert config["vision_config"]["args"]["cpe_max_size"] == preset(name).vision.grid * preset(name).vision.patch  # type: ignore[union-attr]


@pytest.mark.parametrize("prefix", [1, 2, 8, 10, 16])
def test_vllm_makes_as_many_prefix_tokens_as_we_have(prefix: int) -> None:
    tiny = preset("tiny")
    config = replace(tiny, vision=VisionConfig(prefix=prefix, patch=tiny.image.patch_size))
    arguments = dump_config(config)["vision_config"]["args"]
    # As its ClsToken counts them.
    classes, multiple = 1, arguments["register_multiple"]
    assert not arguments["cls_token_per_teacher"] and not arguments["teachers"]
    assert classes + (multiple - classes % multiple if multiple else 0) == prefix


def test_transformers_opens_tokenizer_and_template_of_a_whole_checkpoint(folder: Path) -> None:
    from transformers import AutoTokenizer, GenerationConfig

    theirs = AutoTokenizer.from_pretrained(folder)
    text = theirs.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True)
    assert text.endswith("<|im_start|>assistant\n<think></think>")
    assert GenerationConfig.from_pretrained(folder).eos_token_id == [260]


# ------------------------------------------------------------------------------------------------------------- read


def with_tensors(folder: Path, **more: torch.Tensor) -> Path:
    file = folder / "model.safetensors"
    save_file({**load_file(file), **{key.replace("__", "."): value for key, value in more.items()}}, file)
    return folder


def test_what_is_of_no_use_is_left_out_and_said_in_one_line(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    more: dict[str, Any] = {
        "mtp.layers.0.norm.weight": torch.ones(3),
        "mtp.layers.1.norm.weight": torch.ones(3),
        "sound_encoder.conv.weight": torch.ones(3),
        "vision_model.radio_model.model.patch_generator.video_embedder.weight": torch.ones(3),
        "vision_model.radio_model.something.of.a.later.release": torch.ones(3),
    }
    with caplog.at_level(logging.WARNING):
        load_checkpoint(with_tensors(folder, **more))
    (line,) = caplog.messages
    assert "5 tensors are of no use here" in line
    assert "mtp.layers.* (2)" in line
    assert "sound_encoder.conv.* (1)" in line
    assert "vision_model.radio_model.* (2)" in line
    caplog.clear()
    load_checkpoint(tiny_folder(folder.parent / "plain"))
    assert not caplog.messages
