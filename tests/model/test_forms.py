"""Folders that hold something else than a checkpoint: one error says what it is, and what to do. `check` agrees."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from holotron.errors import HolotronError
from holotron.model.check import check
from holotron.model.loading import load_model
from tests.model.folders import tiny_folder

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "model")


def refused(folder: Path, message: str) -> None:
    """By both, for the same reason."""
    with pytest.raises(HolotronError) as error:
        load_model(folder, device="cpu")
    assert message in str(error.value)
    assert message in "\n".join(check(folder).problems)


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


INSTEAD = {
    "DeepSpeed": (["global_step100/mp_rank_00_model_states.pt", "latest"], "what a trainer saves for itself"),
    "FSDP": (
        ["pytorch_model_fsdp_0/__0_0.distcp", "pytorch_model_fsdp_0/.metadata"],
        "what a trainer saves for itself",
    ),
    "torch's distributed checkpoints": (["__0_0.distcp", ".metadata"], "what a trainer saves for itself"),
    "Megatron": (["iter_0000100/mp_rank_00/model_optim_rng.pt"], "what a trainer saves for itself"),
    "pickles": (["pytorch_model-00001-of-00002.bin"], "pickled files are not read"),
    "ONNX": (["model.onnx"], "ONNX is an export"),
    "ONNX in a folder": (["onnx/model.onnx"], "ONNX is an export"),
    "TensorFlow": (["tf_model.h5", "flax_model.msgpack"], "weights for TensorFlow, JAX or MLX"),
    "MLX": (["weights.npz"], "weights for TensorFlow, JAX or MLX"),
    "GGUF": (["model.gguf"], "GGUF is the format of llama.cpp"),
}


@pytest.mark.parametrize("what", INSTEAD)
def test_weights_in_another_form(folder: Path, what: str) -> None:
    names, message = INSTEAD[what]
    (folder / WEIGHTS).unlink()
    touch(folder, *names)
    refused(folder, message)


def test_what_a_trainer_saves_beside_a_model_does_not_matter(folder: Path) -> None:
    touch(folder, "optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin", "global_step5/mp_rank_00.pt")
    assert check(folder).loads
    load_model(folder, device="cpu")


def test_a_link_to_the_weights_that_leads_nowhere(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).symlink_to("nowhere")
    refused(folder, "lacks model.safetensors")


def test_an_adapter_beside_a_whole_model(folder: Path) -> None:
    """transformers with peft computes with both: without, replies would be others, and nobody would know."""
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "Qwen/Qwen3-VL-8B-Instruct"}))
    touch(folder, "adapter_model.safetensors")
    refused(folder, "an adapter for Qwen/Qwen3-VL-8B-Instruct, not a model; merge the two first")
    (folder / "adapter_config.json").unlink()
    (folder / "adapter_model.safetensors").unlink()
    assert check(folder).loads


@pytest.mark.parametrize("inside", ["", "snapshots/"])
def test_a_folder_of_checkpoints_names_them(whole: Path, tmp_path: Path, inside: str) -> None:
    """Of a trainer's run, and of a hub cache."""
    for number, name in enumerate(["checkpoint-1000", "checkpoint-500"]):
        place = tmp_path / inside / name
        place.mkdir(parents=True)
        (place / "config.json").write_text("{}")
        os.utime(place, (number, number))
    refused(tmp_path, f"name one of the checkpoints in it: {tmp_path / inside / 'checkpoint-500'}, {tmp_path / inside}")


def test_a_folder_without_anything(tmp_path: Path) -> None:
    refused(tmp_path, "holds no config.json: a checkpoint folder needs one")
