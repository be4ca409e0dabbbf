from __future__ import annotations

import ast
import importlib.util
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holotron.errors import ConfigError
from holotron.model.processor import ImageConfig, image_tokens, patch_grid, tile_count, tile_grid

TILES = ImageConfig()
OMNI = ImageConfig(min_patches=1024, max_patches=13312)
sides = st.integers(1, 20_000)


@pytest.mark.parametrize(
    ("size", "grid", "tiles", "tokens"),
    [
        ((512, 512), (1, 1), 1, 256),
        ((1280, 720), (2, 1), 3, 768),
        ((1280, 800), (3, 2), 7, 1792),
        ((1440, 900), (3, 2), 7, 1792),
        ((1366, 768), (4, 2), 9, 2304),
        ((1536, 864), (4, 2), 9, 2304),
        ((1920, 1080), (4, 2), 9, 2304),
        ((2560, 1440), (4, 2), 9, 2304),
        ((3840, 2160), (4, 2), 9, 2304),
        ((1200, 1200), (3, 3), 10, 2560),
        ((1024, 768), (4, 3), 13, 3328),
        ((800, 600), (4, 3), 13, 3328),
        ((1600, 1200), (4, 3), 13, 3328),
        ((1280, 1024), (4, 3), 13, 3328),
        ((1080, 2400), (2, 5), 11, 2816),
    ],
)
def test_token_counts_of_common_screens(size, grid, tiles, tokens):
    assert tile_grid(*size, TILES) == grid
    assert tile_count(*size, TILES) == tiles
    assert image_tokens(*size, TILES) == tokens


@pytest.mark.parametrize(("size", "tiles"), [((481, 202), 11), ((1178, 1779), 7)])
def test_tile_counts_measured_on_the_published_processor(size, tiles):
    assert tile_count(*size, TILES) == tiles


@given(sides, sides, st.integers(1, 12))
def test_the_grid_is_the_nearest_in_shape(width, height, most):
    config = ImageConfig(max_tiles=most)
    columns, rows = tile_grid(width, height, config)
    assert 1 <= columns * rows <= most
    best = min(abs(width / height - c / r) for c in range(1, most + 1) for r in range(1, most // c + 1))
    assert abs(width / height - columns / rows) == best


@given(sides, sides)
def test_among_equal_shapes_a_larger_grid_needs_a_half_filled_area(width, height):
    columns, rows = tile_grid(width, height, TILES)
    same_shape = [(c, r) for c in range(1, 13) for r in range(1, 12 // c + 1) if c * rows == r * columns]
    smallest = min(same_shape)
    if (columns, rows) != smallest:
        assert width * height > 0.5 * 512 * 512 * columns * rows
    larger = [(c, r) for c, r in same_shape if c > columns]
    assert all(width * height <= 0.5 * 512 * 512 * c * r for c, r in larger)


def test_no_thumbnail_when_switched_off():
    assert tile_count(1920, 1080, ImageConfig(use_thumbnail=False)) == 8


# --------------------------------------------------------------------------------------------------- dynamic resolution


@pytest.fixture(scope="module")
def published_patch_grid():
    """transformers' own function. Its module needs torchvision, so the function is taken out of the source."""
    package = Path(importlib.util.find_spec("transformers").origin).parent
    file = package / "models/nemotron_h_omni/image_processing_nemotron_h_omni.py"
    if not file.is_file():
        pytest.skip("needs transformers 5.18 or newer")
    source = file.read_text()
    function = next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == "get_patch_grid_size"
    )
    names = {"math": math}
    exec(compile(ast.Module([function], []), "published", "exec"), names)
    return names["get_patch_grid_size"]


@given(st.integers(1, 8000), st.integers(1, 8000))
def test_dynamic_resolution_is_the_published_rule(published_patch_grid, width, height):
    rows, columns = published_patch_grid(height, width, 16, 2, 1024, 13312)
    assert patch_grid(width, height, OMNI) == (columns, rows)
    assert image_tokens(width, height, OMNI) == rows * columns // 4


@given(sides, sides)
def test_dynamic_grids_are_even_and_within_budget(width, height):
    columns, rows = patch_grid(width, height, OMNI)
    assert columns % 2 == rows % 2 == 0
    assert 0 < columns * rows <= 13312


def test_dynamic_resolution_without_a_cap(published_patch_grid):
    config = ImageConfig(min_patches=1024, max_patches=0)
    rows, columns = published_patch_grid(9000, 9000, 16, 2, 1024, math.inf)
    assert patch_grid(9000, 9000, config) == (columns, rows)


def test_a_tiling_model_has_no_patch_grid():
    with pytest.raises(ConfigError, match="tiles"):
        patch_grid(100, 100, TILES)


# -------------------------------------------------------------------------------------------------------- configuration


def test_from_a_published_style_config():
    config = ImageConfig.from_hf(
        {
            "force_image_size": 512,
            "patch_size": 16,
            "downsample_ratio": 0.5,
            "max_num_tiles": 6,
            "use_thumbnail": False,
            "norm_mean": [0.5, 0.4, 0.3],
            "norm_std": [0.2, 0.2, 0.1],
            "vision_config": {"args": {"model": "vit_huge_patch16_224"}, "image_size": 224},
        }
    )
    assert config == ImageConfig(512, 16, 2, 6, False, (0.5, 0.4, 0.3), (0.2, 0.2, 0.1))
    assert not config.dynamic


def test_a_patch_range_selects_dynamic_resolution():
    config = ImageConfig.from_hf({"vision_config": {"args": {"min_num_patches": 1024, "max_num_patches": 13312}}})
    assert config == OMNI
    assert config.dynamic


def test_absent_values_keep_their_defaults():
    assert ImageConfig.from_hf({}) == ImageConfig()
    assert ImageConfig.from_hf({"vision_config": None, "norm_mean": None}) == ImageConfig()


@pytest.mark.parametrize("config", [TILES, OMNI, ImageConfig(64, 8, 2, 4, False, (0.1, 0.2, 0.3), (1.0, 1.0, 1.0))])
def test_round_trip(config):
    assert ImageConfig.from_hf(config.to_hf()) == config


@pytest.mark.parametrize(
    "values",
    [
        {"force_image_size": 500},
        {"force_image_size": "512"},
        {"max_num_tiles": 0},
        {"downsample_ratio": float("nan")},
        {"downsample_ratio": 0},
        {"norm_std": [0.1, 0.1]},
        {"norm_std": [0.1, 0.1, 0.0]},
    ],
)
def test_nonsense_is_refused(values):
    with pytest.raises(ConfigError):
        ImageConfig.from_hf(values)
