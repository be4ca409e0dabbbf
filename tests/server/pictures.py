from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image


def data_url(colour: str = "red", size: tuple[int, int] = (96, 64), format: str = "PNG") -> str:
    return _url(Image.new("RGB", size, colour), format)


def png_url(pixels: np.ndarray) -> str:
    return _url(Image.fromarray(pixels), "PNG")


def _url(image: Image.Image, format: str) -> str:
    buffer = io.BytesIO()
    image.save(buffer, format)
    return f"data:image/{format.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def with_image(text: str, url: str) -> dict:
    return {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": text}],
    }
