"""Chat messages in one neutral form: what dialects write and policies send."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from holotron.agent.images import Image
from holotron.quoting import valid

Part = str | Image


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["system", "user", "assistant", "tool"]
    parts: tuple[Part, ...]
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    def __post_init__(self) -> None:
        """Pages and models can say half of a surrogate pair; a request cannot, and must not fail for it."""
        parts = tuple(valid(part) if isinstance(part, str) else part for part in self.parts)
        object.__setattr__(self, "parts", parts)

    @property
    def text(self) -> str:
        return "".join(part for part in self.parts if isinstance(part, str))

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(part for part in self.parts if isinstance(part, Image))


def count_images(messages: Iterable[Message]) -> int:
    return sum(len(message.images) for message in messages)


def to_openai(message: Message) -> dict[str, Any]:
    """The message as the OpenAI chat API wants it, images as data URLs."""
    data: dict[str, Any] = {"role": message.role}
    if message.images:
        data["content"] = [_openai_part(part) for part in message.parts if part != ""]
    else:
        data["content"] = message.text
    if message.tool_calls:
        data["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": valid(json.dumps(call.arguments, ensure_ascii=False))},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        data["tool_call_id"] = message.tool_call_id
    return data


def _openai_part(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    encoded = base64.b64encode(part.data).decode("ascii")
    return {"type": "image_url", "image_url": {"url": f"data:{part.mime};base64,{encoded}"}}
