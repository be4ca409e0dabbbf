"""8-bit files: half the size of bf16, nearly the same model, and one clear error where something is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from holotron.errors import CheckpointError
from holotron.model.loading import load_model
from holotron.model.presets import preset
from holotron.model.weights import load_checkpoint, random_model, save_checkpoint
from holotron.model.weights.int8 import to_int8


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 9), st.integers(1, 40), st.floats(-30, 30), st.integers(0, 2**31))
def test_every_entry_is_within_half_a_step(rows, columns, size, seed):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(rows, columns, generator=generator) * 2.0**size
    weight[0] = 0  # a row of nothing stays nothing
    values, scale = to_int8(weight)
    back = values.float() * scale
    assert ((back - weight).abs() <= weight.abs().amax(1, keepdim=True) / 254 * 1.001).all()
    assert (back[0] == 0).all()


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("int8")
    save_checkpoint(random_model(preset("tiny"), seed=3), folder, dtype=torch.int8)
    return folder


def test_files_name_their_scales_as_others_do(stored):
    tensors = load_file(stored / "model.safetensors")
    key = "language_model.backbone.layers.1.mixer.up_proj.weight"
    assert tensors[key].dtype is torch.int8
    assert tensors[key + "_scale"].shape == (len(tensors[key]), 1)
    assert tensors["language_model.backbone.embeddings.weight"].dtype is torch.bfloat16
    assert (
        json.loads((stored / "config.json").read_text())["quantization_config"]["quant_method"] == "compressed-tensors"
    )


def test_a_loaded_model_is_an_ordinary_one(stored, tmp_path):
    """On its own it is bf16, as large as ever; saved again in another dtype nothing of the 8 bits is left."""
    assert load_checkpoint(stored).dtype is torch.bfloat16
    model = load_checkpoint(stored, dtype=torch.float32)
    save_checkpoint(model, tmp_path)
    assert not any(t.dtype is torch.int8 for t in load_file(tmp_path / "model.safetensors").values())
    assert "quantization_config" not in json.loads((tmp_path / "config.json").read_text())
    again = load_checkpoint(tmp_path, dtype=torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))


def test_storing_twice_changes_nothing_more(stored, tmp_path):
    """What has been rounded to 8 bits once is exact in 8 bits."""
    save_checkpoint(load_checkpoint(stored, dtype=torch.float32), tmp_path, dtype=torch.int8)
    before, after = (load_file(folder / "model.safetensors") for folder in (stored, tmp_path))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before if before[key].dtype is torch.int8)


def test_missing_scales_are_named(stored, tmp_path):
    tensors = load_file(stored / "model.safetensors")
    key = "mlp1.1.weight_scale"
    save_file({name: t for name, t in tensors.items() if name != key}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((stored / "config.json").read_text())
    with pytest.raises(CheckpointError, match=r"mlp1\.1\.weight: expected its scales mlp1\.1\.weight_scale .*found I8"):
        load_checkpoint(tmp_path)


def test_the_shipped_policy_fits_in_half_its_size_and_says_nearly_the_same(tmp_path):
    model, _ = load_model("holotron-mini", device="cpu")
    save_checkpoint(model, tmp_path, dtype=torch.int8)
    assert (tmp_path / "model.safetensors").stat().st_size < 12_000_000
    narrow = load_checkpoint(tmp_path, dtype=torch.float32)
    torch.manual_seed(0)
    ids = torch.cat([torch.randint(32, 127, (30,)), torch.full((100,), 256), torch.randint(32, 127, (10,))])
    pixels = torch.randn(1, 3, 320, 320)
    with torch.inference_mode():
        wide, small = (m(ids, pixels=pixels).log_softmax(-1) for m in (model, narrow))
    assert (wide.exp() * (wide - small)).sum(-1).mean() < 0.02  # nats a token; a tower in 8 bits is not a broken tower
