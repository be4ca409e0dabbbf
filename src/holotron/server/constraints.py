"""What a request demands of the reply's form, as a grammar for the engine.

Reasoning comes before whatever is constrained: when the prompt leaves a reasoning block open, the grammar lets anything
pass up to `</think>` and takes hold after it. Tool calls that must happen (`tool_choice`), or may happen instead of an
answer of the form that was asked for, are written in the notation of the checkpoint's own chat template, which is found
out by letting it render one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

from holotron.engine import Grammar
from holotron.engine.reasoning import after_reasoning, behind_reasoning, term_of
from holotron.engine.schema import to_generate
from holotron.errors import InputError
from holotron.model.processor import ChatTemplate
from holotron.server.errors import ApiError
from holotron.server.wire import Format, JsonFormat, NamedTool, RegexFormat, SchemaFormat, Tool

Notation = Literal["json list", "json", "xml"]
_COUNTED = 1024  # characters: longer texts are not counted in a grammar
ToolChoice = Literal["none", "auto", "required"] | NamedTool | None


def grammar_for(
    format: Format | None,
    tools: Sequence[Tool],
    choice: ToolChoice,
    *,
    parallel: bool,
    template: ChatTemplate,
    thinking: bool,
    opens_reasoning: bool,
) -> Grammar | None:
    if choice == "required" or isinstance(choice, NamedTool):
        callable_now = _named(tools, choice) if isinstance(choice, NamedTool) else list(tools)
        if not callable_now:
            raise ApiError(400, "tool_choice asks for a call, but there are no tools", param="tool_choice")
        rules = _calls(callable_now, tool_notation(template), many=parallel and choice == "required")
        return after_reasoning(f"body: calls\n{rules}", thinking, opens_reasoning)
    plain = _form(format)
    notation = tool_notation(template) if tools and choice != "none" else None
    if plain is not None and notation is not None:
        rules = _calls(tools, notation, many=parallel)
        body = f"body: answer | calls\nanswer: {term_of(plain)}\n"
        return after_reasoning(body + rules, thinking, opens_reasoning)
    return None if plain is None else behind_reasoning(plain, thinking=thinking, opens_reasoning=opens_reasoning)


def _form(format: Format | None) -> Grammar | None:
    match format:
        case JsonFormat():
            return Grammar.json_schema({"type": "object"})
        case SchemaFormat():
            return Grammar.json_schema(format.json_schema.schema_, strict=format.json_schema.strict is True)
        case RegexFormat():
            return Grammar.regex(format.regex)
    return None


# ------------------------------------------------------------------------------------------------------ tool calls


@cache
def tool_notation(template: ChatTemplate) -> Notation:
    """How the checkpoint writes a call."""
    call = {"type": "function", "function": {"name": "probe", "arguments": {"key": "value"}}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    function = {"name": "probe", "description": "", "parameters": {"type": "object", "properties": {}}}
    try:
        text = template.render(messages, tools=[{"type": "function", "function": function}])
    except InputError:
        text = ""
    written = text[text.rfind("<TOOLCALL>") :] if "<TOOLCALL>" in text else text[text.rfind("<tool_call>") :]
    if written.startswith("<TOOLCALL>"):
        return "json list"
    if written.startswith("<tool_call>"):
        return "xml" if "<function=" in written else "json"
    raise ApiError(
        400,
        "tools are not supported: this model's chat template has no tool calls",
        code="not_supported",
        param="tools",
    )


def _named(tools: Sequence[Tool], choice: NamedTool) -> list[Tool]:
    found = [tool for tool in tools if tool.function.name == choice.function.name]
    if not found:
        raise ApiError(400, f"tool_choice names {choice.function.name!r}, which is not in tools", param="tool_choice")
    return found


def _calls(tools: Sequence[Tool], notation: Notation, *, many: bool) -> str:
    """The rule `calls` and those it needs."""
    # Each tool's parameters become a definition of the one schema, so that references inside them keep their meaning.
    keys = [f"tool_{n}" for n in range(len(tools))]
    call = {"anyOf": [_call_schema(tool, key) for tool, key in zip(tools, keys, strict=True)]}
    definitions = {
        key: _moved(tool.function.parameters or {"type": "object", "properties": {}}, f"#/$defs/{key}")
        for tool, key in zip(tools, keys, strict=True)
    }
    strict = all(tool.function.strict for tool in tools)
    if notation == "json list":
        schema: dict[str, Any] = {"type": "array", "minItems": 1, "items": call, "$defs": definitions}
        if not many:
            schema["maxItems"] = 1
        return f'calls: "<TOOLCALL>" {_json(schema, strict)} "</TOOLCALL>"\n'
    if notation == "json":
        schema = call | {"$defs": definitions}
        again = ' ("\\n" call)*' if many else ""
        return f'calls: call{again}\ncall: "<tool_call>\\n" {_json(schema, strict)} "\\n</tool_call>"\n'
    names = [f"call_{n}" for n in range(len(tools))]
    again = ' ("\\n" call)*' if many else ""
    rules = f"calls: call{again}\ncall: {' | '.join(names)}\n"
    for name, tool in zip(names, tools, strict=True):
        rules += _xml_call(name, tool)
    return rules


def _json(schema: Mapping[str, Any], strict: bool) -> str:
    return f"%json {json.dumps(to_generate(schema, strict=strict))}"


def _call_schema(tool: Tool, definition: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"const": tool.function.name}, "arguments": {"$ref": f"#/$defs/{definition}"}},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _moved(schema: Any, to: str) -> Any:
    """A schema whose root is now at another place: its references follow."""
    if isinstance(schema, list):
        return [_moved(item, to) for item in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {key: _moved(value, to) for key, value in schema.items()}
    if isinstance(reference := moved.get("$ref"), str) and reference.startswith("#"):
        moved["$ref"] = to + reference.removeprefix("#")
    return moved


def _xml_call(rule: str, tool: Tool) -> str:
    parameters = tool.function.parameters or {}
    properties, required = parameters.get("properties") or {}, parameters.get("required") or []
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        raise InputError(f"the parameters of tool {tool.function.name!r} are not a JSON schema of an object")
    parts = [json.dumps(f"<tool_call>\n<function={tool.function.name}>\n", ensure_ascii=False)]
    rules = ""
    for n, (key, schema) in enumerate(properties.items()):
        optional = "" if key in required else "?"
        parts.append(f"{rule}_{n}{optional}")
        opening = json.dumps(f"<parameter={key}>\n", ensure_ascii=False)
        shared: dict[str, Any] = {name: parameters[name] for name in ("$defs", "definitions") if name in parameters}
        value = {**shared, **schema} if isinstance(schema, Mapping) else {}
        rules += f"{rule}_{n}: {opening} {rule}_{n}_value\n"
        rules += _xml_value(f"{rule}_{n}_value", value, bool(tool.function.strict))
    parts.append(json.dumps("</function>\n</tool_call>"))
    return f"{rule}: {' '.join(parts)}\n{rules}"


def _xml_value(rule: str, schema: Mapping[str, Any], strict: bool) -> str:
    """The rule for a parameter's value and the closing tag. Texts stand bare, everything else as JSON."""
    closing = json.dumps("\n</parameter>\n")
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, list) and choices and all(isinstance(choice, str) for choice in choices):
        return f"{rule}: ({' | '.join(json.dumps(choice, ensure_ascii=False) for choice in choices)}) {closing}\n"
    if schema.get("type", "string") != "string" or {"$ref", "anyOf", "oneOf", "allOf", "const"} & set(schema):
        return f"{rule}: {_json(schema, strict)} {closing}\n"
    least, most = schema.get("minLength") or 0, schema.get("maxLength")
    bound = isinstance(least, int) and least <= _COUNTED and (most is None or isinstance(most, int))
    many = f"{{{least},{most if most is not None and most <= _COUNTED else ''}}}" if bound else "*"
    return f"{rule}[lazy]: /(?s:.{many})\\n<\\/parameter>\\n/\n"
