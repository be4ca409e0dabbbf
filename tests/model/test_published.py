"""Real files, as far as public repositories hold them (fixtures/README.md says where from): what they describe is what
is built, and every name in them is accounted for. Tokenizers are ours, with the published ids."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from safetensors.torch import save_file

from holotron.engine import Engine
from holotron.errors import HolotronError, InputError
from holotron.model.check import check
from holotron.model.families import dump_config, load_config, parse_config
from holotron.model.loading import byte_processor, load_model
from holotron.model.model import Holotron
from holotron.model.presets import preset
from holotron.model.weights import load_checkpoint, random_model, save_checkpoint
from holotron.model.weights.declared import read_declared
from holotron.model.weights.names import entries
from tests.model.folders import edit, tiny_folder

FIXTURES = Path(__file__).parent / "fixtures"
INDEX = "model.safetensors.index.json"


def folded(file: Path, layers: list[str]) -> list[str]:
    """Names that a fixture gives by kind of layer."""
    names = json.loads(file.read_text())
    inside = [
        f"{names['layers']}{n}.{name}" for n, kind in enumerate(layers) for name in (*names["every"], *names[kind])
    ]
    return [*names["once"], *inside]


def with_tokenizer(name: str, folder: Path) -> Path:
    """The published files with a tokenizer for bytes that has their stop and image tokens."""
    config = load_config(FIXTURES / name)
    byte_processor(replace(config, tokens=replace(config.tokens, bos=None))).save(folder)
    shutil.copytree(FIXTURES / name, folder, dirs_exist_ok=True)
    return folder


def test_a_text_model_that_transformers_wrote_with_the_names_of_the_composite(tmp_path: Path) -> None:
    folder = with_tokenizer("qwen3.5-2b-text", tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    names = folded(folder / "names.json", config["layer_types"])
    (folder / INDEX).write_text(json.dumps({"weight_map": dict.fromkeys(names, "model-00001-of-00002.safetensors")}))
    report = check(folder)
    assert report.loads, report.problems
    assert (report.family, report.sees) == ("qwen3_5", False)
    assert report.parameters == json.loads((folder / "names.json").read_text())["total_parameters"]
    assert report.tensors.startswith(f"{len(names)} of {len(names)} by name")
    missing = dict.fromkeys(names[1:], "model-00001-of-00002.safetensors")
    (folder / INDEX).write_text(json.dumps({"weight_map": missing}))
    assert check(folder).problems == ["the index lacks model.embed_tokens.weight"]


def test_qwen3_vl_is_the_preset(tmp_path: Path) -> None:
    config, wanted = load_config(FIXTURES / "qwen3-vl-4b"), preset("holo2-4b")
    assert (config.decoder, config.vision) == (wanted.decoder, wanted.vision)
    assert replace(config.image, tile_size=512) == wanted.image
    report = check(with_tokenizer("qwen3-vl-4b", tmp_path / "model"))
    assert report.loads, report.problems
    assert report.parameters == 4_437_815_808
    assert list(report.image_tokens) == [151_655, 151_652, 151_653]


def test_qwen3_6_in_8_bits_is_the_preset_and_leaves_out_what_it_says(tmp_path: Path) -> None:
    """Holo4 stands on this generation. Of its own files the list of matrices in full precision is folded."""
    folder = with_tokenizer("qwen3.6-27b-fp8", tmp_path / "model")
    config, wanted = load_config(folder), preset("holo4-27b")
    assert (config.decoder, config.vision) == (wanted.decoder, wanted.vision)
    data = json.loads((folder / "config.json").read_text())
    data["quantization_config"]["modules_to_not_convert"] = folded(
        folder / "modules_to_not_convert.json", data["text_config"]["layer_types"]
    )
    declared = read_declared(folder, data)
    assert declared is not None and declared.block == (128, 128)
    with torch.device("meta"):
        modules = [entry.key.removesuffix(".weight") for entry in entries(Holotron(config)) if len(entry.shape) == 2]
    kept = {name.rpartition(".")[2] for name in modules if declared.leaves_out(name)}
    small = {name.rpartition(".")[2] for name in modules if not declared.leaves_out(name)}
    assert small == {
        *("in_proj_qkv", "in_proj_z", "out_proj"),
        *("q_proj", "k_proj", "v_proj", "o_proj"),
        *("gate_proj", "up_proj", "down_proj", "embed_tokens"),  # the table is not a matrix that anyone quantises
    }
    assert {"lm_head", "in_proj_a", "in_proj_b", "qkv", "linear_fc1", "linear_fc2"} <= kept
    report = check(folder)
    assert report.loads, report.problems
    assert "quantization_config says" in report.quantised


def test_the_processor_of_transformers_5_is_read_and_is_the_newer_one(tmp_path: Path) -> None:
    """The part about images as Tencent/EVIE-Preview-4.5B has it; beside it the older file says something else."""
    folder = tiny_folder(tmp_path / "model", "tiny-qwen3-vl")
    inner = {
        "size": {"longest_edge": 786_432, "shortest_edge": 65_536},
        "merge_size": 2,
        "patch_size": 8,
        "resample": 3,
    }
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": inner, "video_processor": {}}))
    for older in ({"size": {"longest_edge": 4096, "shortest_edge": 1024}}, None):
        if older is None:
            (folder / "preprocessor_config.json").unlink()
        else:
            edit(folder / "preprocessor_config.json", **older)
        model, processor = load_model(folder, device="cpu")
        for images in (model.config.image, processor.images):
            assert images is not None
            assert (images.min_pixels, images.max_pixels) == (65_536, 786_432)


# ---------------------------------------------------------------------------------------------- other forms of a model


def adapter(folder: Path) -> None:
    """Of a LoRA by peft 0.18 (JapanMarketing-Dev/pdfme-fineturning), which comes without config.json."""
    (folder / "config.json").unlink()
    edit(folder / "adapter_config.json", peft_type="LORA", base_model_name_or_path="Qwen/Qwen3-VL-8B-Instruct", r=16)


def adapter_with_config(folder: Path) -> None:
    """As trainers leave it that copy the model's small files along."""
    edit(folder / "adapter_config.json", base_model_name_or_path="Qwen/Qwen3-VL-8B-Instruct")
    (folder / "model.safetensors").unlink()
    save_file({"base_model.model.x.lora_A.weight": torch.zeros(2, 2)}, folder / "adapter_model.safetensors")


def gguf(folder: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "model.safetensors").rename(folder / "model-Q4_K_M.gguf")


def pointer(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")


def older_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "vocab.json")
    (folder / "merges.txt").write_text("")


OTHERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "an adapter": (adapter, "an adapter for Qwen/Qwen3-VL-8B-Instruct, not a model; merge the two first"),
    "an adapter with the model's config.json": (adapter_with_config, "an adapter for Qwen/Qwen3-VL-8B-Instruct, not a"),
    "GGUF": (gguf, "GGUF is the format of llama.cpp"),
    "pickles": (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), "pickled files are not read"),
    "MLX": (lambda f: edit(f / "config.json", quantization={"group_size": 32, "bits": 4}), "found that of MLX"),
    "weights that are a pointer": (pointer("model.safetensors"), "model.safetensors: it is a pointer of Git LFS"),
    "a tokenizer that is a pointer": (pointer("tokenizer.json"), "tokenizer.json: it is a pointer of Git LFS"),
    "a configuration that is a pointer": (pointer("config.json"), "config.json: it is a pointer of Git LFS"),
    "an older tokenizer": (older_tokenizer, "no tokenizer.json but vocab.json and merges.txt"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_other_forms_are_told_apart_with_what_to_do(what: str, tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "model")
    harm, message = OTHERS[what]
    harm(folder)
    report = check(folder)
    assert not report.loads
    assert any(message in problem for problem in report.problems), report.problems
    with pytest.raises(HolotronError) as raised:
        load_model(folder, device="cpu")
    assert message in str(raised.value)


def test_a_single_file_of_llama_cpp() -> None:
    assert "GGUF is the format of llama.cpp" in check("model-Q4_K_M.gguf").problems[0]


@torch.no_grad()
def test_half_precision_is_computed_with_in_bf16(tmp_path: Path) -> None:
    """As the pruned Qwen3.5-18B-REAP-A3B-Coding is stored; on a CPU it is fp32, as ever."""
    save_checkpoint(random_model(preset("tiny-qwen3.5")), tmp_path, dtype=torch.float16)
    assert load_checkpoint(tmp_path).dtype is torch.bfloat16
    assert load_checkpoint(tmp_path, dtype=torch.float32).dtype is torch.float32


def test_tokens_without_rows_are_told_and_refused(tmp_path: Path) -> None:
    """A trainer added tokens and did not resize the table."""
    folder = tiny_folder(tmp_path / "model")
    backend = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    backend.add_special_tokens([f"<extra{n}>" for n in range(100)])
    backend.save(str(folder / "tokenizer.json"))
    report = check(folder)
    assert report.loads
    assert "tokens have no row in the network and cannot be used" in report.notes[0]
    model, processor = load_model(folder, device="cpu")
    token = processor.tokenizer.token_id("<extra99>")
    assert token is not None
    refused = pytest.raises(InputError, match="is not a token id of this model")
    with Engine(model, processor) as engine, engine.open() as session, refused:
        session.append([token])


# --------------------------------------------------------------------------------------------- damaged configurations

JUNK: list[Any] = [None, "x", "", -1, 0, 7.5, True, [], [1], ["a"], {}, {"a": 1}, float("inf"), float("nan"), 2**70]


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [place for key, value in inside for place in [(*path, key), *places(value, (*path, key))]]


@pytest.mark.parametrize("name", ["tiny", "tiny-qwen3-vl", "tiny-qwen3.5", "tiny-transformer", "holotron-3-nano"])
def test_whatever_stands_in_a_configuration_is_read_or_refused(name: str) -> None:
    """Something else in the place of every value: a configuration comes of it, or an error of ours."""
    text = json.dumps(dump_config(preset(name)))
    for n, path in enumerate(places(json.loads(text))):
        for junk in (JUNK[(n + more) % len(JUNK)] for more in (0, 4, 9)):
            data = inside = json.loads(text)
            for key in path[:-1]:
                inside = inside[key]
            inside[path[-1]] = junk
            with contextlib.suppress(HolotronError):
                parse_config(data)
