"""A reply's text to its three parts: reasoning, what is said, and tool calls; at once or while it streams.

    parser = ReplyParser(opens_reasoning=prompt.opens_reasoning, tools=tools, tokenizer=tokenizer)
    for event in stream: show(parser.push(event.text, [event.token]))
    show(parser.finish())

Three notations of tool calls occur in the family, and all are read:

    <TOOLCALL>[{"name": "click", "arguments": {"x": 1}}]</TOOLCALL>                                  Nemotron Nano v2
    <tool_call><function=click><parameter=x>1</parameter></function></tool_call>                     Nemotron 3
    <tool_call>{"name": "click", "arguments": {"x": 1}}</tool_call>                                  Qwen3

Text is given out as soon as it cannot be the beginning of a tag; calls when they are complete. Nothing is ever lost: a
block that is not a well-formed call stays in the content, tags and all.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holotron.model.processor.ink import ink, plain
from holotron.model.processor.tags import CLOSING, CallTags
from holotron.model.processor.tokenizer import Tokenizer
from holotron.quoting import valid

_OPENING = re.compile("|".join(CLOSING))
_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>(.*?)(?:</function>\s*|\Z)", re.S)
_PARAMETER = re.compile(r"\s*<parameter=([^>\n]+)>(.*?)(?:</parameter>\s*|(?=<parameter=)|\Z)", re.S)


@dataclass(frozen=True, slots=True)
class ToolCall:
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReplyPart:
    """What is new, or the whole of a reply."""

    reasoning: str = ""
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()

    def __add__(self, other: ReplyPart) -> ReplyPart:
        return ReplyPart(
            self.reasoning + other.reasoning, self.content + other.content, self.tool_calls + other.tool_calls
        )


def parse_reply(
    text: str, *, opens_reasoning: bool = False, tools: Sequence[Mapping[str, Any]] | None = None
) -> ReplyPart:
    parser = ReplyParser(opens_reasoning=opens_reasoning, tools=tools)
    return parser.push(text) + parser.finish()


def inked_reply(text: str) -> str:
    """A reply as its writer meant it: in ink the tags that `ReplyParser` takes for tags, all else is text. That is the
    reasoning at its beginning, and blocks that are well-formed calls."""
    text = inked_reasoning(text)
    pieces, place = [], 0
    while found := _OPENING.search(text, place):
        closing = CLOSING[found[0]]
        end = text.find(closing, found.end())
        pieces.append(text[place : found.start()])
        if end < 0 or _calls(text[found.end() : end], ()) is None:
            pieces.append(found[0])
            place = found.end()
        else:
            pieces += [ink(found[0]), text[found.end() : end], ink(closing)]
            place = end + len(closing)
    return "".join(pieces) + text[place:]


def inked_reasoning(text: str) -> str:
    """`<think>` at the beginning of a reply and the first `</think>` after it, in ink."""
    begun, tag, said = text.partition("<think>")
    reasoning, end, answer = said.partition("</think>")
    return f"{begun}{ink(tag)}{reasoning}{ink(end)}{answer}" if tag and end and not begun.strip() else text


class ReplyParser:
    """Splits a reply while it arrives. The sum of all parts is the same however the text was cut up."""

    def __init__(
        self,
        *,
        opens_reasoning: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tokenizer: Tokenizer | None = None,
        bound: bool = False,
    ) -> None:
        """`opens_reasoning`: the prompt already opened the reasoning block. Without `tools` calls are just content.
        `tokenizer`: text comes with its tokens, and only what was sampled as a tag opens a call. `bound`: the reply is
        held to a grammar: then letters will do, but calls stand before everything else that is said."""
        self._tools = tools
        self._bound = bound
        self._tags = CallTags(tokenizer) if tokenizer is not None and tools is not None and not bound else None
        written = self._tags.written if self._tags is not None else str
        self._closing = {written(opening): written(closing) for opening, closing in CLOSING.items()}
        self._rest = ""  # not yet certain
        self._state = "reasoning" if opens_reasoning else "start"
        self._opening = ""  # the tag of the call block being read
        self._blank = ""  # line breaks held back: they are dropped at the edges of reasoning and content
        self._said = False  # something of the present section has been given out
        self._cut = False

    def push(self, text: str, tokens: Iterable[int] = ()) -> ReplyPart:
        self._rest += self._tags.marked(text, tokens) if self._tags is not None else text
        return self._advance(final=False)

    def finish(self, *, cut: bool = False) -> ReplyPart:
        """What is left. `cut`: the reply was not finished (it grew too long): a call that is not complete is none."""
        self._cut = cut
        return self._advance(final=True)

    def _advance(self, final: bool) -> ReplyPart:
        total = ReplyPart()
        while True:
            before = self._state, len(self._rest)
            total += getattr(self, f"_in_{self._state}")(final)
            if (self._state, len(self._rest)) == before or not self._rest:
                break
        if self._tags is None:
            return total
        return ReplyPart(plain(total.reasoning), plain(total.content), total.tool_calls)

    # Each state takes what it can from `self._rest` and may hand over to another.

    def _in_start(self, final: bool) -> ReplyPart:
        """A reply may open its reasoning itself; nothing but white space may come before."""
        stripped = self._rest.lstrip()
        if stripped.startswith("<think>"):
            self._rest = stripped.removeprefix("<think>")
            self._enter("reasoning")
        elif final or not "<think>".startswith(stripped):
            self._enter("content")
        return ReplyPart()

    def _in_reasoning(self, final: bool) -> ReplyPart:
        text, tag = self._until(["</think>"], final)
        if tag:
            part = ReplyPart(reasoning=self._trim(text))
            self._enter("content")
            return part
        return ReplyPart(reasoning=self._trim(text))

    def _in_content(self, final: bool) -> ReplyPart:
        possible = self._tools is not None and not (self._bound and self._said)
        text, tag = self._until(list(self._closing) if possible else [], final)
        if tag:
            self._opening = tag
            self._state = "calls"
        return ReplyPart(content=self._trim(text))

    def _in_calls(self, final: bool) -> ReplyPart:
        body, closed, after = self._rest.partition(self._closing[self._opening])
        if not closed and not final:
            return ReplyPart()
        # A stop token may have taken the place of the closing tag.
        self._rest, self._state = after, "content"
        calls = None if self._cut and not closed else _calls(plain(body), self._tools or ())
        if calls is not None:
            self._blank = ""
            return ReplyPart(tool_calls=calls)
        return ReplyPart(content=self._trim(self._opening + body + closed))

    def _enter(self, state: str) -> None:
        self._state, self._blank, self._said = state, "", False

    def _until(self, tags: list[str], final: bool) -> tuple[str, str]:
        """Text before the first of the tags and that tag; or all text that is certain to hold none."""
        found = min(((self._rest.find(tag), tag) for tag in tags if tag in self._rest), default=None)
        if found:
            place, tag = found
            text, self._rest = self._rest[:place], self._rest[place + len(tag) :]
            return text, tag
        keep = 0 if final else _beginning_of_any(self._rest, tags)
        text, self._rest = self._rest[: len(self._rest) - keep], self._rest[len(self._rest) - keep :]
        return text, ""

    def _trim(self, text: str) -> str:
        """Drop line breaks before the first and after the last word of a section."""
        text = self._blank + text
        if not self._said:
            text = text.lstrip("\n")
        core = text.rstrip("\n")
        self._blank = text[len(core) :]
        self._said = self._said or bool(core)
        return core


def _beginning_of_any(text: str, tags: list[str]) -> int:
    """Length of the longest end of `text` that could be the beginning of a tag."""
    longest = max(map(len, tags), default=1) - 1
    return next((n for n in range(min(longest, len(text)), 0, -1) if any(tag.startswith(text[-n:]) for tag in tags)), 0)


def _calls(body: str, tools: Sequence[Mapping[str, Any]]) -> tuple[ToolCall, ...] | None:
    """The calls in a block, or None if it holds anything else."""
    if "<function=" in body:
        return _xml_calls(body, tools)
    try:
        value = _read(body)
    except (ValueError, RecursionError):
        return None
    calls = [_json_call(entry) for entry in (value if isinstance(value, list) else [value])]
    return tuple(call for call in calls if call is not None) if calls and None not in calls else None


def _json_call(entry: Any) -> ToolCall | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return None
    arguments = entry.get("arguments", {})
    if isinstance(arguments, str):  # some write the object as a string of JSON
        try:
            arguments = _read(arguments or "{}")
        except (ValueError, RecursionError):
            return None
    return ToolCall(entry["name"], arguments) if isinstance(arguments, dict) else None


def _read(text: str) -> Any:
    """JSON that can be written as JSON again. Python also reads `NaN`, makes infinity of `1e999`, and halves of
    characters of escapes: whoever is handed those in a call's arguments cannot read them."""
    value = json.loads(text, parse_float=_finite, parse_constant=_no_json)
    return json.loads(valid(json.dumps(value, ensure_ascii=False))) if "\\u" in text else value


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else math.copysign(sys.float_info.max, number)


def _no_json(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


def _xml_calls(body: str, tools: Sequence[Mapping[str, Any]]) -> tuple[ToolCall, ...] | None:
    """One, as all templates write it. Its tags are letters, and so are those that a value quotes: a page that is copied
    into a field could end the call and write another one behind it."""
    if (function := _FUNCTION.match(body)) is None or body[function.end() :].strip():
        return None
    arguments, inside, at = {}, function[2], 0
    while at < len(inside) and (parameter := _PARAMETER.match(inside, at)):
        name = parameter[1].strip()
        arguments[name] = _typed(parameter[2], _schema(tools, function[1].strip(), name))
        at = parameter.end()
    return None if inside[at:].strip() else (ToolCall(function[1].strip(), arguments),)


def _schema(tools: Sequence[Mapping[str, Any]], function: str, parameter: str) -> Mapping[str, Any]:
    for tool in tools:
        described = tool.get("function", tool)
        if isinstance(described, Mapping) and described.get("name") == function:
            properties = (described.get("parameters") or {}).get("properties") or {}
            return properties.get(parameter) or {}
    return {}


def _typed(text: str, schema: Mapping[str, Any]) -> Any:
    """Values are written bare: the tool's schema tells a number from a text that looks like one."""
    text = text.removeprefix("\n").removesuffix("\n")
    types = _types(schema)
    if types == {"string"}:
        return text
    try:
        value = _read(text)
    except (ValueError, RecursionError):
        return text
    return text if "string" in types and not isinstance(value, str) and not _TYPES[type(value)] & types else value


_TYPES = {
    bool: {"boolean"},
    int: {"integer", "number"},
    float: {"number"},
    type(None): {"null"},
    list: {"array"},
    dict: {"object"},
}


def _types(schema: Mapping[str, Any]) -> set[str]:
    """What a value may be, as far as the schema says; a text where it says nothing, anything behind a reference."""
    if isinstance(choices := schema.get("enum"), list):
        return set().union(*(_TYPES.get(type(choice), {"string"}) for choice in choices))
    if "const" in schema:
        return _TYPES.get(type(schema["const"]), {"string"})
    for key in ("anyOf", "oneOf"):
        if isinstance(branches := schema.get(key), list):
            return set().union(*(_types(branch) for branch in branches if isinstance(branch, Mapping)))
    if isinstance(kind := schema.get("type"), list):
        return set(map(str, kind))
    return {"anything"} if "$ref" in schema or "allOf" in schema else {str(kind or "string")}
