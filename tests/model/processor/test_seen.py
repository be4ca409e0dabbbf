"""The host's part of a picture: resized as torch does, and only once however often it is sent."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from holotron.kernels.native import library, resize
from holotron.model.processor import ImageConfig, Processor
from holotron.model.processor.images import _resize

CONFIG = ImageConfig(tile_size=32, patch_size=8)


def png(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (48, 70, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    size=st.tuples(st.integers(1, 90), st.integers(2, 90)),  # torch gets pictures of one column wrong
    grid=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    tile=st.tuples(st.integers(1, 40), st.integers(2, 40)),
    seed=st.integers(0, 9),
)
def test_the_native_resize_is_within_one_level_of_torchs(
    size: tuple[int, int], grid: tuple[int, int], tile: tuple[int, int], seed: int
) -> None:
    """Noise of extremes, where overshoot and rounding are the largest; single rows too."""
    native = library()
    if native is None:
        pytest.skip("no compiler here")
    draw = np.random.default_rng(seed)
    image = draw.choice(np.array([0, 1, 127, 254, 255], np.uint8), (*size, 3))
    (rows, columns), (height, width) = grid, tile
    tiles = resize(native, image, rows, columns, height, width)
    sheet = _resize(torch.from_numpy(image).permute(2, 0, 1)[None], rows * height, columns * width)
    wanted = sheet.view(3, rows, height, columns, width).permute(1, 3, 0, 2, 4).reshape(-1, 3, height, width)
    assert (tiles.int() - wanted.int()).abs().max() <= 1


def test_a_picture_sent_again_is_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = Processor.for_bytes(CONFIG)
    data = png(1)
    url = "data:image/png;base64," + base64.b64encode(data).decode()
    with processor.seen.by(b"tenant"):
        first, same = processor.encode_image(data), processor.encode_image(data)
        by_url = [processor.encode_image(url) for _ in range(3)]
    assert processor.seen.found == 1 + 2
    for other in (same, *by_url):
        assert other.ids == first.ids
        assert other.images[0].keys == first.images[0].keys
        assert torch.equal(other.images[0].tiles, first.images[0].tiles)


def test_nobody_learns_what_another_tenant_has_sent() -> None:
    processor = Processor.for_bytes(CONFIG)
    with processor.seen.by(b"one"):
        processor.encode_image(png(1))
    with processor.seen.by(b"two"):
        processor.encode_image(png(1))
    processor.encode_image(png(1))  # outside, nothing is looked up or kept
    assert processor.seen.found == 0
    assert len(processor.seen._pictures) == 2


def test_no_more_is_kept_than_allowed() -> None:
    processor = Processor.for_bytes(CONFIG)
    with processor.seen.by():
        processor.encode_image(png(0))
        processor.seen.limit_bytes = 2 * processor.seen.bytes_used
        for seed in (1, 2, 1, 3):
            processor.encode_image(png(seed))
        assert processor.seen.found == 1
        assert processor.seen.bytes_used <= processor.seen.limit_bytes
        processor.encode_image(png(1))
    assert processor.seen.found == 2  # used again, so kept for longest
