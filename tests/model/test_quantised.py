"""Files in FP8 and NVFP4: read as the libraries that write them mean it, whole models included; and one clear error for
files that are not what they claim to be."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from holotron.errors import CheckpointError
from holotron.kernels.linear import quantize
from holotron.model.config import DecoderConfig, MambaConfig, ModelConfig, MoEConfig, TokenIds
from holotron.model.presets import preset
from holotron.model.weights import load_checkpoint, random_model, save_checkpoint
from holotron.model.weights import reader as reading
from holotron.model.weights.headers import file_headers
from holotron.model.weights.reader import Reader
from holotron.model.weights.stored import copy_into, find
from tests.model.oracle import unsettle

FIXTURES = Path(__file__).parent / "fixtures" / "quantised"
FP8 = torch.float8_e4m3fn
E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])

# ---------------------------------------------------------------------------------- what the libraries themselves write


@pytest.mark.parametrize("file", sorted(FIXTURES.glob("*.safetensors")), ids=lambda file: file.stem)
@pytest.mark.parametrize("piece", [1 << 20, 700])  # at once, and a few rows at a time
def test_a_matrix_is_what_its_library_says(file: Path, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PIECE", piece)
    expected = load_file(file)["expected"]
    stored = find("X.weight", tuple(expected.shape), file_headers(file), None)
    wide = torch.empty(expected.shape)
    narrow, scale = torch.empty(expected.shape, dtype=FP8), torch.empty(len(expected), 1)
    with Reader("cpu") as reader:
        copy_into(stored, reader, wide, None)
        copy_into(stored, reader, narrow, scale)
    # compressed-tensors unpacks NVFP4 in bf16.
    torch.testing.assert_close(wide, expected, rtol=2**-8 if file.stem == "ct-nvfp4" else 1e-6, atol=0)
    if "channel" in file.stem or "tensor" in file.stem or file.stem == "modelopt-fp8":
        torch.testing.assert_close(narrow.float() * scale, expected, rtol=1e-6, atol=0)  # taken as it is
        assert torch.equal(narrow.view(torch.uint8), load_file(file)["X.weight"].view(torch.uint8))
    else:
        values, wanted = quantize(wide)
        assert torch.equal(narrow.float(), values.float())
        assert torch.equal(scale, wanted)


# ----------------------------------------------------------------------------------- whole checkpoints, by the formulas


def by_tensor(weight: Tensor) -> dict[str, Tensor]:
    scale = weight.abs().amax() / 448
    return {"": (weight / scale).to(FP8), "_scale": scale}


def by_row(weight: Tensor) -> dict[str, Tensor]:
    scale = weight.abs().amax(1, keepdim=True) / 448
    return {"": (weight / scale).to(FP8), "_scale": scale.bfloat16()}


def by_block(weight: Tensor, size: int = 128) -> dict[str, Tensor]:
    rows, columns = weight.shape
    scale = torch.zeros(-(-rows // size), -(-columns // size))
    values = torch.zeros(weight.shape)
    for i in range(scale.shape[0]):
        for j in range(scale.shape[1]):
            at = (slice(i * size, (i + 1) * size), slice(j * size, (j + 1) * size))
            scale[i, j] = weight[at].abs().amax() / 448
            values[at] = weight[at] / scale[i, j]
    return {"": values.to(FP8), "_scale_inv": scale}


def modelopt_block(weight: Tensor) -> dict[str, Tensor]:
    stored = by_block(weight)
    return {"": stored[""], "_scale": stored["_scale_inv"][:, None, :, None]}


def nvfp4(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Packed numbers, the scale of every 16 of them, and the scale of them all."""
    overall = weight.abs().amax() / (448 * 6)
    groups = weight.view(weight.shape[0], -1, 16)
    scale = (groups.abs().amax(-1) / 6 / overall).to(FP8)
    ratio = (groups / (scale.float() * overall)[..., None]).nan_to_num(0.0)
    nearest = (ratio.abs()[..., None] - E2M1).abs().argmin(-1) + 8 * (ratio < 0)
    pairs = nearest.view(weight.shape[0], -1, 2).to(torch.uint8)
    return pairs[..., 0] | (pairs[..., 1] << 4), scale, overall


def modelopt_nvfp4(weight: Tensor) -> dict[str, Tensor]:
    packed, scale, overall = nvfp4(weight)
    return {"": packed, "_scale": scale, "_scale_2": overall}


def compressed_nvfp4(weight: Tensor) -> dict[str, Tensor]:
    packed, scale, overall = nvfp4(weight)
    return {"_packed": packed, "_scale": scale, "_global_scale": 1 / overall.view(1)}


def meant(stored: dict[str, Tensor], shape: torch.Size) -> Tensor:
    """What the numbers of a file stand for, written down plainly."""
    scale = next(stored[end] for end in ("_scale", "_scale_inv") if end in stored).float()
    if "_packed" in stored or stored[""].dtype is torch.uint8:
        packed = stored.get("_packed", stored.get(""))
        assert packed is not None
        nibbles = torch.stack([packed & 15, packed >> 4], -1).flatten(1).long()
        values = torch.cat([E2M1, -E2M1])[nibbles] * scale.repeat_interleave(16, 1)
        return values * stored["_scale_2"] if "_scale_2" in stored else values / stored["_global_scale"]
    if scale.dim() == 4 or "_scale_inv" in stored:
        scale = scale.view(scale.shape[0], -1)
        scale = scale.repeat_interleave(128, 0).repeat_interleave(128, 1)[: shape[0], : shape[1]]
    return stored[""].float() * scale


MODELOPT = {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"], "producer": {"name": "modelopt"}}
COMPRESSED = {
    "quant_method": "compressed-tensors",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}},
    "ignore": ["lm_head", "re:vision_model.*"],
}
LAYOUTS: dict[str, tuple[Callable[[Tensor], dict[str, Tensor]], dict[str, Any]]] = {
    "fp8 by tensor, ModelOpt": (by_tensor, MODELOPT),
    "fp8 by row, compressed-tensors": (by_row, COMPRESSED | {"format": "float-quantized"}),
    "fp8 by block, DeepSeek": (by_block, {"quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e4m3"}),
    "fp8 by block, ModelOpt": (modelopt_block, MODELOPT | {"quant_algo": "fp8_pb_wo"}),
    "nvfp4, ModelOpt": (modelopt_nvfp4, MODELOPT | {"quant_algo": "NVFP4"}),
    "nvfp4, compressed-tensors": (compressed_nvfp4, COMPRESSED | {"format": "nvfp4-pack-quantized"}),
}


def tiny_experts() -> ModelConfig:
    return ModelConfig(
        family="nemotron_h",
        decoder=DecoderConfig(
            vocab=96,
            hidden=160,
            pattern="MEM",
            mamba=MambaConfig(heads=4, head_dim=32, state=16, groups=2, chunk=8),
            moe=MoEConfig(experts=4, top_k=2, width=144, shared_width=32),
        ),
        tokens=TokenIds(first_unsampled=None),
    )


def chosen(key: str, tensor: Tensor) -> bool:
    """What publishers quantise: matrices inside the decoder's layers, routers apart."""
    return tensor.dim() == 2 and ".mixer." in key and "gate.weight" not in key


def quantised_folder(folder: Path, config: ModelConfig, layout: str) -> tuple[Path, dict[str, Tensor]]:
    """A checkpoint in this layout, and what its quantised matrices stand for."""
    how, said = LAYOUTS[layout]
    save_checkpoint(unsettle(random_model(config)), folder)
    tensors, expected = load_file(folder / "model.safetensors"), dict[str, Tensor]()
    for key in [key for key, tensor in tensors.items() if chosen(key, tensor)]:
        weight = tensors.pop(key)
        stored = how(weight)
        expected[key] = meant(stored, weight.shape)
        assert (expected[key] - weight).abs().max() < 0.3 * weight.abs().max()  # or the formula above is wrong
        tensors |= {key + end: part.contiguous() for end, part in stored.items()}
        tensors[key.replace(".weight", ".input_scale")] = torch.tensor(0.01)
    first = next(iter(expected))
    tensors[first.replace("in_proj.weight", "k_scale")] = torch.tensor(1.0)
    save_file(tensors, folder / "model.safetensors")
    written = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(written | {"quantization_config": said}))
    return folder, expected


def parameter(model: torch.nn.Module, key: str) -> Tensor:
    """The tensor that a checkpoint's key names, experts from their stack."""
    name = key if key.startswith("language_model") else f"language_model.{key}"
    parts = name.split(".")
    if "experts" in parts:
        at = parts.index("experts")
        stack = model.get_parameter(".".join([*parts[: at + 1], parts[at + 2]]))
        return stack[int(parts[at + 1])]
    return model.get_parameter(name)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("config", [preset("tiny"), tiny_experts()], ids=["pictures", "experts"])
def test_whole_models_in_every_layout(
    layout: str, config: ModelConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, expected = quantised_folder(tmp_path, config, layout)
    with caplog.at_level(logging.INFO):
        model = load_checkpoint(folder, dtype=torch.float32)
    for key, values in expected.items():
        torch.testing.assert_close(parameter(model, key), values, rtol=1e-5, atol=1e-8, msg=key)
    assert f"{len(expected)} matrices in {'NVFP4' if 'nvfp4' in layout else 'F8_E4M3'}" in caplog.text
    assert f"{len(expected) + 1} scales for activations, keys and values are of no use here" in caplog.text
    narrow = load_checkpoint(folder, weight_dtype=FP8)
    ids = torch.arange(20)
    with torch.inference_mode():
        wide, eight = (each(ids).float().log_softmax(-1) for each in (model, narrow))
    assert (wide.exp() * (wide - eight)).sum(-1).mean() < 0.1


def test_eight_bit_floats_by_row_are_taken_as_they_are(tmp_path: Path) -> None:
    folder, expected = quantised_folder(tmp_path, tiny_experts(), "fp8 by row, compressed-tensors")
    model, file = load_checkpoint(folder, weight_dtype=FP8), load_file(folder / "model.safetensors")
    for key in expected:
        if "o_proj" not in key:
            assert torch.equal(parameter(model, key).view(torch.uint8), file[key].view(torch.uint8)), key


def test_streamed_into_eight_bits_it_is_what_the_engine_makes_of_it(tmp_path: Path) -> None:
    save_checkpoint(unsettle(random_model(tiny_experts())), tmp_path)
    streamed = load_checkpoint(tmp_path, weight_dtype=FP8)
    whole = load_checkpoint(tmp_path)
    whole.language_model.quantize()
    mine, theirs = (dict([*m.named_parameters(), *m.named_buffers()]) for m in (streamed, whole))
    assert mine.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert mine[name].dtype is tensor.dtype
        assert torch.equal(mine[name].float(), tensor.float()), name
    assert torch.equal(streamed(torch.arange(9)), whole(torch.arange(9)))


@settings(deadline=None, max_examples=25)
@given(
    rows=st.integers(1, 300), columns=st.integers(1, 300), layout=st.sampled_from([by_tensor, by_row, by_block]),
    seed=st.integers(0, 2**31), piece=st.integers(1, 100_000),
)  # fmt: skip
def test_any_shape_in_pieces_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, rows: int, columns: int, layout: Any, seed: int, piece: int
) -> None:
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    stored = layout(weight)
    file = tmp_path_factory.mktemp("any") / "model.safetensors"
    save_file({"X.weight" + end: part for end, part in stored.items()}, file)
    out, before = torch.empty(rows, columns), reading.PIECE
    reading.PIECE = piece
    try:
        with Reader("cpu") as reader:
            copy_into(find("X.weight", (rows, columns), file_headers(file), None), reader, out, None)
    finally:
        reading.PIECE = before
    torch.testing.assert_close(out, meant(stored, weight.shape), rtol=1e-6, atol=0)


# -------------------------------------------------------------------------------------------- what cannot be right

UP = "language_model.backbone.layers.1.mixer.up_proj.weight"


@pytest.fixture
def eight(tmp_path: Path) -> Path:
    return quantised_folder(tmp_path, preset("tiny"), "fp8 by tensor, ModelOpt")[0]


def change(folder: Path, **tensors: Tensor | None) -> None:
    """Of the up projection of the second layer, by the end of the name; None takes it away."""
    held = load_file(folder / "model.safetensors")
    for end, tensor in tensors.items():
        name = UP + ("" if end == "weight" else end)
        held.pop(name, None)
        if tensor is not None:
            held[name] = tensor
    save_file(held, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"_scale": None}, f"{UP}: expected its scales {UP}_scale or {UP}_scale_inv, found F8_E4M3 numbers in model"),
        ({"_scale": torch.ones(3)}, rf"{UP}_scale to be one number, \[128, 1\] \(rows\) or .*found \[3\] in model"),
        ({"_scale": torch.ones(1, dtype=torch.int64)}, "expected scales of a matrix in F32, F16 or BF16, found I64"),
        ({"weight": torch.zeros(128, 64, dtype=torch.uint8)}, "or packed NVFP4, found U8 in model.safetensors"),
        ({"weight": torch.zeros(128, 64, dtype=torch.int32)}, "or packed NVFP4, found I32 in model.safetensors"),
        ({"weight": torch.zeros(128, 60).to(FP8)}, r"wrong shape .*expected \[128, 64\], found \[128, 60\] in model"),
        (
            {"weight": torch.zeros(128, 32, dtype=torch.uint8), "_scale_2": torch.ones(())},
            rf"expected F8_E4M3 \[128, 4\] {UP}_scale \(NVFP4\), found F32 \[\] in model.safetensors",
        ),
        (
            {"weight": None, "_packed": torch.zeros(128, 32, dtype=torch.uint8), "_scale": torch.ones(128, 4).to(FP8)},
            rf"one F32 number {UP}_global_scale, found U8 \[128, 32\] alone in model.safetensors",
        ),
        (
            {"weight": torch.zeros(128, 64), "_scale": None},
            rf"half-quantised {UP}: expected F8_E4M3 like others of its kind, found F32 in model",
        ),
        ({"weight": torch.zeros(128, 64)}, rf"unexpected  {UP}_scale: found \[\] in model.safetensors"),
        ({"_zero_point": torch.zeros(1)}, rf"unexpected  {UP}_zero_point: found \[1\]"),
    ],
)
def test_a_file_that_is_not_what_it_claims(eight: Path, changes: dict[str, Tensor | None], message: str) -> None:
    change(eight, **changes)
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(eight)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            {"quant_method": "gptq", "bits": 4},
            "quant_method: expected compressed-tensors, modelopt or fp8, found 'gptq'",
        ),
        (COMPRESSED | {"format": "pack-quantized"}, "format: expected one of .*, found 'pack-quantized'"),
        (COMPRESSED | {"sparsity_config": {"format": "sparse-24"}}, "expected dense, found 'sparse-24'"),
        (MODELOPT | {"quant_algo": "W4A16_AWQ"}, "quant_algo: expected one of .*, found 'W4A16_AWQ'"),
        ({"quant_method": "fp8", "weight_block_size": 128}, r"expected a block size such as \[128, 128\], found 128"),
    ],
)
def test_kinds_that_cannot_be_read_are_named(eight: Path, said: dict[str, Any], message: str) -> None:
    config = json.loads((eight / "config.json").read_text())
    (eight / "config.json").write_text(json.dumps(config | {"quantization_config": said}))
    with pytest.raises(CheckpointError, match=rf"config\.json: quantization_config: .*{message}"):
        load_checkpoint(eight)


@pytest.mark.parametrize(
    "said",
    [
        {"quant_algo": "FP8", "exclude_modules": ["lm_head", "language_model.backbone.layers.1.mixer*"]},
        {"quant_algo": "FP8", "exclude_modules": ["backbone.layers.1.mixer.up_proj"]},
        {
            "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {"language_model.backbone.layers.3": {"quant_algo": "FP8"}},
        },
    ],
)
@pytest.mark.parametrize("beside", [True, False])
def test_what_is_left_out_by_name_may_stay_in_full(eight: Path, said: dict[str, Any], beside: bool) -> None:
    """As ModelOpt's own file says it: beside config.json, or put into it. The published NVFP4 of Nemotron 3 Nano names
    every module that it leaves out, the Mamba layer before each attention layer among them."""
    config = json.loads((eight / "config.json").read_text())
    del config["quantization_config"]
    own = {"producer": {"name": "modelopt", "version": "0.29.0"}, "quantization": said}
    if beside:
        (eight / "hf_quant_config.json").write_text(json.dumps(own))
    else:
        config["quantization_config"] = own
    (eight / "config.json").write_text(json.dumps(config))
    full = torch.randn(128, 64)
    change(eight, weight=full, _scale=None)
    assert torch.equal(parameter(load_checkpoint(eight), UP), full)


def test_a_model_in_eight_bits_is_not_saved_as_if_it_were_whole(eight: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="8 bits"):
        save_checkpoint(load_checkpoint(eight, weight_dtype=FP8), tmp_path / "out")
