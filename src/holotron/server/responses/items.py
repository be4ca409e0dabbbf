"""Items, the currency of the Responses API, and the chat messages they stand for.

    items = plain_items(request, lookup)               # what was sent, complete and with ids
    fingerprints = [fingerprint(item) for item in items]
    check_calls(history, items)                        # every output has its call, every call its output
    messages = messages_of([*history, *items])         # reasoning, text and calls of one reply are one message

Items are plain JSON from here on: they are what GET .../input_items gives back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from holotron.server.errors import ApiError
from holotron.server.responses.wire import (
    MessageItem,
    ReferenceItem,
    ResponsesRequest,
    ToolSpec,
    not_supported,
)
from holotron.server.routed import new_hex

Json = dict[str, Any]

PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "reasoning": "rs",
    "computer_call": "cu",
    "computer_call_output": "cuo",
}
COMPUTER = ("computer", "computer_use", "computer_use_preview")


def new_item_id(kind: str) -> str:
    return f"{PREFIXES[kind]}_{new_hex(16)}"


def plain_items(request: ResponsesRequest, lookup: Callable[[str], Json | None]) -> list[Json]:
    """What the request adds to the conversation. `lookup` finds items of stored responses by id."""
    if isinstance(request.input, str):
        content = [{"type": "input_text", "text": request.input}]
        return [{"id": new_item_id("message"), "type": "message", "role": "user", "content": content}]
    items: list[Json] = []
    chance = new_hex(12)  # drawn once: for thousands of items it would take long
    for n, item in enumerate(request.input or ()):
        if isinstance(item, ReferenceItem):
            found = lookup(item.id)
            if found is None:
                raise ApiError(404, f"Item with id '{item.id}' not found.", code="item_not_found", param=f"input[{n}]")
            items.append(found)
            continue
        plain = item.model_dump(exclude_none=True)
        plain.setdefault("id", f"{PREFIXES[plain['type']]}_{chance}{n:08x}")
        if isinstance(item, MessageItem) and isinstance(item.content, str):
            kind = "output_text" if item.role == "assistant" else "input_text"
            plain["content"] = [{"type": kind, "text": item.content}]
        _check_parts(plain, f"input[{n}]")
        items.append(plain)
    return items


def _check_parts(item: Json, where: str) -> None:
    parts = item.get("content") if item["type"] == "message" else item.get("output")
    if not isinstance(parts, list):
        return
    for n, part in enumerate(parts):
        kind = part["type"]
        if kind in ("input_text", "output_text", "text", "summary_text"):
            if part.get("text") is None:
                raise ApiError(400, "a text part needs text", param=f"{where}.content[{n}].text")
        elif kind == "input_image":
            if part.get("file_id"):
                raise not_supported("file_id", f"{where}.content[{n}].file_id", "send the image as a data: URL")
            if not part.get("image_url"):
                raise ApiError(400, "an input_image needs image_url", param=f"{where}.content[{n}].image_url")
        elif kind != "refusal":
            raise not_supported(f"content of type {kind!r}", f"{where}.content[{n}]")


def check_calls(history: Iterable[Json], new: Sequence[Json]) -> None:
    """As OpenAI's API has it: an output belongs to a call, and a call has an output before anything is generated."""
    open_calls: dict[str, str] = {}
    called: set[str] = set()
    sent = {id(item) for item in new}
    for item in (*history, *new):
        if item["type"] in ("function_call", "computer_call"):
            called.add(item["call_id"])
            open_calls[item["call_id"]] = item["type"]
        elif item["type"] in ("function_call_output", "computer_call_output"):
            if item["call_id"] not in called and id(item) in sent:
                what = item["type"].removesuffix("_output").replace("_", " ")
                message = f"No tool call found for {what} output with call_id {item['call_id']}."
                raise ApiError(400, message, param="input")
            open_calls.pop(item["call_id"], None)
    for call_id, kind in open_calls.items():
        message = f"No tool output found for {kind.replace('_', ' ')} {call_id}."
        raise ApiError(400, message, param="input")


def fingerprint(item: Json) -> bytes:
    """What stands for an item. Ids, states and reasoning do not count: clients that send a conversation again change or
    drop them."""
    if item["type"] == "reasoning":
        return b""
    digest = hashlib.blake2b(digest_size=16)
    for word in _words(item):
        digest.update(len(word).to_bytes(8, "big"))
        digest.update(word)
    return digest.digest()


def digests(fingerprints: Iterable[bytes], before: bytes = b"") -> Iterator[bytes]:
    """After each item, what stands for the conversation up to there."""
    for one in fingerprints:
        before = hashlib.blake2b(before + one, digest_size=16).digest() if one else before
        yield before


def _words(item: Json) -> Iterator[bytes]:
    names = {"function_call": ("call_id", "name"), "message": ("role",)}.get(item["type"], ("call_id",))
    for word in (item["type"], *(item[name] for name in names), _spaceless(item.get("arguments", ""))):
        yield word.encode(errors="replace")
    content = item.get("content") or item.get("output") or ()
    parts = [content] if isinstance(content, str | dict) else content
    for part in parts:
        said = part if isinstance(part, str) else part.get("text") or part.get("refusal") or part.get("image_url") or ""
        yield str(said).encode(errors="replace")


def _spaceless(arguments: str) -> str:
    """JSON as every client would write it; some write it anew."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return arguments


# ---------------------------------------------------------------------------------------------------------- messages


def messages_of(items: Iterable[Json], instructions: str | None = None) -> list[Json]:
    """The conversation as chat messages. Instructions and the system messages that begin it are one message."""
    messages: list[Json] = []
    reply: Json = {}

    def close() -> None:
        if reply:
            messages.append({"role": "assistant", "content": "", **reply})
            reply.clear()

    for item in items:
        match item["type"]:
            case "reasoning":
                if "content" in reply or "tool_calls" in reply:
                    close()
                reply["reasoning_content"] = reply.get("reasoning_content", "") + reasoning_of(item)
            case "function_call":
                function = {"name": item["name"], "arguments": item["arguments"]}
                call = {"id": item["call_id"], "type": "function", "function": function}
                reply.setdefault("tool_calls", []).append(call)
            case "message" if item["role"] == "assistant":
                if "content" in reply or "tool_calls" in reply:
                    close()
                reply["content"] = text_of(item["content"])
            case "message":
                close()
                messages.append({"role": item["role"], "content": _content(item["content"])})
            case "function_call_output":
                close()
                output = item["output"] if isinstance(item["output"], str) else _content(item["output"])
                messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": output})
            case kind:
                hint = "declare the computer tool to go on with it"
                raise not_supported(f"a {kind} without the computer tool", "input", hint)
    close()
    return _with_instructions(messages, instructions)


def _with_instructions(messages: list[Json], instructions: str | None) -> list[Json]:
    """Most templates know one system message, at the beginning."""
    count = next((n for n, m in enumerate(messages) if m["role"] not in ("system", "developer")), len(messages))
    said = [instructions] if instructions else []
    said += [content if isinstance(content := m["content"], str) else text_of(content) for m in messages[:count]]
    first = [{"role": "system", "content": "\n\n".join(said)}] if said else []
    return [*first, *messages[count:]]


def reasoning_of(item: Json) -> str:
    return "".join(part.get("text", "") for part in item.get("content") or item.get("summary") or ())


def text_of(parts: Sequence[Json]) -> str:
    return "".join(part.get("text") or part.get("refusal") or "" for part in parts)


def _content(parts: Sequence[Json]) -> str | list[Json]:
    """A string where there is nothing but text: what most templates know best."""
    if not any(part["type"] == "input_image" for part in parts):
        return text_of(parts)
    return [
        {"type": "image_url", "image_url": {"url": image_address(part)}}
        if part["type"] == "input_image"
        else {"type": "text", "text": part.get("text") or part.get("refusal") or ""}
        for part in parts
    ]


def image_address(part: Json) -> str:
    address = part["image_url"]
    url = address.get("url") if isinstance(address, dict) else address
    if not isinstance(url, str):
        raise ApiError(400, "image_url is a text: a data: URL or an address", param="input")
    return url


# ------------------------------------------------------------------------------------------------------------- tools


def function_tools(tools: Sequence[ToolSpec] | None) -> list[Json]:
    """Functions in chat's form. The computer is not among them, and everything else is refused by name."""
    functions: list[Json] = []
    for n, tool in enumerate(tools or ()):
        if tool.type in COMPUTER:
            continue
        if tool.type != "function":
            raise not_supported(f"the tool {tool.type!r}", f"tools[{n}]", "functions and the computer are")
        if tool.name is None:
            raise ApiError(400, "a function needs a name", param=f"tools[{n}].name")
        function: Json = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        functions.append({"type": "function", "function": function})
    return functions


def computer_tool(tools: Sequence[ToolSpec] | None) -> ToolSpec | None:
    found = [(n, tool) for n, tool in enumerate(tools or ()) if tool.type in COMPUTER]
    if len(found) > 1:
        raise ApiError(400, "there is one computer: declare one computer tool", param="tools")
    for n, tool in found:
        if tool.type == "computer_use_preview" and (tool.display_width is None or tool.display_height is None):
            message = "computer_use_preview needs display_width and display_height"
            raise ApiError(400, message, param=f"tools[{n}].display_width")
        return tool
    return None
