"""What a request may hold, checked before any of it is worked on.

In the order in which a request meets them: bytes of its body (`bodies`), JSON values in it (`check_values`), messages,
tools and schemas (`check_chat`), tokens (`prompt_texts`, for `tokenising.TextGauge`), pixels (`pictures`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from holotron.server.errors import ApiError
from holotron.server.settings import LimitSettings
from holotron.server.wire import ChatRequest, CompletionRequest, Message, SchemaFormat, Tool

_OUTSIDE_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{,]', re.S)


_BLOCK = 1 << 20


def many_values(limits: LimitSettings, data: bytes) -> bool:
    """Whether a JSON text may have more values than allowed. Reading JSON takes time per value, not per byte, and keeps
    Python's lock: 60 MB of `[],[],[],` would stop the server for a minute.

    A comma is a value more, a bracket an object or list more. Those inside strings are counted too: that is fast, and
    most requests stay below the limits even so. Block by block, so that others may work in between.
    """
    objects = values = 0
    for start in range(0, len(data), _BLOCK):
        objects += data.count(b"{", start, start + _BLOCK) + data.count(b"[", start, start + _BLOCK)
        values += data.count(b",", start, start + _BLOCK)
    return objects > limits.max_json_objects or values > limits.max_json_values


def check_values(limits: LimitSettings, data: bytes) -> None:
    """Counted exactly, on a worker. Each match is a step of Python's own, so others may work in between."""
    objects = values = 0
    for found in _OUTSIDE_STRINGS.finditer(data):
        first = data[found.start()]
        if first == 0x2C:
            values += 1
        elif first != 0x22:
            objects += 1
        if objects > limits.max_json_objects or values > limits.max_json_values:
            raise ApiError(
                413,
                f"the request has more than {limits.max_json_objects:,} JSON objects and lists, "
                f"or {limits.max_json_values:,} values",
                code="request_too_large",
            )


def check_chat(
    limits: LimitSettings,
    messages: Sequence[Message],
    tools: Sequence[Tool] | None,
) -> None:
    if len(messages) > limits.max_messages:
        message = f"the request has {len(messages):,} messages; the limit is {limits.max_messages:,}"
        raise ApiError(400, message, code="too_many_messages", param="messages")
    if len(tools or ()) > limits.max_tools:
        message = f"the request has {len(tools or ()):,} tools; the limit is {limits.max_tools:,}"
        raise ApiError(400, message, code="too_many_tools", param="tools")
    for tool in tools or ():
        check_schema(limits, tool.function.parameters, "tools")


def check_format(limits: LimitSettings, format: Any) -> None:
    if isinstance(format, SchemaFormat):
        check_schema(limits, format.json_schema.schema_, "response_format")


def check_schema(limits: LimitSettings, schema: Any, param: str) -> None:
    limit = limits.max_schema_bytes
    if size_of(schema, limit) > limit:
        raise ApiError(400, f"a schema has more than {limit:,} bytes", code="schema_too_large", param=param)


def size_of(value: Any, limit: int) -> int:
    """About how many bytes of JSON; not counted on beyond the limit."""
    size, rest = 0, [value]
    while rest and size <= limit:
        one = rest.pop()
        if isinstance(one, str):
            size += len(one) + 2
        elif isinstance(one, dict):
            size += 2 + sum(len(key) + 4 for key in one)
            rest.extend(one.values())
        elif isinstance(one, list):
            size += 2 + len(one)
            rest.extend(one)
        else:
            size += 4
    return size


def prompt_texts(request: ChatRequest | CompletionRequest | Sequence[Message]) -> list[list[str]]:
    """The texts that are going to be tokenised, by prompt.

    Templates leave out earlier reasoning, so it does not count, in whichever of its two places it stands.
    """
    if isinstance(request, CompletionRequest):
        prompts = [request.prompt] if isinstance(request.prompt, str) else request.prompt
        return [[prompt] for prompt in prompts if isinstance(prompt, str)]
    messages = request.messages if isinstance(request, ChatRequest) else request
    texts: list[str] = []
    for message in messages:
        parts = [message.content] if isinstance(message.content, str) else message.content or []
        said = [part if isinstance(part, str) else getattr(part, "text", "") for part in parts]
        if message.role == "assistant":
            said = [text.rpartition("</think>")[2] for text in said]
        texts += said
        for call in message.tool_calls or ():
            arguments = call.function.arguments
            texts.append(arguments if isinstance(arguments, str) else "")
    tools = request.tools or () if isinstance(request, ChatRequest) else ()
    texts += [tool.function.description or "" for tool in tools]
    return [[text for text in texts if text]]
