"""Messages as clients send them (OpenAI's shapes) to the plain form templates take, and the images they carry.

Content becomes a string, or a list of `{"type": "text", "text": ...}` and `{"type": "image"}`; tool-call arguments
become objects. Texts stay as they are: that they cannot be taken for control tokens is the business of `ink`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from holotron.errors import InputError
from holotron.model.processor.images import ImageLimits, TiledImage, check_pixels, decode_image

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
ImageSource = bytes | str | np.ndarray | Image.Image | TiledImage  # a string is a data: URL

_DATA_URL = re.compile(r"data:(?:[\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,(.*)", re.S | re.I)


@dataclass(frozen=True, slots=True)
class PlainChat:
    messages: list[dict[str, Any]]
    tools: Sequence[Mapping[str, Any]] | None
    images: list[ImageSource]  # in the order of the parts


def plain_chat(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> PlainChat:
    if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence) or not messages:
        raise InputError("messages must be a list with at least one message")
    if tools is not None and (isinstance(tools, str | Mapping) or not isinstance(tools, Sequence)):
        raise InputError("tools must be a list of tool definitions")
    for n, tool in enumerate(tools or ()):
        if not isinstance(tool, Mapping) or not isinstance(_function(tool).get("name"), str):
            raise InputError(f"tools[{n}] must be an object with a function and its name")
    images: list[ImageSource] = []
    plain = [_message(message, f"messages[{n}]", images) for n, message in enumerate(messages)]
    return PlainChat(plain, tools or None, images)


def _function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function = tool.get("function", tool)
    return function if isinstance(function, Mapping) else {}


def _message(message: Any, where: str, images: list[ImageSource]) -> dict[str, Any]:
    if not isinstance(message, Mapping) or message.get("role") not in ROLES:
        raise InputError(f"{where} must be an object whose role is one of {', '.join(ROLES)}")
    role = ROLES[message["role"]]
    plain: dict[str, Any] = {"role": role}

    content = message.get("content")
    if content is None or isinstance(content, str):
        plain["content"] = content or ""
    elif isinstance(content, Sequence):
        plain["content"] = [_part(part, f"{where}.content[{n}]", images) for n, part in enumerate(content)]
    else:
        raise InputError(f"{where}.content must be a string or a list of parts, found {type(content).__name__}")

    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str):
        plain["reasoning_content"] = reasoning
    if calls := message.get("tool_calls"):
        if not isinstance(calls, Sequence) or not all(isinstance(call, Mapping) for call in calls):
            raise InputError(f"{where}.tool_calls must be a list of calls")
        plain["tool_calls"] = [_call(call, f"{where}.tool_calls") for call in calls]
    for key in ("name", "tool_call_id"):
        if isinstance(message.get(key), str):
            plain[key] = message[key]
    return plain


def _part(part: Any, where: str, images: list[ImageSource]) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind in ("text", "input_text", "output_text"):
        if not isinstance(part.get("text"), str):
            raise InputError(f"{where} is a text part without text")
        return {"type": "text", "text": part["text"]}
    if kind in ("image", "image_url", "input_image"):
        source = part.get("image") if kind == "image" else part.get("image_url")
        if isinstance(source, Mapping):
            source = source.get("url")
        if not isinstance(source, ImageSource):
            raise InputError(f"{where} is an image part without an image (a data: URL, bytes, or pixels)")
        images.append(source)
        return {"type": "image"}
    raise InputError(f"{where} has type {kind!r}; text, image and image_url are understood")


def _call(call: Mapping[str, Any], where: str) -> dict[str, Any]:
    function = dict(_function(call))
    if not isinstance(function.get("name"), str):
        raise InputError(f"{where} holds a call without a function name")
    arguments = function.get("arguments")
    if isinstance(arguments, str):  # as OpenAI has it; templates expect the object
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: the arguments of {function['name']} are not JSON: {error}") from None
    if not isinstance(arguments or {}, Mapping):
        raise InputError(f"{where}: the arguments of {function['name']} must be an object")
    return {"type": "function", "function": {"name": function["name"], "arguments": arguments or {}}}


def load_image(source: bytes | str | np.ndarray | Image.Image, limits: ImageLimits) -> np.ndarray:
    """Whatever form an image was handed over in, to uint8 RGB [height, width, 3]."""
    if isinstance(source, str):
        return decode_image(_from_data_url(source, limits), limits)
    if isinstance(source, np.ndarray):
        return check_pixels(source, limits)
    return decode_image(source, limits)


def _from_data_url(url: str, limits: ImageLimits) -> bytes:
    if len(url) > limits.max_bytes * 4 // 3 + 256:
        raise InputError(f"the image's data URL has {len(url):,} characters; the limit is {limits.max_bytes:,} bytes")
    if not url[:5].lower() == "data:":
        raise InputError("images are accepted as base64 data: URLs; fetch other addresses before handing them over")
    if not (found := _DATA_URL.fullmatch(url)):
        raise InputError("the image's data URL must have the form data:image/png;base64,...")
    try:
        return base64.b64decode("".join(found[1].split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"the image's data URL is not valid base64: {error}") from None
