from __future__ import annotations

import base64
import io

from PIL import Image


def data_url(colour: str = "red", size: tuple[int, int] = (96, 64), format: str = "PNG") -> str:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, format)
    return f"data:image/{format.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def with_image(text: str, url: str) -> dict:
    return {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": text}],
    }
