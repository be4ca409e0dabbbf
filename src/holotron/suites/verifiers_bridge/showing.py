"""A chat request as something to look at: its last picture, or its text drawn on a page."""

from __future__ import annotations

import base64
import binascii
import io
import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from holotron.errors import EnvironmentFault
from holotron.types import Observation

Messages = Sequence[Mapping[str, Any]]
SIZE = (1024, 768)
_LINE, _MARGIN, _COLUMNS = 24, 24, 96
_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg"}


def content_text(messages: Iterable[Mapping[str, Any]]) -> str:
    found = []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, str):
            found.append(content)
        else:
            found += [part["text"] for part in content if part.get("type") == "text"]
    return "\n\n".join(text for text in found if text)


def last_picture(messages: Messages) -> str | None:
    """Its data URL."""
    urls = [
        part["image_url"]["url"]
        for message in messages
        if isinstance(message.get("content"), list)
        for part in message["content"]
        if part.get("type") == "image_url"
    ]
    return urls[-1] if urls else None


def shown(messages: Messages, new: Messages, tools: Sequence[Mapping[str, Any]]) -> Observation:
    """`new`: what came since the last reply; its words are the note. Tools are named once, with the first look."""
    note = content_text(message for message in new if message["role"] != "assistant")
    if not new and tools:
        written = "\n".join(
            f"{tool['name']}: {tool.get('description', '')} {json.dumps(tool.get('parameters', {}))}" for tool in tools
        )
        note = f'To call a tool, write {{"name": ..., "arguments": {{...}}}}. Tools:\n{written}'
    url = last_picture(messages)
    if url is None:
        picture, mime, size = _drawn(content_text(messages)), "image/png", SIZE
    else:
        picture, mime, size = _decoded(url)
    return Observation(picture, mime, size, size, note=note)


def _decoded(url: str) -> tuple[bytes, str, tuple[int, int]]:
    head, comma, data = url.partition(",")
    if not head.startswith("data:") or not comma:
        raise EnvironmentFault(f"a picture came as an address ({url[:60]}); only pictures inside the request are shown")
    try:
        raw = base64.b64decode(data, validate=True)
        with Image.open(io.BytesIO(raw)) as opened:
            if opened.format in _TYPES:
                return raw, _TYPES[opened.format], opened.size
            file = io.BytesIO()
            opened.convert("RGB").save(file, "PNG")
            return file.getvalue(), "image/png", opened.size
    except (OSError, binascii.Error) as error:
        raise EnvironmentFault(f"a picture of the request cannot be read: {error}") from error


def _drawn(text: str) -> bytes:
    lines = [part for line in text.splitlines() for part in (textwrap.wrap(line, _COLUMNS) or [""])]
    room = (SIZE[1] - 2 * _MARGIN) // _LINE
    image = Image.new("RGB", SIZE, "white")
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(size=17)
    for place, line in enumerate(lines[-room:]):  # what is newest
        pen.text((_MARGIN, _MARGIN + place * _LINE), line, "black", font)
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    return file.getvalue()
