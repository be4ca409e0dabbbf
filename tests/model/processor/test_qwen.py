"""Qwen's pictures and prompts against transformers' own processor: sizes, pixels, places and ids."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil, smart_resize

from holotron.errors import ConfigError, InputError
from holotron.model.families import load_config
from holotron.model.loading import byte_processor
from holotron.model.presets import preset
from holotron.model.processor import ImageConfig, Processor, image_tokens, normalise, patch_grid, to_tiles
from holotron.model.processor.tiling import CLIP_MEAN
from holotron.model.weights import random_model, save_checkpoint

LIMITS = [(65_536, 16_777_216), (3_136, 1_003_520), (4_096, 65_536)]


def config(least: int, most: int) -> ImageConfig:
    said = {"patch_size": 16, "merge_size": 2, "size": {"shortest_edge": least, "longest_edge": most}}
    return ImageConfig.from_hf({}, {**said, "image_mean": [0.5] * 3, "image_std": [0.5] * 3})


@given(st.integers(1, 5000), st.integers(1, 5000), st.sampled_from(LIMITS))
def test_sizes_are_theirs(width: int, height: int, limits: tuple[int, int]) -> None:
    if max(width, height) / min(width, height) > 200:
        with pytest.raises(InputError, match="200 times"):
            patch_grid(width, height, config(*limits))
        return
    rows, columns = smart_resize(height, width, 32, *limits)
    assert patch_grid(width, height, config(*limits)) == (columns // 16, rows // 16)


def theirs(image: ImageConfig) -> Qwen2VLImageProcessorPil:
    return Qwen2VLImageProcessorPil(**{k: v for k, v in image.to_hf().items() if not k.endswith(("type", "class"))})


@pytest.mark.parametrize("size", [(320, 200), (333, 517), (64, 900), (40, 30), (448, 480)])
def test_pixels_are_theirs_to_one_level_of_255(size: tuple[int, int]) -> None:
    """They resize in Pillow here (torchvision, where it is installed, calls what we call); one that needs no resizing
    is the same to the bit. Noise shows every difference there is."""
    image = config(4_096, 250_000)
    pixels = np.random.default_rng(size[0]).integers(0, 256, (size[1], size[0], 3), np.uint8)
    processor = theirs(image)
    out = processor(images=[Image.fromarray(pixels)], return_tensors="pt")
    _, rows, columns = out["image_grid_thw"][0].tolist()
    tiles = to_tiles(pixels, image)
    assert tiles.shape == (1, 3, 16 * rows, 16 * columns)
    mine = normalise(tiles, image)[0]
    squares = mine.view(3, rows // 2, 2, 16, columns // 2, 2, 16).permute(1, 4, 2, 5, 0, 3, 6)
    flat = squares[..., None, :, :].expand(*(-1,) * 5, 2, -1, -1).reshape(rows * columns, -1)
    level = 1 / 255 / 0.5
    difference = (flat - out["pixel_values"]).abs().max()
    assert difference <= (1.01 * level if (size[0] % 32 or size[1] % 32) else 1e-6)
    assert len(flat) // 4 == image_tokens(size[0], size[1], image)


TEMPLATE = """{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' -}}
{%- if message.content is string -%}{{- message.content -}}{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' or 'image' in part -%}<|vision_start|><|image_pad|><|vision_end|>{%- else -%}
{{- part.text -}}{%- endif -%}{%- endfor -%}{%- endif -%}
{{- '<|im_end|>\\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"""


@pytest.fixture(scope="module", params=["tiny-qwen3-vl", "tiny-qwen3.5"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose template writes the tags itself, as the published ones do."""
    path, made = tmp_path_factory.mktemp("qwen"), preset(request.param)
    save_checkpoint(random_model(made), path)
    byte_processor(made).save(path)
    (path / "chat_template.jinja").write_text(TEMPLATE)
    return path


def test_a_prompt_as_transformers_writes_it(folder: Path) -> None:
    """The rendered text, every placeholder as often as its picture has tokens, through the tokenizer: that is what
    their processor does."""
    from transformers import PreTrainedTokenizerFast

    processor = Processor.from_folder(folder)
    shots = [np.random.default_rng(n).integers(0, 256, (40 + 30 * n, 100, 3), np.uint8) for n in range(3)]
    content = [part for shot in shots for part in ({"type": "image", "image": shot}, {"type": "text", "text": "a?"})]
    prompt = processor.render([{"role": "system", "content": "hm"}, {"role": "user", "content": content}])
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    assert processor.images is not None
    text = tokenizer.apply_chat_template(
        [{"role": "system", "content": "hm"}, {"role": "user", "content": content}],
        chat_template=TEMPLATE,
        tokenize=False,
        add_generation_prompt=True,
    )
    grids = theirs(processor.images)(images=[Image.fromarray(s) for s in shots], return_tensors="pt")["image_grid_thw"]
    for _, rows, columns in grids.tolist():
        text = text.replace("<|image_pad|>", "<|placeholder|>" * (rows * columns // 4), 1)
    text = text.replace("<|placeholder|>", "<|image_pad|>")
    assert prompt.ids == tokenizer(text, add_special_tokens=False)["input_ids"]
    assert [image.length for image in prompt.images] == [r * c // 4 for _, r, c in grids.tolist()]


def test_our_own_template_writes_their_tags(folder: Path, tmp_path: Path) -> None:
    """For a checkpoint that brings none."""
    for file in folder.iterdir():
        if file.name != "chat_template.jinja":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    processor = Processor.from_folder(tmp_path)
    shot = np.zeros((64, 64, 3), np.uint8)
    prompt = processor.render([{"role": "user", "content": [{"type": "image", "image": shot}, "see?"]}])
    assert "<|vision_start|><|image_pad|><|vision_end|>\nsee?" in prompt.text
    assert prompt.ids.count(257) == prompt.ids.count(258) == 1


@pytest.mark.parametrize("name", ["preprocessor_config.json", "processor_config.json"])
def test_the_range_of_pixels_is_found_where_it_stands(folder: Path, name: str, tmp_path: Path) -> None:
    """In a file of its own, or (transformers 5) in that of the whole processor; by either pair of names."""
    for file in folder.iterdir():
        if file.name != "preprocessor_config.json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    said: dict[str, object] = {"min_pixels": 4096, "max_pixels": 8192, "merge_size": 2, "patch_size": 8}
    (tmp_path / name).write_text(json.dumps(said if name.startswith("pre") else {"image_processor": said}))
    images = Processor.from_folder(tmp_path).images
    assert images is not None
    assert (images.min_pixels, images.max_pixels) == (4096, 8192)
    said |= {"min_pixels": 9000}
    (tmp_path / name).write_text(json.dumps(said if name.startswith("pre") else {"image_processor": said}))
    with pytest.raises(ConfigError, match="min_pixels <= max_pixels"):
        Processor.from_folder(tmp_path)


INCOMPLETE: list[dict[str, object]] = [
    {},
    {"size": {"shortest_edge": 4096, "longest_edge": 30_000}},
    {"min_pixels": 4096},
    {"max_pixels": 5000},
    {"min_pixels": 4096, "max_pixels": 20_000, "size": {"shortest_edge": 1, "longest_edge": 2}},
    {"image_mean": [0.1, 0.2, 0.3]},
    {"image_std": [1.0, 2.0, 3.0], "resample": 3, "rescale_factor": 1 / 255, "do_resize": True},
]


@pytest.mark.parametrize("said", INCOMPLETE, ids=str)
def test_what_a_file_leaves_out_is_what_their_class_has(said: dict[str, object]) -> None:
    sizes = {"patch_size": 16, "merge_size": 2}
    mine, theirs = ImageConfig.from_hf({}, {**sizes, **said}), Qwen2VLImageProcessorPil(**sizes, **said)
    assert [*mine.mean] == [*theirs.image_mean]
    assert [*mine.std] == [*theirs.image_std]
    edges = {"shortest_edge": mine.min_pixels, "longest_edge": mine.max_pixels}
    assert edges == {name: theirs.size[name] for name in edges}


def test_without_a_file_about_pictures_they_are_as_published() -> None:
    mine = ImageConfig.from_hf({"vision_config": {"patch_size": 16, "spatial_merge_size": 2}})
    assert (mine.min_pixels, mine.max_pixels, mine.mean) == (65_536, 16_777_216, (0.5, 0.5, 0.5))


OTHERWISE: list[dict[str, object]] = [
    {"do_resize": False},
    {"do_rescale": False},
    {"do_normalize": False},
    {"rescale_factor": 1 / 127.5},
    {"resample": 2},
    {"size": {"height": 64, "width": 64}},
    {"size": 64},
]


@pytest.mark.parametrize("said", OTHERWISE, ids=str)
def test_pictures_that_are_made_otherwise_are_refused(said: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=f"the image setting {next(iter(said))}"):
        ImageConfig.from_hf({}, {"patch_size": 16, "merge_size": 2, **said})


def test_of_both_files_the_newer_counts_alone(folder: Path, tmp_path: Path) -> None:
    """As in transformers 5; and pictures are cut for the tower, whatever either file says of its sizes."""
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    older = {"min_pixels": 6000, "max_pixels": 9000, "image_mean": [0.1] * 3, "patch_size": 4, "merge_size": 4}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(older))
    newer = {"size": {"shortest_edge": 4096, "longest_edge": 8192}, "image_std": [0.5] * 3, "patch_size": 14}
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": newer}))
    images = Processor.from_folder(tmp_path).images
    assert images == load_config(tmp_path).image
    assert images is not None
    assert (images.min_pixels, images.max_pixels, images.patch_size, images.downsample) == (4096, 8192, 8, 2)
    assert (images.mean, images.std) == (CLIP_MEAN, (0.5, 0.5, 0.5))


def test_a_screenshot_costs_what_is_said() -> None:
    image = preset("holo2-8b").image
    assert image_tokens(1920, 1080, image) == 60 * 34
    assert image_tokens(1280, 720, image) == 40 * 22
    grey = to_tiles(np.full((60, 100, 3), 9, np.uint8), config(4_096, 65_536))
    assert torch.equal(grey, torch.full((1, 3, 64, 96), 9, dtype=torch.uint8))
