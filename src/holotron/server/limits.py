"""What a request may hold, checked before any of it is worked on.

In the order in which a request meets them: bytes of its body (`bodies`), JSON values in it (`check_values`), messages,
tools and schemas (`check_chat`), tokens (`prompt_texts`, for `tokenising.TextGauge`), pixels (`pictures`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from holotron.server.errors import ApiError
from holotron.server.settings import LimitSettings
from holotron.server.wire import ChatRequest, CompletionRequest, Message, SchemaFormat, Tool

_BLOCK = 1 << 20  # bytes or letters looked at in one go: a millisecond or a few, then others may work
_SIGN = re.compile(rb'[\[{,:]|"(?:[^"\\]{0,4096}+")?+')  # or a short text; of others the quote
_TEXT = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.S)
_QUOTE = ord('"')


def many_values(limits: LimitSettings, data: bytes) -> bool:
    """Whether a JSON text may have more values than allowed. Reading JSON takes time per value, not per byte, and keeps
    Python's lock: 60 MB of `[],[],[],` would stop the server for a minute.

    A comma is a value more, a colon a named one, a bracket an object or list more, a backslash a letter that is written
    as an escape. Those inside strings are counted too: that is fast, and most requests stay below the limits even so.
    """
    counted, letters = Counter[int](), np.frombuffer(data, np.uint8)  # five times as fast as counting in bytes
    for start in range(0, len(data), _BLOCK):
        block = letters[start : start + _BLOCK]
        for sign in b"{[,:\\":
            counted[sign] += int(np.count_nonzero(block == sign))
    return _too_many(limits, counted)


def _too_many(limits: LimitSettings, counted: Counter[int]) -> bool:
    return (
        counted[ord("{")] + counted[ord("[")] > limits.max_json_objects
        or counted[ord(",")] > limits.max_json_values
        or counted[ord(":")] > limits.max_json_members
        or counted[ord("\\")] > limits.max_json_escapes
    )


def check_values(limits: LimitSettings, data: bytes) -> None:
    """Counted exactly, on a worker: no sign in a text counts, but for escapes, which stand nowhere else. Step by step,
    so that others may work in between."""
    escapes = sum(data.count(b"\\", start, start + _BLOCK) for start in range(0, len(data), _BLOCK))
    counted = Counter({ord("\\"): escapes})
    signs = _outside_texts(data)
    while not _too_many(limits, counted) and (some := list(islice(signs, 4096))):
        counted.update(some)
    if _too_many(limits, counted):
        raise ApiError(
            413,
            f"the request has more than {limits.max_json_objects:,} JSON objects and lists, "
            f"{limits.max_json_values:,} values, {limits.max_json_members:,} of them named, "
            f"or {limits.max_json_escapes:,} escapes in its texts",
            code="request_too_large",
        )


def _outside_texts(data: bytes) -> Iterator[int]:
    """The brackets, commas and colons of a JSON text that stand in none of its strings."""
    place, inside = 0, False
    while place < len(data):
        end = min(place + _BLOCK, len(data))
        if inside:
            text = _TEXT.match(data, place, end)
            assert text is not None  # it matches the empty text, too
            if text.end() < end and data[text.end()] == _QUOTE:
                place, inside = text.end() + 1, False
            elif text.end() > place:
                place = text.end()  # the block's end; it may divide an escape
            else:
                return  # a backslash and nothing: whoever reads it will say so
            continue
        for found in _SIGN.finditer(data, place, end):
            sign = data[found.start()]
            if sign != _QUOTE:
                yield sign
            elif found.end() == found.start() + 1:
                place, inside = found.end(), True
                break
        else:
            place = end


def check_chat(
    limits: LimitSettings,
    messages: Sequence[Message],
    tools: Sequence[Tool] | None,
) -> None:
    check_count(limits, len(messages), "messages", "messages")
    if len(tools or ()) > limits.max_tools:
        message = f"the request has {len(tools or ()):,} tools; the limit is {limits.max_tools:,}"
        raise ApiError(400, message, code="too_many_tools", param="tools")
    for tool in tools or ():
        check_schema(limits, tool.function.parameters, "tools")


def check_count(limits: LimitSettings, count: int, what: str, param: str) -> None:
    if count > limits.max_messages:
        message = f"the request has {count:,} {what}; the limit is {limits.max_messages:,}"
        raise ApiError(400, message, code="too_many_messages", param=param)


def check_format(limits: LimitSettings, format: Any) -> None:
    if isinstance(format, SchemaFormat):
        check_schema(limits, format.json_schema.schema_, "response_format")


def check_schema(limits: LimitSettings, schema: Any, param: str) -> None:
    limit = limits.max_schema_bytes
    if size_of(schema, limit) > limit:
        raise ApiError(400, f"a schema has more than {limit:,} bytes", code="schema_too_large", param=param)


def size_of(value: Any, limit: int, without: str | None = None) -> int:
    """About how many bytes of JSON; not counted on beyond the limit, nor what has this name."""
    size, rest = 0, [value]
    while rest and size <= limit:
        one = rest.pop()
        if isinstance(one, str):
            size += len(one) + 2
        elif isinstance(one, dict):
            size += 2 + sum(len(key) + 4 for key in one)
            rest.extend(item for key, item in one.items() if key != without)
        elif isinstance(one, list):
            size += 2 + len(one)
            rest.extend(one)
        else:
            size += 4
    return size


Conversation = ChatRequest | CompletionRequest | Sequence[Message]


def letters(request: Conversation) -> int:
    """Of all its texts. Many are not looked at on the event loop."""
    return sum(len(text) for texts in prompt_texts(request, reasoning=True) for text in texts)


def prompt_texts(request: Conversation, *, reasoning: bool = False) -> list[list[str]]:
    """The texts that are going to be tokenised, by prompt.

    Templates leave out earlier reasoning, so it does not count, in whichever of its two places it stands. Where one
    keeps it, the processor finds the rendered text too long.
    """
    if isinstance(request, CompletionRequest):
        prompts = [request.prompt] if isinstance(request.prompt, str) else request.prompt
        return [[prompt] for prompt in prompts if isinstance(prompt, str)]
    messages = request.messages if isinstance(request, ChatRequest) else request
    texts: list[str] = []
    for message in messages:
        parts = [message.content] if isinstance(message.content, str) else message.content or []
        said = [part if isinstance(part, str) else getattr(part, "text", "") for part in parts]
        if message.role == "assistant" and said and not reasoning:
            said[0] = _without_reasoning(said[0])
        texts += said
        for call in message.tool_calls or ():
            arguments = call.function.arguments
            texts.append(arguments if isinstance(arguments, str) else "")
    tools = request.tools or () if isinstance(request, ChatRequest) else ()
    texts += [tool.function.description or "" for tool in tools]
    return [[text for text in texts if text]]


_REASONING = re.compile(r"\s*<think>")


def _without_reasoning(text: str) -> str:
    """What `inked_reasoning` takes for the beginning of a reply is cut off."""
    end = "</think>"
    if begun := _REASONING.match(text):
        for start in range(begun.end(), len(text), _BLOCK):
            if (found := text.find(end, start, start + _BLOCK + len(end))) >= 0:
                return text[found + len(end) :]
    return text
