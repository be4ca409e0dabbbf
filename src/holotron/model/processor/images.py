"""Bytes from anywhere to clean RGB pixels, and pixels to the tiles of the vision tower.

Decoding trusts nothing: size is read from the header and checked before a pixel is unpacked, only five
formats are tried, and whatever goes wrong inside a decoder comes out as one `InputError`. Browsers' own screenshots are
read without Pillow (`png`), in half of its time. What arrives is
always plain 8-bit RGB: the first frame of an animation, rotated as its EXIF says, 16-bit greys scaled down
(not clipped), CMYK converted, transparency laid over white as a browser would.

Resizing is bicubic with antialiasing in float32, as the published processor does, then rounded and clamped
to bytes. The published code keeps the floats, including the overshoot beyond black and white beside sharp
edges; the serving stacks clamp it, and so do we: a byte is what can be hashed, cached and moved at a
quarter of the cost. Qwen's processor works in bytes throughout, and for its models so do we.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import io
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn.functional import interpolate

from holotron.errors import InputError
from holotron.kernels.native import library, resize
from holotron.model.processor import png
from holotron.model.processor.tiling import ImageConfig, patch_grid, tile_grid

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
STRIP = 2**21  # pixels: a full-HD screen


@dataclass(frozen=True)
class ImageLimits:
    """What an image may cost before it is refused. The defaults admit an 8K screenshot."""

    max_bytes: int = 32 * 2**20
    max_pixels: int = 2**25
    max_side: int = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class TiledImage:
    """A picture that is cut into tiles already: by whoever writes many prompts about the same one, or wants to cut
    pictures one by one and apart from the prompt. An engine takes it if its tiles have keys (`tile_keys`)."""

    tiles: Tensor  # uint8 [n, 3, height, width], as `to_tiles` makes them
    size: tuple[int, int]  # of the picture before
    keys: tuple[bytes, ...] = ()


def decode_image(source: bytes | Image.Image, limits: ImageLimits | None = None) -> np.ndarray:
    """Encoded (or opened) image to uint8 RGB [height, width, 3]. Anything unreadable or too large: `InputError`."""
    limits = limits or ImageLimits()
    if isinstance(source, bytes) and not source:
        raise InputError("the image is empty (0 bytes)")
    if isinstance(source, bytes) and len(source) > limits.max_bytes:
        raise InputError(f"the image has {len(source):,} bytes; the limit is {limits.max_bytes:,}")
    if isinstance(source, bytes) and (size := png.size_of(source)) is not None:
        _check_size(*size, limits)
        if (pixels := png.decode(source)) is not None:
            return pixels
    try:
        # Pillow's decoders raise almost anything on broken files (OSError, SyntaxError, struct.error, ValueError,
        # MemoryError, ...), so everything that is not ours means "unreadable".
        image = Image.open(io.BytesIO(source), formats=FORMATS) if isinstance(source, bytes) else source
        _check_size(*image.size, limits)
        image.load()
        return _to_rgb(_upright(image))
    except InputError:
        raise
    except Image.UnidentifiedImageError:
        raise InputError(f"the image is none of {', '.join(FORMATS)}, or its header is broken") from None
    except Image.DecompressionBombError:
        raise InputError(f"the image has more pixels than the limit of {limits.max_pixels:,}") from None
    except Exception as error:
        raise InputError(f"the image cannot be decoded: {str(error) or type(error).__name__}") from error


def _check_size(width: int, height: int, limits: ImageLimits) -> None:
    if min(width, height) < 1:
        raise InputError(f"the image is {width}x{height}: it has no pixels")
    if max(width, height) > limits.max_side:
        raise InputError(f"the image is {width}x{height}; no side may exceed {limits.max_side:,} pixels")
    if width * height > limits.max_pixels:
        raise InputError(f"the image is {width}x{height}; the limit is {limits.max_pixels:,} pixels")


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # broken metadata is no reason to refuse a good picture
        return image


def _to_rgb(image: Image.Image) -> np.ndarray:
    """A large picture strip by strip: Pillow keeps Python's lock while it converts and copies one."""
    rows = max(1, STRIP // image.width)
    if image.height <= 2 * rows:
        return _strip_to_rgb(image)
    whole = np.empty((image.height, image.width, 3), np.uint8)
    for top in range(0, image.height, rows):
        bottom = min(top + rows, image.height)
        whole[top:bottom] = _strip_to_rgb(image.crop((0, top, image.width, bottom)))
    return whole


def _strip_to_rgb(image: Image.Image) -> np.ndarray:
    if image.mode.startswith("I"):
        # 16-bit greys. Pillow's own conversion clips at 255 and makes nearly everything white.
        grey = (np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        backdrop = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(backdrop, image)
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


def check_pixels(image: np.ndarray, limits: ImageLimits | None = None) -> np.ndarray:
    """An array that claims to be an RGB image, or an `InputError` that says why it is none."""
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise InputError(f"an image array must be uint8 [height, width, 3], found {image.dtype} {list(image.shape)}")
    _check_size(image.shape[1], image.shape[0], limits or ImageLimits())
    return image


def to_tiles(image: np.ndarray | Tensor, config: ImageConfig) -> Tensor:
    """uint8 RGB [height, width, 3] to uint8 tiles [n, 3, tile, tile], thumbnail last.

    At dynamic resolution it is one picture [1, 3, rows * patch, columns * patch]. Tensors stay on their
    device.
    """
    bytewise = config.dynamic and config.min_pixels is not None  # see `_resize_bytes`
    if isinstance(image, np.ndarray) and not bytewise and (found := library()) is not None:
        return _to_tiles_natively(np.ascontiguousarray(image), config, found)
    if isinstance(image, np.ndarray):  # torch shares memory, but not of read-only or mirrored arrays
        image = torch.from_numpy(np.require(image, requirements=["C", "W"]))
    pixels = image.permute(2, 0, 1)[None]
    height, width = pixels.shape[-2:]
    if config.dynamic:
        columns, rows = patch_grid(width, height, config)
        resize = _resize_bytes if bytewise and pixels.device.type == "cpu" else _resize
        return resize(pixels, rows * config.patch_size, columns * config.patch_size)
    columns, rows = tile_grid(width, height, config)
    size = config.tile_size
    sheet = _resize(pixels, rows * size, columns * size)
    tiles = sheet.view(3, rows, size, columns, size).permute(1, 3, 0, 2, 4).reshape(-1, 3, size, size)
    if config.use_thumbnail and len(tiles) > 1:
        tiles = torch.cat([tiles, _resize(pixels, size, size)])
    return tiles


def _to_tiles_natively(image: np.ndarray, config: ImageConfig, native: ctypes.CDLL) -> Tensor:
    """The same in a tenth of the time; results differ by at most one level where torch's sums end between two."""
    height, width = image.shape[:2]
    if config.dynamic:
        columns, rows = patch_grid(width, height, config)
        return resize(native, image, 1, 1, rows * config.patch_size, columns * config.patch_size)
    columns, rows = tile_grid(width, height, config)
    size = config.tile_size
    tiles = resize(native, image, rows, columns, size, size)
    if config.use_thumbnail and len(tiles) > 1:
        tiles = torch.cat([tiles, resize(native, image, 1, 1, size, size)])
    return tiles


def _resize(pixels_1chw: Tensor, height: int, width: int) -> Tensor:
    if pixels_1chw.shape[-2:] == (height, width):
        return pixels_1chw.contiguous()
    resized = interpolate(pixels_1chw.float().contiguous(), size=(height, width), mode="bicubic", antialias=True)
    return resized.round_().clamp_(0, 255).to(torch.uint8)


def _resize_bytes(pixels_1chw: Tensor, height: int, width: int) -> Tensor:
    """As Qwen's published processor does it: rows, then columns, each rounded and clamped to bytes. Beside sharp edges
    that is up to 20 levels from one resize in fp32."""
    if pixels_1chw.shape[-2:] == (height, width):
        return pixels_1chw.contiguous()
    return interpolate(pixels_1chw, size=(height, width), mode="bicubic", antialias=True).contiguous()


def normalise(tiles: Tensor, config: ImageConfig, dtype: torch.dtype = torch.float32) -> Tensor:
    """uint8 tiles to what the tower reads: (pixel / 255 - mean) / std, in fp32, on the tiles' own device."""
    return rescale(tiles, *channels(config, tiles.device), dtype)


def rescale(tiles: Tensor, mean: Tensor, std: Tensor, dtype: torch.dtype) -> Tensor:
    return ((tiles.float() / 255 - mean) / std).to(dtype)


def channels(config: ImageConfig, device: torch.device) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each colour."""
    return _channels(config.mean, device), _channels(config.std, device)


@functools.lru_cache(maxsize=16)
def _channels(values: tuple[float, ...], device: torch.device) -> Tensor:
    """One number per colour. Made once: a copy to a GPU would wait for all that it still has to do."""
    with torch.inference_mode(False):
        return torch.tensor(values, device=device)[:, None, None]


def tile_keys(tiles: Tensor) -> list[bytes]:
    """One 16-byte key per tile, from shape and content alone: equal tiles of any two sessions share it."""
    shape = repr(tuple(tiles.shape[1:])).encode()

    def key(tile: np.ndarray) -> bytes:
        digest = hashlib.sha256(shape)  # processors have instructions for it
        digest.update(tile.data)
        return digest.digest()[:16]

    return [key(tile) for tile in tiles.cpu().contiguous().numpy()]
