"""The same tensors by other names: what trainers, pruners and mergers leave before them does not matter, and what is
read computes what the model it came from computes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from holotron.errors import CheckpointError
from holotron.model.config import ModelConfig
from holotron.model.families import families, family_of
from holotron.model.model import Holotron
from holotron.model.presets import PRESETS, preset
from holotron.model.weights import load_checkpoint, random_model, save_checkpoint
from holotron.model.weights.names import entries
from holotron.model.weights.spelling import spelt
from tests.model.folders import edit
from tests.model.oracle import unsettle
from tests.model.qwen import our_logits, prompt, theirs

Rename = Callable[[str], str]
ASKED = prompt(3)


def older(key: str) -> str:
    """As transformers called Qwen's composites until 4.51: the tower beside a text model."""
    return key.replace("model.language_model.", "model.").replace("model.visual.", "visual.")


def inside(key: str) -> str:
    """A text model with its head inside, as in 4.52 and in MLX."""
    key = key.replace("model.language_model.", "language_model.model.").replace("model.visual.", "visual.")
    return f"language_model.{key}" if key.startswith("lm_head.") else key


RENAMED: dict[str, Rename] = {
    "a tower beside a text model": older,
    "a text model with its head inside": inside,
    "both inside a model": lambda key: f"model.{inside(key)}".replace("model.visual.", "visual."),
    "DDP": lambda key: f"module.{key}",
    "PEFT": lambda key: f"base_model.model.{key}",
    "torch.compile": lambda key: f"_orig_mod.{key}",
    "a compiled decoder": lambda key: key.replace("language_model.", "language_model._orig_mod."),
}


def rename(folder: Path, how: Rename) -> None:
    file = folder / "model.safetensors"
    save_file({how(key): tensor for key, tensor in load_file(file).items()}, file, metadata={"format": "pt"})


@pytest.fixture(scope="module", params=["vl-experts", "3.5"])
def composite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tensor]:
    """As transformers wrote it, and what it says to a prompt with pictures."""
    folder = tmp_path_factory.mktemp("composite")
    theirs(request.param, 1).save_pretrained(folder)  # type: ignore[operator]
    with torch.no_grad():
        return folder, our_logits(load_checkpoint(folder), ASKED)


@pytest.mark.parametrize("how", RENAMED)
@torch.no_grad()
def test_composites_of_qwen(composite: tuple[Path, Tensor], how: str, tmp_path: Path) -> None:
    folder, expected = composite
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    rename(tmp_path, RENAMED[how])
    assert set(load_file(folder / "model.safetensors")) != set(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(our_logits(load_checkpoint(tmp_path), ASKED), expected)


@pytest.mark.parametrize("tied", [False, True])
@torch.no_grad()
def test_a_decoder_that_was_taken_out_of_a_composite(tied: bool, tmp_path: Path) -> None:
    """Transformers loads the text model of a composite and writes it with the composite's names and the text model's
    configuration. (A pruned Qwen3.5-18B is published so, and keeps the name of the composite's class.)"""
    composites: Iterator[Any] = (theirs("3.5-experts", seed) for seed in range(9))
    made = next(one for one in composites if one.config.tie_word_embeddings == tied)
    made.config.text_config.tie_word_embeddings = tied
    made.save_pretrained(tmp_path / "whole")
    oracle = AutoModelForCausalLM.from_pretrained(tmp_path / "whole", dtype=torch.float32).eval()
    oracle.save_pretrained(tmp_path / "text")
    file = tmp_path / "text" / "model.safetensors"
    tensors = load_file(file)
    assert "model.language_model.norm.weight" in tensors
    edit(tmp_path / "text" / "config.json", architectures=["Qwen3_5MoeForConditionalGeneration"])
    if tied:  # a head that is the embeddings once more is found under any name
        head = tensors["model.language_model.embed_tokens.weight"].clone()
        save_file(tensors | {"language_model.lm_head.weight": head}, file, metadata={"format": "pt"})
    model = load_checkpoint(tmp_path / "text")
    assert model.config.family == "qwen3_5" and model.config.decoder.tied_embeddings == tied
    ids = torch.arange(40)
    torch.testing.assert_close(model(ids), oracle(ids[None]).logits[0], atol=1e-4, rtol=0)


TINY = preset("tiny")
TEXT = replace(TINY, family="nemotron_h", vision=None, projector=None)
NEMOTRON: dict[str, tuple[ModelConfig, Rename]] = {
    "transformers' names in memory": (TEXT, lambda key: key.replace("backbone.", "model.")),
    "out of a composite": (TEXT, lambda key: f"language_model.{key}"),
    "a composite in memory": (TINY, lambda key: f"model.{key}".replace("backbone.", "model.")),
    "a composite inside a model": (TINY, lambda key: f"model.{key}"),
}


@pytest.mark.parametrize("how", NEMOTRON)
@torch.no_grad()
def test_nemotron(how: str, tmp_path: Path) -> None:
    config, change = NEMOTRON[how]
    model = unsettle(random_model(config).eval())
    save_checkpoint(model, tmp_path)
    rename(tmp_path, change)
    again = dict(load_checkpoint(tmp_path).named_parameters())
    assert all(torch.equal(tensor, again[key]) for key, tensor in model.named_parameters())


def test_two_names_for_one_tensor_are_an_error(tmp_path: Path) -> None:
    save_checkpoint(random_model(preset("tiny-qwen3-vl")), tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    save_file(tensors | {"visual.pos_embed.weight": tensors["model.visual.pos_embed.weight"].clone()}, file)
    with pytest.raises(CheckpointError, match=r"model\.visual\.pos_embed\.weight and visual\.pos_embed\.weight are"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("name", PRESETS)
def test_names_of_ours_are_never_taken_for_others(name: str) -> None:
    with torch.device("meta"):
        model = Holotron(preset(name))
    family = family_of(model.config)
    assert all(spelt(entry.key, family) == entry.key for entry in entries(model))


def test_whatever_is_left_out_keeps_its_name() -> None:
    for family in families():
        for key in ("mtp.layers.0.input_layernorm.weight", "sound_encoder.layers.0.norm.weight"):
            assert spelt(key, family) == key
