"""Nemotron 3 Nano Omni against transformers: what we write opens there, what they write opens here, and both compute
the same, pictures of several shapes included."""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers.models.nemotron_h_omni import NemotronH_Omni_Reasoning_V3
from transformers.models.parakeet import ParakeetEncoder

from holotron.engine.api import SamplingParams
from holotron.engine.engine import Engine
from holotron.engine.sampler import never_mask
from holotron.errors import CheckpointError, ConfigError
from holotron.kernels.layout import Layout
from holotron.model.config import (
    AttentionConfig,
    DecoderConfig,
    ImageConfig,
    MambaConfig,
    ModelConfig,
    MoEConfig,
    ProjectorConfig,
    TokenIds,
    VisionConfig,
)
from holotron.model.families import dump_config, load_config, parse_config
from holotron.model.loading import load_model
from holotron.model.model import Holotron
from holotron.model.presets import preset
from holotron.model.processor import Processor, normalise
from holotron.model.processor.tiling import patch_grid
from holotron.model.weights import load_checkpoint, random_model, save_checkpoint
from tests.model.oracle import drop_dt_clamp, unsettle
from tests.model.test_config import LLM

TOLERANCE = 1e-4
PATCH = 8


def tiny_omni() -> ModelConfig:
    return ModelConfig(
        family="nemotron_omni",
        decoder=DecoderConfig(
            vocab=120,
            hidden=40,
            pattern="MEM*EM",
            mamba=MambaConfig(heads=8, head_dim=10, state=16, groups=2, chunk=8),
            attention=AttentionConfig(heads=6, kv_heads=2, head_dim=12),  # wider than the hidden size, as published
            moe=MoEConfig(experts=8, top_k=3, width=24, shared_width=32, scale=2.5),
        ),
        vision=VisionConfig(hidden=48, layers=2, heads=4, mlp=96, patch=PATCH, grid=8, prefix=10, align_corners=False),
        projector=ProjectorConfig(64),
        image=ImageConfig(tile_size=64, patch_size=PATCH, min_patches=4, max_patches=64),
        tokens=TokenIds(image=18, image_start=21, image_end=22, eos=(11,)),
    )


def theirs(folder: Path) -> torch.nn.Module:
    loaded, report = NemotronH_Omni_Reasoning_V3.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert all("video" in key or "summary_idxs" in key for key in report["missing_keys"]), report
    assert not report["unexpected_keys"], report
    drop_dt_clamp(loaded)
    return loaded.eval()


def flat(picture: torch.Tensor) -> torch.Tensor:
    """A picture [3, H, W] as transformers takes it: row after row of patches."""
    rows, columns = picture.shape[1] // PATCH, picture.shape[2] // PATCH
    return picture.view(3, rows, PATCH, columns, PATCH).permute(1, 3, 0, 2, 4).reshape(rows * columns, -1)


PICTURES = [
    torch.randn(3, height, width, generator=torch.Generator().manual_seed(height))
    for height, width in ((64, 64), (32, 80), (96, 32))
]
GRIDS = torch.tensor([[picture.shape[1] // PATCH, picture.shape[2] // PATCH] for picture in PICTURES])
PROMPT = torch.tensor(
    [5, 6, 7]
    + [id for rows, columns in GRIDS.tolist() for id in (21, *[18] * (rows * columns // 4), 22, 40)]
    + list(range(50, 75))
)


def mine(model: Holotron, pieces: list[int]) -> torch.Tensor:
    """The prompt in pieces, then one token at a time."""
    rows = torch.cat([model.encode_tiles(picture[None]) for picture in PICTURES])
    x, state, logits = model.merge(PROMPT, rows)[0], model.new_state(), []
    for piece in x.split(pieces):
        layout = state.advance([piece.shape[0]])
        logits.append(model.language_model.logits(model.language_model(piece, layout, state.cache)))
    return torch.cat(logits)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Holotron, torch.nn.Module, Path]:
    folder = tmp_path_factory.mktemp("omni")
    model = unsettle(random_model(tiny_omni()).eval())
    save_checkpoint(model, folder)
    return model, theirs(folder), folder


@torch.no_grad()
def test_whole_chunked_and_token_by_token(pair: tuple[Holotron, torch.nn.Module, Path]) -> None:
    model, oracle, _ = pair
    pixels = torch.cat([flat(picture) for picture in PICTURES])
    expected = oracle(input_ids=PROMPT[None], pixel_values=pixels, image_grid_hw=GRIDS).logits[0]
    length = len(PROMPT)
    for pieces in ([length], [31, length - 31], [7, 40, length - 60, *[1] * 13]):
        torch.testing.assert_close(mine(model, pieces), expected, atol=TOLERANCE, rtol=0)


def random_omni(draw: random.Random) -> ModelConfig:
    made, groups, kv_heads = tiny_omni(), draw.choice([1, 2]), draw.choice([1, 2])
    return replace(
        made,
        decoder=replace(
            made.decoder,
            hidden=draw.choice([32, 40, 56]),
            pattern=draw.choice(["ME*EM", "M*EMEM", "EMM*E*"]),
            mamba=MambaConfig(
                heads=groups * draw.choice([2, 4]), head_dim=draw.choice([6, 10, 16]), state=draw.choice([8, 20]),
                groups=groups, chunk=draw.choice([4, 8, 16]),
            ),
            attention=AttentionConfig(kv_heads * draw.choice([1, 3]), kv_heads, head_dim=draw.choice([9, 12])),
            moe=MoEConfig(
                experts=draw.choice([4, 7]), top_k=draw.choice([1, 3]), width=draw.choice([16, 28]),
                shared_width=draw.choice([20, 32]), scale=draw.choice([1.0, 2.5]),
            ),
        ),
        vision=replace(made.vision, layers=draw.choice([1, 3]), heads=draw.choice([2, 4]), mlp=draw.choice([96, 144])),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
@torch.no_grad()
def test_random_shapes_in_random_pieces(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    model = unsettle(random_model(random_omni(draw)).eval(), seed)
    save_checkpoint(model, tmp_path)
    pixels, length = torch.cat([flat(picture) for picture in PICTURES]), len(PROMPT)
    expected = theirs(tmp_path)(input_ids=PROMPT[None], pixel_values=pixels, image_grid_hw=GRIDS).logits[0]
    torch.testing.assert_close(mine(model, [length]), expected, atol=TOLERANCE, rtol=0)
    for _ in range(2):  # ones are decodes
        pieces: list[int] = []
        while (left := length - sum(pieces)) > 0:
            pieces.append(min(draw.choice([1, 1, 2, 7, 20]), left))
        torch.testing.assert_close(mine(model, pieces), expected, atol=TOLERANCE, rtol=0)


@torch.no_grad()
def test_what_transformers_writes_opens_here(pair: tuple[Holotron, torch.nn.Module, Path], tmp_path: Path) -> None:
    """Its own spelling of everything (text_config, block types, mlp_ratio, registers), and a video embedder."""
    model, oracle, _ = pair
    oracle.save_pretrained(tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    assert "text_config" in said and "hybrid_override_pattern" not in said["text_config"]
    again = load_checkpoint(tmp_path)
    assert again.config.family == "nemotron_omni"
    assert (again.config.decoder, again.config.vision) == (model.config.decoder, model.config.vision)
    assert again.config.tokens.image == 18
    torch.testing.assert_close(mine(again, [len(PROMPT)]), mine(model, [len(PROMPT)]), atol=1e-6, rtol=0)


def test_a_session_with_pictures_of_several_shapes(tmp_path: Path) -> None:
    """From a folder, through processor and engine: the tokens are what the network says when it is run alone."""
    made = unsettle(random_model(replace(tiny_omni(), decoder=replace(tiny_omni().decoder, vocab=320))).eval())
    save_checkpoint(made, tmp_path)
    Processor.for_bytes(made.config.image, image=18, image_start=21, image_end=22, bos=1, eos=11).save(tmp_path)
    model, processor = load_model(tmp_path, device="cpu")
    assert model.config.tokens.eos == (11,)
    shots = [np.random.default_rng(n).integers(0, 256, (40 + 60 * n, 90, 3), np.uint8) for n in range(3)]
    content = [part for shot in shots for part in ({"type": "image", "image": shot}, {"type": "text", "text": "?"})]
    prompt = processor.render([{"role": "user", "content": content}])
    assert len({image.tiles.shape for image in prompt.images}) == 3
    with Engine(model, processor) as engine, torch.no_grad():
        (generation,) = engine.complete(prompt, SamplingParams(max_tokens=6, temperature=0, ignore_eos=True))
        said = generation.result().tokens
        rows = [model.encode_tiles(normalise(image.tiles, model.config.image)) for image in prompt.images]
        ids = torch.tensor([*prompt.ids, *said])
        x, _ = model.merge(ids, torch.cat(rows))
        logits = model.language_model.logits(model.language_model(x, Layout.build([len(ids)])))
        never = never_mask(model)
        assert never is not None
        best = logits.masked_fill(never, -torch.inf).argmax(-1)
    assert best[len(prompt.ids) - 1 : -1].tolist() == list(said)


# ------------------------------------------------------------------------------------------------------ configuration


def test_our_own_file_reads_back(pair: tuple[Holotron, torch.nn.Module, Path]) -> None:
    config = load_config(pair[2])
    assert config == replace(tiny_omni(), name="")


def test_the_published_layout() -> None:
    """As SGLang's and vLLM's readers of the published file describe it: the range of patches beside `args`."""
    data = {
        "model_type": "NemotronH_Nano_Omni_Reasoning_V3",
        "architectures": ["NemotronH_Nano_Omni_Reasoning_V3"],
        "llm_config": LLM,
        "vision_config": {
            "args": {"model": "vit_huge_patch16_224", "register_multiple": 10},
            "min_num_patches": 1024,
            "max_num_patches": 13312,
            "video_temporal_patch_size": 2,
        },
        "sound_config": {"model_type": "parakeet"},
        "img_context_token_id": 18,
        "projector_hidden_size": 20480,
        "force_image_size": 512,
    }
    config = parse_config(data)
    assert config.vision == VisionConfig(prefix=10, align_corners=False)
    assert (config.image.min_patches, config.image.max_patches) == (1024, 13312)
    assert (config.tokens.image, config.tokens.image_start, config.tokens.image_end) == (18, 21, 22)
    unsaid = {**data, "vision_config": {"args": {"model": "vit_huge_patch16_224"}}}
    assert parse_config(unsaid).image == config.image
    preprocessed = parse_config(unsaid, preprocessor={"min_num_patches": 256, "max_num_patches": 512})
    assert (preprocessed.image.min_patches, preprocessed.image.max_patches) == (256, 512)
    # A picture has to fit into the context that the processor's file names: 14 tokens, four of them not of pictures.
    range_ = {"min_num_patches": 4, "max_num_patches": 512}
    assert parse_config(unsaid, preprocessor={**range_, "max_model_len": 14}).image.max_patches == 40
    assert parse_config(unsaid, preprocessor={**range_, "max_model_len": 4096}).image.max_patches == 512
    with pytest.raises(ConfigError, match="num_nextn_predict_layers 1"):
        parse_config({**data, "llm_config": {**LLM, "num_nextn_predict_layers": 1}})
    with pytest.raises(ConfigError, match='vision_config: hidden_act "relu"'):
        parse_config({**data, "vision_config": {**data["vision_config"], "hidden_act": "relu"}})
    assert "auto_map" not in dump_config(tiny_omni())  # transformers knows it


def test_the_published_number_of_parameters() -> None:
    """Of Holotron4-30B-A3B, as the hub counts the tensors of its files: ours, and what is left out of them."""
    sizes = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 8, "intermediate_size": 4096}
    parakeet = transformers.ParakeetEncoderConfig(**sizes, num_mel_bins=128, attention_bias=False)
    parakeet.convolution_bias = False
    with torch.device("meta"):
        model = Holotron(preset("holotron-3-nano"))
        sound = ParakeetEncoder(parakeet).state_dict()
    ours = sum(tensor.numel() for tensor in model.state_dict().values())
    encoder = sum(tensor.numel() for name, tensor in sound.items() if not name.endswith("num_batches_tracked"))
    projection = 1024 + 1024 * 4096 + 4096 * 2688
    video, summaries = 1280 * 2 * 3 * 16 * 16, 3  # an embedder of two frames; which prefix tokens are summaries
    assert ours + encoder + projection + video + summaries == 33_015_598_915


# ------------------------------------------------------------------------------------------------ dynamic resolution


@functools.cache
def their_rule() -> Callable[..., tuple[int, int]]:
    """Their function alone: its module needs torchvision."""
    file = Path(transformers.__file__).parent / "models/nemotron_h_omni/image_processing_nemotron_h_omni.py"
    tree = ast.parse(file.read_text())
    (function,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "get_patch_grid_size")
    scope: dict[str, Any] = {"math": math}
    exec(compile(ast.Module([function], []), str(file), "exec"), scope)
    return scope["get_patch_grid_size"]  # type: ignore[no-any-return]


@given(
    st.integers(16, 4000),
    st.integers(16, 4000),
    st.sampled_from([(1024, 13312), (256, 1024), (4, 64), (1024, 1024)]),
)
def test_grids_are_theirs(width: int, height: int, limits: tuple[int, int]) -> None:
    least, most = limits
    mine = patch_grid(width, height, ImageConfig(min_patches=least, max_patches=most))
    try:
        rows, columns = their_rule()(height, width, 16, 2, least, most)
    except ZeroDivisionError:  # theirs shrinks a thread-thin picture to nothing
        rows = columns = 0
    if rows and columns:
        assert mine == (columns, rows)
    else:
        assert min(mine) >= 2


def test_sound_video_and_tokens_ahead_are_left_out_with_one_line(
    pair: tuple[Holotron, torch.nn.Module, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Their tensors come with the published files; what is kept computes the same without them."""
    model, _, folder = pair
    others = {
        "sound_encoder.encoder.layers.0.conv.norm.running_var": torch.ones(3),
        "sound_projection.linear1.weight": torch.ones(4, 4),
        "vision_model.radio_model.model.patch_generator.video_embedder.weight": torch.ones(48, 384),
        "language_model.mtp.layers.0.eh_proj.weight": torch.ones(40, 80),
    }
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | others, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    with caplog.at_level("WARNING"):
        again = load_checkpoint(tmp_path)
    assert len(caplog.records) == 1
    text = caplog.records[0].getMessage()
    assert "4 tensors are of no use here and were left out" in text
    assert all(kind in text for kind in ("sound_encoder.encoder", "sound_projection.linear1", "language_model.mtp"))
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(again.parameters(), model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("blocks.1.layer_scale1.lambda1", torch.ones(48), None),  # as transformers writes it
        ("blocks.1.layer_scale1.lambda1", torch.full((48,), 0.3), "unsupported .*lambda1: expected ones"),
        ("blocks.0.ls2.gamma", torch.tensor([1.0] * 47 + [0.9]), "unsupported .*ls2.gamma: expected ones"),
        ("blocks.2.norm1.weight", torch.ones(48), "unexpected .*blocks.2.norm1.weight"),  # a deeper tower
        ("blocks.1.attn.q_norm.weight", torch.ones(12), "unexpected .*q_norm.weight"),
    ],
)
def test_a_tower_that_computes_something_else_is_refused(
    name: str, value: torch.Tensor, complaint: str | None,
    pair: tuple[Holotron, torch.nn.Module, Path], tmp_path: Path,
) -> None:  # fmt: skip
    more = {f"vision_model.radio_model.model.{name}": value}
    save_file(load_file(pair[2] / "model.safetensors") | more, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((pair[2] / "config.json").read_text())
    with pytest.raises(CheckpointError, match=complaint) if complaint else contextlib.nullcontext():
        load_checkpoint(tmp_path)
