from __future__ import annotations

import contextlib
import io
import struct
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from holotron.errors import InputError
from holotron.kernels import native
from holotron.model.processor import ImageConfig, ImageLimits, decode_image, normalise, tile_keys, to_tiles
from holotron.model.processor import png as plain_png
from holotron.model.processor.images import FORMATS, check_pixels
from holotron.model.processor.tiling import tile_count, tile_grid


def encoded(image: Image.Image, format: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=format, **options)
    return buffer.getvalue()


def picture(width: int = 64, height: int = 48) -> Image.Image:
    """Smooth, and different in every direction and channel."""
    y, x = np.mgrid[0:height, 0:width]
    channels = [255 * x / width, 255 * y / height, 127 + 100 * np.sin((x + y) / 25)]
    return Image.fromarray(np.stack(channels, axis=2).astype(np.uint8))


def png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int, height: int, *extra: bytes, data: bytes = b"") -> bytes:
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    body = png_chunk(b"IDAT", zlib.compress(data))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(extra) + body + png_chunk(b"IEND", b"")


# -------------------------------------------------------------------------------------------------------- good pictures


@pytest.mark.parametrize("format", ["PNG", "BMP"])
def test_lossless_formats_come_back_exactly(format):
    assert np.array_equal(decode_image(encoded(picture(), format)), np.asarray(picture()))


@pytest.mark.parametrize("format", ["JPEG", "WEBP"])
def test_lossy_formats_come_back_nearly(format):
    pixels = decode_image(encoded(picture(), format, quality=95))
    assert np.abs(pixels.astype(int) - np.asarray(picture()).astype(int)).mean() < 3


@pytest.mark.skipif(native.library() is None, reason="no C++ compiler, or no AVX2")
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    size=st.tuples(st.integers(1, 40), st.integers(1, 12)),
    channels=st.sampled_from([3, 4]),
    seed=st.integers(0, 1000),
    opaque=st.booleans(),
    cut=st.integers(1, 400),
)
def test_plain_png_files_are_read_as_pillow_reads_them(size, channels, seed, opaque, cut):
    """Lines of every kind of difference, in one part or several."""
    (width, height), draw = size, np.random.default_rng(seed)
    lines = draw.integers(0, 256, (height, 1 + channels * width), np.uint8)
    lines[:, 0] = draw.integers(0, 5, height)
    if opaque and channels == 4:
        lines[:, 0] = 0
        lines[:, 4::4] = 255
    packed = zlib.compress(lines.tobytes())
    parts = [png_chunk(b"IDAT", packed[n : n + cut]) for n in range(0, len(packed), cut)]
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 6, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + header + png_chunk(b"gAMA", bytes(4)) + b"".join(parts) + png_chunk(b"IEND", b"")
    read, wanted = plain_png.decode(data), decode_image(Image.open(io.BytesIO(data)))
    assert np.array_equal(decode_image(data), wanted)
    if channels == 3 or opaque:
        assert read is not None and np.array_equal(read, wanted)
    elif not (lines[:, 0] == 0).all():
        assert read is None or np.array_equal(read, wanted)


def test_files_that_are_not_plain_are_left_to_pillow():
    good = encoded(picture(20, 10))
    assert plain_png.decode(good) is not None or native.library() is None
    turned = Image.Exif()
    turned[0x0112] = 6
    kinds = {
        "grey": encoded(picture(20, 10).convert("L")),
        "palette": encoded(picture(20, 10).convert("P")),
        "turned": encoded(picture(20, 10), exif=turned),
        "cut off": good[:-20],
        "one bit other": good[:60] + bytes([good[60] ^ 1]) + good[61:],
        "more behind the data": png(2, 1, data=bytes(7 + 5)),
        "too little": png(2, 2, data=bytes(7)),
        "no such difference": png(1, 1, data=b"\7abc"),
        "of what is transparent": png(1, 1, png_chunk(b"tRNS", bytes(6)), data=b"\0abc"),
        "not a PNG": b"GIF89a" + good,
        "empty": b"",
    }
    for what, data in kinds.items():
        assert plain_png.decode(data) is None, what


def test_exif_rotation_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate by 90 degrees clockwise
    pixels = decode_image(encoded(picture(), "PNG", exif=exif))
    assert np.array_equal(pixels, np.rot90(np.asarray(picture()), k=-1))


def test_broken_exif_does_not_cost_the_picture():
    data = encoded(picture(), "JPEG", exif=b"Exif\x00\x00MM\x00*\xff\xff\xff\xff garbage")
    assert decode_image(data).shape == (48, 64, 3)


def test_sixteen_bit_greys_are_scaled_not_clipped():
    ramp = np.linspace(0, 65535, 256).astype(np.uint16)[None].repeat(4, axis=0)
    pixels = decode_image(encoded(Image.fromarray(ramp)))
    assert np.array_equal(pixels[0, :, 0], np.arange(256))
    assert np.array_equal(pixels[:, :, 0], pixels[:, :, 2])


def test_cmyk_becomes_rgb():
    red = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    pixels = decode_image(encoded(red, "JPEG", quality=100))
    assert pixels[4, 4, 0] > 240
    assert pixels[4, 4, 1:].max() < 15


@pytest.mark.parametrize("mode", ["1", "L", "LA", "RGBA", "P"])
def test_every_mode_becomes_rgb(mode):
    pixels = decode_image(encoded(picture().convert(mode)))
    assert pixels.shape == (48, 64, 3)
    assert pixels.dtype == np.uint8


def test_transparency_lies_over_white():
    glass = Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    glass.putpixel((0, 0), (0, 0, 255, 255))
    pixels = decode_image(encoded(glass))
    assert pixels[0, 0].tolist() == [0, 0, 255]
    assert pixels[3, 3].tolist() == [255, 255, 255]


def test_a_palette_with_a_transparent_colour_lies_over_white():
    drawing = Image.new("P", (4, 4), 0)
    drawing.putpalette([0, 0, 0, 255, 0, 0])
    drawing.putpixel((1, 1), 1)
    pixels = decode_image(encoded(drawing, transparency=0))
    assert pixels[0, 0].tolist() == [255, 255, 255]
    assert pixels[1, 1].tolist() == [255, 0, 0]


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP"])
def test_an_animation_is_its_first_frame(format):
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "lime", "blue")]
    options = {"lossless": True} if format == "WEBP" else {}
    data = encoded(frames[0], format, save_all=True, append_images=frames[1:], duration=50, **options)
    assert (decode_image(data) == [255, 0, 0]).all()


def test_an_opened_image_is_taken_as_well():
    assert np.array_equal(decode_image(picture()), np.asarray(picture()))


# ----------------------------------------------------------------------------------------------------- hostile pictures


@pytest.mark.parametrize("format", FORMATS)
def test_truncated_files_are_refused(format):
    data = encoded(picture(200, 200), format)
    for keep in (1, 5, 20, len(data) // 2):
        with pytest.raises(InputError, match="image"):
            decode_image(data[:keep])


def test_a_header_that_promises_gigapixels_is_refused_unread():
    for side in (20_000, 60_000, 2**31 - 1):
        with pytest.raises(InputError, match=r"pixels|decoded"):
            decode_image(png(side, side))


def test_the_pixel_limit_is_checked_before_unpacking():
    with pytest.raises(InputError, match=r"6000x6000.*33,554,432 pixels"):
        decode_image(png(6000, 6000))  # without data: decoding would fail differently


def test_compressed_text_chunks_cannot_blow_up():
    bomb = png_chunk(b"zTXt", b"k\0\0" + zlib.compress(b"\0" * 2**24))
    with pytest.raises(InputError):
        decode_image(png(8, 8, bomb, data=b"\0" * 8 * 25))


def test_a_thread_thin_image_is_refused_or_read():
    thread = encoded(Image.new("L", (1, 100_000), 200))
    with pytest.raises(InputError, match="1x100000"):
        decode_image(thread)
    pixels = decode_image(thread, ImageLimits(max_side=200_000))
    assert to_tiles(pixels, ImageConfig(tile_size=32)).shape == (13, 3, 32, 32)
    omni = ImageConfig(min_patches=1024, max_patches=13312)
    tiles = to_tiles(pixels, omni)
    assert len(tiles) == 1
    assert tiles.float().mean() == pytest.approx(200)


def test_limits_are_configurable():
    data = encoded(picture())
    for limits in (ImageLimits(max_bytes=10), ImageLimits(max_pixels=100), ImageLimits(max_side=63)):
        with pytest.raises(InputError, match=r"limit|exceed"):
            decode_image(data, limits)


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%PDF-1.7", b"II*\0", b"GIF89a", b"BM"]
)
def test_what_is_no_image_is_refused(data):
    with pytest.raises(InputError, match="image"):
        decode_image(data)


def test_other_formats_of_the_library_stay_closed():
    for format in ("TIFF", "ICO", "PPM"):
        with pytest.raises(InputError, match="none of PNG"):
            decode_image(encoded(picture(), format))


SAMPLES = [encoded(picture(), format) for format in FORMATS] + [
    encoded(picture().quantize(16), "PNG"),
    encoded(picture(), "JPEG", progressive=True, exif=b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x00"),
    encoded(picture(), "GIF", save_all=True, append_images=[Image.new("RGB", (64, 48))]),
]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SAMPLES), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=6), st.data())
def test_damaged_files_give_a_picture_or_a_clean_error(sample, damage, data):
    broken = bytearray(sample[: data.draw(st.integers(1, len(sample)))] if data.draw(st.booleans()) else sample)
    for place, value in damage:
        broken[place % len(broken)] = value
    with contextlib.suppress(InputError):
        pixels = decode_image(bytes(broken), ImageLimits(max_pixels=10**6))
        assert pixels.dtype == np.uint8
        assert pixels.ndim == 3


@pytest.mark.parametrize(
    "array", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.float32), np.zeros((0, 4, 3), np.uint8)]
)
def test_arrays_have_to_be_rgb(array):
    with pytest.raises(InputError):
        check_pixels(array)


# ---------------------------------------------------------------------------------------------------------------- tiles


@pytest.mark.parametrize("size", [(1280, 720), (481, 202), (300, 900), (40, 30)])
def test_tiles_are_the_resized_picture_cut_row_by_row(size):
    config = ImageConfig(tile_size=64)
    image = picture(*size)
    tiles = to_tiles(np.asarray(image), config)
    assert tiles.shape == (tile_count(*size, config), 3, 64, 64)
    assert tiles.dtype == torch.uint8

    columns, rows = tile_grid(*size, config)
    # Pillow's own bicubic filter is the oracle; it rounds twice, hence the tolerance of two.
    whole = np.asarray(image.resize((columns * 64, rows * 64), Image.Resampling.BICUBIC)).astype(int)
    for n in range(columns * rows):
        y, x = divmod(n, columns)
        part = whole[y * 64 : (y + 1) * 64, x * 64 : (x + 1) * 64]
        assert np.abs(tiles[n].permute(1, 2, 0).numpy().astype(int) - part).max() <= 2
    thumbnail = np.asarray(image.resize((64, 64), Image.Resampling.BICUBIC)).astype(int)
    assert np.abs(tiles[-1].permute(1, 2, 0).numpy().astype(int) - thumbnail).max() <= 2


def test_a_picture_of_the_right_size_is_not_resampled():
    image = np.asarray(picture(128, 64)).copy()
    tiles = to_tiles(image, ImageConfig(tile_size=64, use_thumbnail=False))
    left, right = torch.from_numpy(image).permute(2, 0, 1).split(64, dim=2)
    assert torch.equal(tiles[0], left)
    assert torch.equal(tiles[1], right)


def test_sharp_edges_do_not_wrap_around():
    edge = np.zeros((50, 50, 3), np.uint8)
    edge[:, 25:] = 255
    tile = to_tiles(edge, ImageConfig(tile_size=64))[0]
    assert tile[:, :, :20].max() == 0
    assert tile[:, :, -20:].min() == 255


def test_dynamic_resolution_gives_one_picture_of_whole_patches():
    config = ImageConfig(min_patches=16, max_patches=64, patch_size=8, tile_size=32)
    tiles = to_tiles(np.asarray(picture(70, 40)), config)
    assert tiles.shape[0] == 1
    assert tiles.shape[2] % 16 == tiles.shape[3] % 16 == 0
    assert tiles.shape[3] > tiles.shape[2]


def test_normalisation():
    config = ImageConfig(mean=(0.5, 0.25, 0.0), std=(0.5, 0.25, 1.0))
    tiles = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 1, 3, 1).expand(1, 3, 3, 1)
    expected = torch.tensor([[-1.0, -0.6, 1.0], [-1.0, -0.2, 3.0], [0.0, 0.2, 1.0]]).view(1, 3, 3, 1)
    assert torch.allclose(normalise(tiles, config), expected, atol=1e-6)
    assert normalise(tiles, config, torch.bfloat16).dtype == torch.bfloat16


def test_tile_keys_depend_on_content_alone():
    config = ImageConfig(tile_size=64)
    screen = np.asarray(picture(256, 128)).copy()
    keys = tile_keys(to_tiles(screen, config))
    assert keys == tile_keys(to_tiles(screen.copy(), config))
    assert len(set(keys)) == len(keys) == 9
    screen[100:, 200:] = 0  # the last tile of the last row, and with it the thumbnail
    changed = tile_keys(to_tiles(screen, config))
    assert [a == b for a, b in zip(keys, changed, strict=True)] == [True] * 7 + [False] * 2


def test_tile_keys_depend_on_shape():
    flat = torch.zeros(1, 3, 32, 64, dtype=torch.uint8)
    assert tile_keys(flat) != tile_keys(flat.view(1, 3, 64, 32))


@pytest.mark.gpu
@pytest.mark.parametrize("size", [(1920, 1080), (481, 202)])
def test_tiles_made_on_a_gpu_are_those_of_the_cpu(size):
    image = torch.from_numpy(np.asarray(picture(*size)).copy())
    tiles, config = to_tiles(image, ImageConfig()), ImageConfig()
    on_gpu = to_tiles(image.cuda(), config)
    assert on_gpu.is_cuda
    assert (on_gpu.cpu().int() - tiles.int()).abs().max() <= 1  # a tie may round the other way
    assert torch.allclose(normalise(tiles.cuda(), config).cpu(), normalise(tiles, config), atol=1e-6)
