"""Loading takes the memory of the final form and hardly more, measured on a process of its own; and a broken file is
one error that names file, key, expected and found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from holotron.errors import CheckpointError, ConfigError
from holotron.model.config import DecoderConfig, MLPConfig, ModelConfig, TokenIds
from holotron.model.families import dump_config
from holotron.model.presets import preset
from holotron.model.weights import load_checkpoint, random_model, save_checkpoint
from tests.model.folders import edit

MB = 1 << 20
LAYERS, HIDDEN, WIDTH = 8, 2048, 8192
MATRIX = HIDDEN * WIDTH  # numbers

_MEASURE = """
import json, sys, torch
from pathlib import Path
from holotron.model.weights import load_checkpoint

def memory(what):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(what))

kind = getattr(torch, sys.argv[3]) if sys.argv[3] != "none" else None
load_checkpoint(sys.argv[1], weight_dtype=kind)           # whatever is loaded and compiled once
before = memory("VmRSS")
Path("/proc/self/clear_refs").write_text("5")             # the high-water mark starts anew
model = load_checkpoint(sys.argv[2], weight_dtype=kind)
final = sum(t.nbytes for t in {*model.parameters(), *model.buffers()})
print(json.dumps({"peak": memory("VmHWM") - before, "final": final}))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half a gigabyte of MLPs in bf16, in two files."""
    folder = tmp_path_factory.mktemp("large")
    config = ModelConfig(
        family="nemotron_h",
        decoder=DecoderConfig(vocab=64, hidden=HIDDEN, pattern="-" * LAYERS, mlp=MLPConfig(WIDTH)),
        tokens=TokenIds(first_unsampled=None),
    )
    (folder / "config.json").write_text(json.dumps(dump_config(config)))
    matrix = torch.randn(MATRIX // 4096, generator=torch.Generator().manual_seed(0)).bfloat16().repeat(4096)
    half = LAYERS // 2
    for part in range(2):
        tensors = (
            {}
            if part
            else {f"{name}.weight": torch.zeros(64, HIDDEN).bfloat16() for name in ("lm_head", "backbone.embeddings")}
        )
        if part:
            tensors["backbone.norm_f.weight"] = torch.ones(HIDDEN).bfloat16()
        for i in range(part * half, (part + 1) * half):
            layer = f"backbone.layers.{i}"
            tensors[f"{layer}.norm.weight"] = torch.ones(HIDDEN).bfloat16()
            tensors[f"{layer}.mixer.up_proj.weight"] = matrix.view(WIDTH, HIDDEN).clone()
            tensors[f"{layer}.mixer.down_proj.weight"] = matrix.view(HIDDEN, WIDTH).clone()
        save_file(tensors, folder / f"model-{part + 1:05d}-of-00002.safetensors")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measured as Linux counts memory")
@pytest.mark.parametrize(("kind", "bytes_each"), [("none", 2), ("float8_e4m3fn", 1)])
def test_peak_memory_is_the_final_form_and_one_tensor(large: Path, tmp_path: Path, kind: str, bytes_each: int) -> None:
    save_checkpoint(random_model(preset("tiny"), dtype=torch.bfloat16), tmp_path)
    command = [sys.executable, "-c", _MEASURE, str(tmp_path), str(large), kind]
    # What is given back is given back at once: how much the allocator keeps for later is chance.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert run.returncode == 0, run.stderr
    measured = json.loads(run.stdout)
    final = 2 * LAYERS * MATRIX * bytes_each
    assert abs(measured["final"] - final) < 2 * MB
    # One matrix of the file is 32 MiB; the file has sixteen of them.
    assert final - 8 * MB < measured["peak"] < final + 2 * MATRIX + 8 * MB, measured


# ------------------------------------------------------------------------------------------------- what may be broken

UP = "language_model.backbone.layers.1.mixer.up_proj.weight"
INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_checkpoint(random_model(preset("tiny")), tmp_path, shard_bytes=300_000)
    assert len(list(tmp_path.glob("*.safetensors"))) == 5
    return tmp_path


def placed(folder: Path) -> dict[str, str]:
    return json.loads((folder / INDEX).read_text())["weight_map"]


def shard(folder: Path) -> Path:
    return folder / placed(folder)[UP]


def replace_tensor(folder: Path, tensor: torch.Tensor) -> None:
    save_file(load_file(shard(folder)) | {UP: tensor}, shard(folder))


def cut(file: Path, count: int) -> None:
    file.write_bytes(file.read_bytes()[:count])


def forget(folder: Path, name: str) -> None:
    """Take a file out of the index, as if only part of it had been written."""
    rest = {key: file for key, file in placed(folder).items() if file != name}
    (folder / INDEX).write_text(json.dumps({"weight_map": rest}))


FIRST = "model-00001-of-00005.safetensors"
BREAK: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a missing shard": (
        lambda f: (f / FIRST).unlink(),
        rf"lacks {FIRST} \({FIRST} should hold .* others\): expected 5 files that belong together, found 4",
    ),
    "a wrong shape": (
        lambda f: replace_tensor(f, torch.zeros(128, 63)),
        rf"wrong shape {UP}: expected \[128, 64\], found \[128, 63\] in model-0000\d-of-00005",
    ),
    "a wrong dtype": (
        lambda f: replace_tensor(f, torch.zeros(128, 64, dtype=torch.int64)),
        rf"unreadable  {UP}: expected F64, F32, F16, BF16.*, found I64 in model-0000\d-of-00005",
    ),
    "a truncated file": (
        lambda f: cut(f / FIRST, 100_000),
        rf"{FIRST} is not a complete safetensors file: .* ends at byte [\d,]+, found 100,000 bytes; download it again",
    ),
    "a file cut within its header": (
        lambda f: cut(f / FIRST, 40),
        r"expected a header of [\d,]+ bytes, found a file of 40",
    ),
    "an empty file": (lambda f: cut(f / FIRST, 0), rf"{FIRST} is not a complete safetensors file"),
    "a header of nonsense": (
        lambda f: (f / FIRST).write_bytes((12).to_bytes(8, "little") + b"not any json"),
        rf"{FIRST} is not a complete safetensors file: its header cannot be read",
    ),
    "a page instead of a file": (lambda f: (f / FIRST).write_text("<html>not found</html>"), "expected a header of"),
    "a truncated index": (lambda f: cut(f / INDEX, 200), rf"{INDEX} is not valid JSON.*download it again"),
    "an index of something else": (
        lambda f: (f / INDEX).write_text("{}"),
        rf"{INDEX} is not a weight index: weight_map: expected an object of file names, found NoneType",
    ),
    "an index that lost some files": (
        lambda f: forget(f, placed(f)[UP]),
        rf"missing     {UP}: expected \[128, 64\], found nothing",
    ),
    "an index that leads elsewhere": (
        lambda f: (f / INDEX).write_text(json.dumps({"weight_map": {UP: "../../other.safetensors"}})),
        rf"{UP}: expected the name of a .safetensors file beside it, found '\.\./\.\./other\.safetensors'",
    ),
    "an index that leads nowhere": (
        lambda f: (f / INDEX).write_text(json.dumps({"weight_map": {UP: ""}})),
        rf"{UP}: expected the name of a .safetensors file beside it, found ''",
    ),
    "an index of another checkpoint": (
        lambda f: (f / INDEX).write_text(json.dumps({"weight_map": placed(f) | {"lm_head.bias": FIRST}})),
        rf"{INDEX} places lm_head.bias in {FIRST}, which does not hold it",
    ),
    "an unknown family": (
        lambda f: edit(f / "config.json", model_type="gpt_oss", architectures=["GptOssForCausalLM"]),
        r"config\.json: model_type 'gpt_oss' .* belongs to no family that is known here; known are nemotron_h",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BREAK)
def test_what_is_broken_is_one_error(folder: Path, what: str) -> None:
    harm, message = BREAK[what]
    harm(folder)
    with pytest.raises((CheckpointError, ConfigError), match=message) as caught:
        load_checkpoint(folder)
    assert str(folder) in str(caught.value)


def test_a_file_that_shrinks_while_it_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holotron.model.weights import load

    before = load.check_tensors

    def shrinking(*args: Any) -> Any:
        found = before(*args)
        cut(folder / FIRST, 50_000)
        return found

    monkeypatch.setattr(load, "check_tensors", shrinking)
    with pytest.raises(CheckpointError, match=rf"{FIRST} was cut off while it was read, at byte 50,000"):
        load_checkpoint(folder)
