"""Qwen3-VL and Qwen3.5 with pictures, held against transformers: random configurations, several pictures."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from holotron.errors import CheckpointError, ConfigError
from holotron.model.config import ModelConfig
from holotron.model.families import dump_config, load_config, parse_config
from holotron.model.model import Holotron
from holotron.model.presets import preset
from holotron.model.weights import random_model, save_checkpoint
from holotron.model.weights.load import load_checkpoint
from tests.model.qwen import KINDS, our_logits, prompt, their_logits, theirs

TOLERANCE = 1e-4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
@torch.no_grad()
def test_their_files_load_and_compute_the_same(kind: str, seed: int, tmp_path: Path) -> None:
    oracle = theirs(kind, seed)
    oracle.save_pretrained(tmp_path)  # type: ignore[operator]
    model = load_checkpoint(tmp_path)
    asked = prompt(seed)
    expected = their_logits(oracle, asked)
    torch.testing.assert_close(our_logits(model, asked), expected, atol=TOLERANCE, rtol=0)

    draw, length = random.Random(seed), len(asked.ids)
    for _ in range(3):  # pieces of any size with a memory; ones are decodes
        pieces: list[int] = []
        while (left := length - sum(pieces)) > 0:
            pieces.append(min(draw.choice([1, 1, 2, 7, 20]), left))
        torch.testing.assert_close(our_logits(model, asked, pieces), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_what_we_write_opens_there(kind: str, tmp_path: Path) -> None:
    """Written from our own configuration, in the published layout; and read back by us."""
    oracle = theirs(kind, 1)
    oracle.save_pretrained(tmp_path / "theirs")  # type: ignore[operator]
    model = load_checkpoint(tmp_path / "theirs")
    assert parse_config(dump_config(model.config)) == model.config
    model.config = replace(model.config, raw=None)
    save_checkpoint(model, tmp_path / "ours")
    assert load_config(tmp_path / "ours").decoder == model.config.decoder
    assert load_config(tmp_path / "ours").vision == model.config.vision
    kind_of_model: Any = type(oracle)
    again, report = kind_of_model.from_pretrained(tmp_path / "ours", dtype=torch.float32, output_loading_info=True)
    assert not report["missing_keys"] | report["unexpected_keys"], report
    assert not report["mismatched_keys"], report
    asked = prompt(5)
    expected = their_logits(oracle, asked)
    torch.testing.assert_close(their_logits(again.eval(), asked), expected, atol=1e-5, rtol=0)
    back = load_checkpoint(tmp_path / "ours")
    torch.testing.assert_close(our_logits(back, asked), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("layout", ["published", "stacked", "one by one"])
@pytest.mark.parametrize("kind", ["vl-experts", "3.5-experts"])
@torch.no_grad()
def test_experts_in_every_layout(kind: str, layout: str, tmp_path: Path) -> None:
    """One tensor for all of a layer, its matrices as they are or (as Qwen3-VL is published) turned over; or single."""
    oracle = theirs(kind, 3)
    oracle.save_pretrained(tmp_path)  # type: ignore[operator]
    file = tmp_path / "model.safetensors"
    tensors = {key: value for key, value in load_file(file).items() if ".experts." not in key}
    for name, stack in oracle.named_parameters():
        if ".experts." in name and layout == "one by one":
            parts = stack.chunk(2, dim=1) if "gate_up" in name else [stack]
            labels = ["gate_proj", "up_proj"] if "gate_up" in name else ["down_proj"]
            for part, label in zip(parts, labels, strict=True):
                for j, matrix in enumerate(part):
                    tensors[f"{name.rpartition('.')[0]}.{j}.{label}.weight"] = matrix.clone()
        elif ".experts." in name:
            tensors[name] = (stack.transpose(1, 2) if layout == "published" else stack).contiguous()
    save_file(tensors, file, metadata={"format": "pt"})
    asked = prompt(2)
    logits = our_logits(load_checkpoint(tmp_path), asked)
    torch.testing.assert_close(logits, their_logits(oracle, asked), atol=TOLERANCE, rtol=0)


@torch.no_grad()
def test_packed_is_separate() -> None:
    """Sequences with pictures of several sizes in one row, beside ones without any."""
    for name in ("tiny-qwen3-vl", "tiny-qwen3.5"):
        model = random_model(preset(name), dtype=torch.float64).eval()
        step, draw = 16, random.Random(0)
        sequences, pictures = [], []
        for grids in ([(2, 3)], [], [(1, 2), (4, 1)], [(3, 3)]):
            ids = [draw.randrange(250) for _ in range(5)]
            for rows, columns in grids:
                ids += [257, *[256] * (rows * columns), 258, 7, 8]
                pictures.append(torch.randn(1, 3, rows * step, columns * step, dtype=torch.float64))
            sequences.append(torch.tensor(ids))
        together = model(torch.cat(sequences), [len(s) for s in sequences], pixels=pictures)
        seen = iter(pictures)
        alone = [model(s, pixels=[next(seen) for _ in range(int((s == 257).sum()))]) for s in sequences]
        torch.testing.assert_close(together, torch.cat(alone), atol=1e-9, rtol=0)


@torch.no_grad()
def test_a_tied_head_in_the_file_is_read_as_transformers_does(tmp_path: Path) -> None:
    """Holo3.1-0.8B is published so. Equal to the embeddings it is one matrix; different, it is the head."""
    oracle = next(made for seed in range(9) if (made := theirs("3.5", seed)).config.tie_word_embeddings)
    oracle.save_pretrained(tmp_path)  # type: ignore[operator]
    file, asked = tmp_path / "model.safetensors", prompt(4)
    tensors = load_file(file)
    table = tensors["model.language_model.embed_tokens.weight"]
    save_file({**tensors, "lm_head.weight": table.clone()}, file, metadata={"format": "pt"})
    model = load_checkpoint(tmp_path)
    assert model.config.decoder.tied_embeddings
    torch.testing.assert_close(our_logits(model, asked), their_logits(oracle, asked), atol=TOLERANCE, rtol=0)
    save_file({**tensors, "lm_head.weight": 2 * table}, file, metadata={"format": "pt"})
    model = load_checkpoint(tmp_path)
    assert not model.config.decoder.tied_embeddings
    torch.testing.assert_close(our_logits(model, asked), 2 * their_logits(oracle, asked), atol=TOLERANCE, rtol=0)


# ------------------------------------------------------------------------------------------------------ configuration

PUBLISHED = {  # parameters, as the hub counts them (docs/models.md); Qwen3.5's without the layer that predicts ahead
    "holo2-4b": 4_437_815_808,
    "holo2-8b": 8_767_123_696,
    "holo2-30b-a3b": 31_070_754_032,
    "holo3.1-0.8b": 873_438_784,
    "holo3.1-4b": 4_659_865_088,
    "holo3.1-9b": 9_653_104_368,
    "holo3.1-35b-a3b": 35_951_822_704,
    "holo4-27b": 27_781_427_952,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_have_the_published_number_of_parameters(name: str) -> None:
    config = preset(name)
    with torch.device("meta"):
        model = Holotron(config)
    assert sum(p.numel() for p in set(model.parameters())) + _predicts_ahead(config) == PUBLISHED[name]


def _predicts_ahead(config: ModelConfig) -> int:
    """Parameters of Qwen3.5's MTP: two vectors to one, one more attention layer with its MLP or experts, norms."""
    d = config.decoder
    if d.delta is None:
        return 0
    assert d.attention is not None
    width, kv = d.attention.heads * d.attention.head_dim, d.attention.kv_heads * d.attention.head_dim
    count = 2 * d.hidden**2 + d.hidden * (3 * width + 2 * kv) + 5 * d.hidden + 2 * d.attention.head_dim
    if d.mlp is not None:
        return count + 3 * d.hidden * d.mlp.width
    assert d.moe is not None
    experts = 3 * d.hidden * (d.moe.experts * d.moe.width + d.moe.shared_width)
    return count + experts + d.hidden * (d.moe.experts + 1)


@pytest.mark.parametrize("name", [*PUBLISHED, "tiny-qwen3-vl", "tiny-qwen3.5"])
def test_presets_are_written_and_read_back(name: str) -> None:
    config = preset(name)
    back = parse_config(dump_config(config), preprocessor=config.image.to_hf())
    assert replace(back, name=name) == config


def published(**changes: Any) -> dict[str, Any]:
    """As Qwen3-VL-30B-A3B's config.json has it, names and all."""
    text = {
        "model_type": "qwen3_vl_moe_text",
        "vocab_size": 151_936,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "rms_norm_eps": 1e-6,
        "rope_theta": 5_000_000,
        "rope_scaling": {"mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"},
        "max_position_embeddings": 262_144,
        "eos_token_id": 151_645,
    }
    vision = {
        "model_type": "qwen3_vl_moe",
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_heads": 16,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 2048,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [8, 16, 24],
    }
    data = {
        "architectures": ["Qwen3VLMoeForConditionalGeneration"],
        "model_type": "qwen3_vl_moe",
        "image_token_id": 151_655,
        "video_token_id": 151_656,
        "vision_start_token_id": 151_652,
        "vision_end_token_id": 151_653,
        "tie_word_embeddings": False,
        "text_config": text | changes.pop("text_config", {}),
        "vision_config": vision | changes.pop("vision_config", {}),
    }
    return data | changes


def test_the_published_file_is_the_preset() -> None:
    config, wanted = parse_config(published()), preset("holo2-30b-a3b")
    assert (config.decoder, config.vision) == (wanted.decoder, wanted.vision)
    assert replace(config.image, tile_size=512) == wanted.image


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vision_config": {"deepstack_visual_indexes": [24, 8]}}, "each once and in order"),
        ({"vision_config": {"deepstack_visual_indexes": [27]}}, "deepstack layers"),
        (
            {"vision_config": {"out_hidden_size": 4096}},
            "out_hidden_size is 4096, but the decoder",
        ),
        ({"vision_config": {"num_position_embeddings": 2000}}, "not the square"),
        ({"vision_config": {"hidden_act": "relu"}}, 'hidden_act "relu"'),
        ({"vision_config": {"rope_parameters": {"rope_theta": 50.0}}}, "rope_theta must be 10000, found 50"),
        ({"text_config": {"mlp_only_layers": [0]}}, "experts in some layers only"),
        ({"text_config": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}}, "rope_type 'yarn'"),
        ({"text_config": {"rope_scaling": {"mrope_section": [64]}}}, "mrope_section"),
        ({"text_config": {"hidden_size": "many"}}, "hidden_size must be a positive whole number"),
        ({"text_config": {"num_experts_per_tok": None}}, "lacks num_experts_per_tok"),
    ],
)
def test_what_is_not_supported_is_said(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(published(**changes))


def test_experts_of_another_size_are_one_clear_error(tmp_path: Path) -> None:
    oracle = theirs("vl-experts", 0)
    oracle.save_pretrained(tmp_path)  # type: ignore[operator]
    data = json.loads((tmp_path / "config.json").read_text())
    data["text_config"]["moe_intermediate_size"] += 4
    (tmp_path / "config.json").write_text(json.dumps(data))
    with pytest.raises(CheckpointError, match=r"experts\.down_proj has shape .* expected"):
        load_checkpoint(tmp_path)
