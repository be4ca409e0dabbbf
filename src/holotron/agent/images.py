"""The screenshot as the model sees it.

Most models take any size. Some (Qwen2.5-VL and with it Holo1.5) resize inside their processor to multiples of a patch
and then point in pixels of *that* image: for them the resize is done here, so that the image sent is the image seen and
`pixels` coordinates mean what they say.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass

from PIL import Image as PillowImage

from holotron.errors import ConfigError
from holotron.types import Observation

Size = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Image:
    """Encoded bytes with the size they decode to."""

    data: bytes
    mime: str
    size: Size


@dataclass(frozen=True, slots=True)
class Resize:
    """Fit an image into a pixel budget with sides that are multiples of `multiple`, aspect ratio kept."""

    max_pixels: int
    multiple: int = 1
    min_pixels: int = 0

    def __post_init__(self) -> None:
        if self.multiple < 1 or self.max_pixels < self.multiple**2 or self.min_pixels > self.max_pixels:
            raise ConfigError(f"resize to at most {self.max_pixels} pixels in steps of {self.multiple} is impossible")

    def target(self, size: Size) -> Size:
        width, height = size
        step = self.multiple

        new = max(step, round(width / step) * step), max(step, round(height / step) * step)
        if new[0] * new[1] > self.max_pixels:
            scale = math.sqrt(width * height / self.max_pixels)
            new = (
                max(step, math.floor(width / scale / step) * step),
                max(step, math.floor(height / scale / step) * step),
            )
        elif new[0] * new[1] < self.min_pixels:
            scale = math.sqrt(self.min_pixels / (width * height))
            new = math.ceil(width * scale / step) * step, math.ceil(height * scale / step) * step
        return new


QWEN25 = Resize(max_pixels=16384 * 28 * 28, multiple=28, min_pixels=4 * 28 * 28)


def prepare(observation: Observation, resize: Resize | None) -> Image:
    """The screenshot ready to be sent: the very bytes when nothing has to change, else a resized lossless copy."""
    size = observation.image_size
    target = resize.target(size) if resize else size
    if target == size:
        return Image(observation.image, observation.mime, size)
    with PillowImage.open(io.BytesIO(observation.image)) as picture:
        smaller = picture.convert("RGB").resize(target, PillowImage.Resampling.LANCZOS)
    buffer = io.BytesIO()
    smaller.save(buffer, "PNG", compress_level=1)
    return Image(buffer.getvalue(), "image/png", target)
