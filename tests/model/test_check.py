"""Would it load? The answer from small files agrees with what loading says, and names what is wrong."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from holotron.cli.model import app
from holotron.engine.recommend import by_card
from holotron.model import check as checking
from holotron.model.check import check
from holotron.model.loading import load_model
from holotron.model.presets import preset
from holotron.model.weights import random_model, save_checkpoint
from tests.model.folders import edit, tiny_folder
from tests.model.test_quantised import tiny_experts

FIXTURES = Path(__file__).parent / "fixtures"
UP = "language_model.backbone.layers.1.mixer.up_proj.weight"
INDEX = "model.safetensors.index.json"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tiny_folder(tmp_path_factory.mktemp("whole"))
    save_checkpoint(random_model(preset("tiny")), folder, shard_bytes=300_000)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "model")


def test_two_files_that_say_different_things_of_pictures(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Other tools follow one or the other; where both say the same, nothing is said."""
    assert not check(folder).notes
    counts = json.loads((folder / "config.json").read_text())["max_num_tiles"]
    edit(folder / "preprocessor_config.json", max_num_tiles=99)
    line = f"max_num_tiles is {counts} in config.json, which counts, and 99 in the image processor's file"
    assert check(folder).notes == [line]
    model, processor = load_model(folder, device="cpu")
    assert line in caplog.text
    assert processor.images == model.config.image
    assert model.config.image.max_tiles == counts


def without_weights(folder: Path) -> Path:
    """As a hub's small files lie in a cache."""
    for file in folder.glob("*.safetensors"):
        file.unlink()
    return folder


def test_a_folder_with_its_weights(folder: Path) -> None:
    report = check(folder)
    assert report.loads, report.problems
    assert report.family == "nemotron_vl"
    assert "by name and shape, from the headers of 5 files" in report.tensors
    model, _ = load_model(folder, device="cpu")
    assert report.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert tuple(report.stop_tokens) == model.config.tokens.eos
    assert list(report.image_tokens) == [256, 257, 258]
    assert report.template == "the checkpoint's own"
    (folder / "chat_template.jinja").unlink()
    edit(folder / "tokenizer_config.json", chat_template=None)
    assert "ours" in check(folder).template
    assert "412" in report.example
    assert "Open the settings." in report.example
    assert "<image>" in report.example
    assert report.example_tokens > len(report.example) / 2


def test_without_its_weights_names_are_accounted_for_and_it_says_so(folder: Path) -> None:
    report = check(without_weights(folder))
    assert report.loads, report.problems
    assert "by name, from the index; shapes are in the weights" in report.tensors


@pytest.mark.parametrize("name", ["tiny-qwen3-vl", "tiny-qwen3.5"])
def test_other_families_with_their_weights(name: str, tmp_path: Path) -> None:
    """Qwen3.5 stores the experts of a layer in one tensor."""
    report = check(tiny_folder(tmp_path, name))
    assert report.loads, report.problems
    assert "by name and shape" in report.tensors
    assert report.sees


def test_experts_may_lie_in_one_tensor_in_the_index(tmp_path: Path) -> None:
    """Names made from the family's description, then put together as some publishers do."""
    config = tiny_experts()
    save_checkpoint(random_model(config), tmp_path, shard_bytes=100_000)
    index = json.loads((tmp_path / INDEX).read_text())
    names = {"up": "gate_up", "down": "down"}
    fused = {
        re.sub(r"\.experts\.\d+\.(\w+)_proj\.weight", lambda m: f".experts.{names[m[1]]}_proj", key): file
        for key, file in index["weight_map"].items()
    }
    assert len(fused) < len(index["weight_map"])
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": fused}))
    report = check(without_weights(tmp_path))
    assert report.problems == [f"{tmp_path} holds no tokenizer.json; a checkpoint folder needs one"]


def test_a_hub_name_fetches_small_files_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def snapshot(name: str, wanted: list[str]) -> Path:
        asked.append(wanted)
        return without_weights(folder)

    monkeypatch.setattr(checking, "snapshot", snapshot)
    assert check("someone/some-model").loads
    assert len(asked) == 1
    assert not any("safetensors" in pattern and "json" not in pattern for pattern in asked[0])
    assert not any(pattern in ("*", "*.safetensors", "*.bin") for pattern in asked[0])
    # Of an interrupted download the rest will be fetched; in a folder it is missing.
    first(folder).touch()
    monkeypatch.setattr(checking, "snapshot", lambda *_: folder)
    assert check("someone/some-model").loads
    assert "lacks model-00002-of-00005.safetensors" in check(folder).problems[0]


@pytest.mark.parametrize("name", ["tiny", "tiny-transformer", "holotron-12b"])
def test_presets(name: str) -> None:
    report = check(name)
    assert report.loads, report.problems
    assert "a preset" in report.tensors


def test_a_published_configuration() -> None:
    """The real file (see fixtures/README.md), which came without tokenizer and index."""
    report = check(FIXTURES / "nemotron-3-nano-30b-a3b")
    assert (report.family, report.context) == ("nemotron_h", 262_144)
    assert round(report.parameters / 1e9, 1) == 31.6
    assert [report.layers.count(letter) for letter in "ME*"] == [23, 23, 6]
    assert not report.loads
    assert "no tokenizer.json" in report.problems[0]
    assert report.notes == ["no index and no weight files: tensors could not be accounted for"]


def drop_from_index(folder: Path) -> None:
    index = json.loads((folder / INDEX).read_text())
    del index["weight_map"][UP]
    index["weight_map"]["language_model.mystery.weight"] = "model-00001-of-00005.safetensors"
    (folder / INDEX).write_text(json.dumps(index))
    without_weights(folder)


def wrong_shape(folder: Path) -> None:
    name = json.loads((folder / INDEX).read_text())["weight_map"][UP]
    save_file(load_file(folder / name) | {UP: torch.zeros(3, 64)}, folder / name)


def first(folder: Path) -> Path:
    return folder / "model-00001-of-00005.safetensors"


WRONG = {
    "a name is missing": (drop_from_index, f"the index lacks {UP}"),
    "a name is unknown": (drop_from_index, "the index has what this family has not: language_model.mystery.weight"),
    "a shape is wrong": (wrong_shape, f"wrong shape {UP}: expected [128, 64], found [3, 64]"),
    "a file is missing": (lambda f: first(f).unlink(), "lacks model-00001-of-00005.safetensors"),
    "a link leads nowhere": (
        lambda f: (first(f).unlink(), first(f).symlink_to("nowhere")),
        "lacks model-00001-of-00005.safetensors",
    ),
    "a numbered file is missing": (lambda f: (first(f).unlink(), (f / INDEX).unlink()), "expected 5 files that belong"),
    "a template of bytes": (
        lambda f: (f / "chat_template.jinja").write_bytes(b"\xff\xfe"),
        "cannot read the chat template",
    ),
    "a template that is a number": (
        lambda f: ((f / "chat_template.jinja").unlink(), edit(f / "tokenizer_config.json", chat_template=5)),
        "tokenizer_config.json: chat_template must be a text, found int",
    ),
    "endless nesting": (lambda f: (f / "config.json").write_text("[" * 100_000), "nested too deeply"),
    "the index was cut": (lambda f: (f / INDEX).write_text('{"weight_map": {'), f"{INDEX} is not valid JSON"),
    "an unknown family": (lambda f: edit(f / "config.json", model_type="x", architectures=None), "no family"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "holds no tokenizer.json"),
    "no Jinja": (lambda f: (f / "chat_template.jinja").write_text("{% if %}"), "not valid Jinja"),
    "other image ids": (lambda f: edit(f / "config.json", img_context_token_id=9), "img_context_token_id = 9"),
    "quantised strangely": (
        lambda f: edit(f / "config.json", quantization_config={"quant_method": "gptq"}),
        "found 'gptq'",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_named(folder: Path, what: str) -> None:
    harm, message = WRONG[what]
    harm(folder)
    report = check(folder)
    assert not report.loads
    assert message in "\n".join(report.problems)


def test_the_command_says_yes_or_no(folder: Path) -> None:
    run = CliRunner().invoke(app, ["check", str(folder)])
    assert run.exit_code == 0, run.output
    assert "loads" in run.output
    assert "planned, not run" in run.output
    (folder / "tokenizer.json").unlink()
    run = CliRunner().invoke(app, ["check", str(folder), "--json"])
    assert run.exit_code == 1
    found = json.loads(run.stdout)
    assert found["loads"] is False
    assert {fit["card"] for fit in found["memory"]} == {"24 GB", "48 GB", "80 GB", "141 GB"}
    run = CliRunner().invoke(app, ["check", "nothing-of-that-name"])
    assert run.exit_code == 1
    assert "neither a folder, nor a hub id" in run.output


def test_memory_by_card() -> None:
    """The 12B: nothing fits on 24 GB in bf16, some sessions do in 8 bits."""
    fits = {(fit.card, fit.weights): fit.sessions for fit in by_card(preset("holotron-12b"), 32_768)}
    assert fits["24 GB", "bf16"] == 0
    assert fits["24 GB", "fp8"] >= 2
    assert fits["141 GB", "bf16"] > fits["80 GB", "bf16"] > fits["48 GB", "bf16"] > 0
