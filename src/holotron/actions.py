"""Actions as data: the JSON that models write, checked against the dataclasses of `holotron.types`.

Three things live here and nowhere else: which actions exist (`ACTIONS`), how one is read from untrusted JSON
(`action_from_json`, whose errors are written for the model that made the mistake), and the JSON schema that a
constrained decoder enforces (`action_schema`). Coordinates pass through untouched; see `coordinates`.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from holotron.errors import InputError
from holotron.keys import normalise_keys
from holotron.types import Action, PressKeys, Wait

MAX_WAIT_SECONDS = 10.0


class InvalidAction(InputError):
    """A reply that is no valid action. The message goes back to the policy, so it says how to do it right."""


ACTIONS: dict[str, type[Any]] = {cls.__dataclass_fields__["tool_name"].default: cls for cls in typing.get_args(Action)}

DESCRIPTIONS: dict[str, str] = {
    "click": "Click the element at x, y.",
    "double_click": "Double-click the element at x, y.",
    "right_click": "Right-click the element at x, y.",
    "hover": "Move the mouse to x, y without clicking.",
    "write": "Type content into the field at x, y (or, without x and y, into the focused field). "
    "overwrite replaces what is there; press_enter submits.",
    "press_keys": 'Press keys together, for example ["Enter"] or ["Control", "a"].',
    "scroll": "Scroll up, down, left or right, at x, y if given; amount 0 is most of a page.",
    "drag": "Press at x1, y1, move to x2, y2 and release.",
    "go_back": "Go back to the previous page.",
    "goto": "Open a URL (http or https) in this tab.",
    "refresh": "Reload the page.",
    "wait": f"Wait for the page, at most {MAX_WAIT_SECONDS:g} seconds.",
    "new_tab": "Open a new tab, optionally at a URL.",
    "switch_tab": "Switch to the tab with this index (from 0).",
    "close_tab": "Close this tab.",
    "restart": "Start the task again from its first page.",
    "answer": "End the task and give the user your answer.",
}

# Models decide better when they name the element before they point at it, and constrained decoders write properties in
# schema order.
_FIRST = ("tool_name", "element", "content")
COORDINATES = frozenset({"x", "y", "x1", "y1", "x2", "y2"})


# ----------------------------------------------------------------------------------------------------------- reading


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(ACTIONS[name])


def check_action_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names of an action space, in canonical order; unknown ones are refused."""
    unknown = [name for name in names if name not in ACTIONS]
    if unknown:
        raise InputError(f"unknown action {unknown[0]!r}; there are: {', '.join(ACTIONS)}")
    return tuple(name for name in ACTIONS if name in set(names))


def action_from_json(value: Any, allowed: Sequence[str] = tuple(ACTIONS)) -> Action:
    """Build an `Action` from decoded JSON such as `{"tool_name": "click", "x": 10, "y": 20}`."""
    if not isinstance(value, Mapping):
        raise InvalidAction(f"the action must be a JSON object with tool_name, not {_short(value)}")
    name = value.get("tool_name")
    if name is None:
        raise InvalidAction(f"the action has no tool_name; use one of: {', '.join(allowed)}")
    if name not in allowed:
        close = difflib.get_close_matches(str(name), allowed, n=1)
        hint = f"; did you mean {close[0]}?" if close else "."
        raise InvalidAction(f"there is no action {_short(name)}{hint} Use one of: {', '.join(allowed)}")
    # null means "not given": models under a schema in which every property is required say it that way.
    given = {key: item for key, item in value.items() if item is not None}
    if name == "press_keys" and isinstance(given.get("keys"), str):
        given["keys"] = [given["keys"]]
    return _checked(stored_action(given))


def stored_action(value: Mapping[str, Any]) -> Action:
    """The inverse of `action_to_json` for actions that were valid once: the types are checked, and nothing else."""
    name = value["tool_name"]
    try:
        return typing.cast(Action, _adapter(name).validate_python(value))
    except ValidationError as error:
        raise InvalidAction(f"{name}: {explain(error)}") from None


def _checked(action: Action) -> Action:
    """What types alone do not say."""
    for field in dataclasses.fields(action):
        item = getattr(action, field.name)
        if isinstance(item, float) and not math.isfinite(item):
            raise InvalidAction(f"{action.tool_name}: {field.name} must be a finite number")
    if ("x" in (names := {f.name for f in dataclasses.fields(action)})) and "y" in names:
        x, y = getattr(action, "x"), getattr(action, "y")  # noqa: B009
        if (x is None) != (y is None):
            raise InvalidAction(f"{action.tool_name}: give both x and y, or neither")
    if isinstance(action, Wait) and not 0 <= action.seconds <= MAX_WAIT_SECONDS:
        raise InvalidAction(f"wait: seconds must be between 0 and {MAX_WAIT_SECONDS:g}")
    if isinstance(action, PressKeys):
        keys = normalise_keys(action.keys)
        if not keys:
            raise InvalidAction('press_keys: keys is empty; give for example ["Enter"]')
        return PressKeys(keys)
    return action


def explain(error: ValidationError) -> str:
    parts = []
    for item in error.errors(include_url=False):
        where = ".".join(str(piece) for piece in item["loc"]) or "value"
        if item["type"] == "missing":
            parts.append(f"{where} is missing")
        else:
            parts.append(f"{where}: {item['msg']} (got {_short(item['input'])})")
    return "; ".join(parts)


def _short(value: Any, limit: int = 60) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")


# ----------------------------------------------------------------------------------------------------------- writing


def action_to_json(action: Action, *, defaults: bool = False) -> dict[str, Any]:
    """The action as a flat JSON object, tool_name first. Arguments that hold their default are left out, unless
    `defaults` asks for all of them, as `action_schema` requires."""
    data: dict[str, Any] = {"tool_name": action.tool_name}
    for field in _ordered_fields(type(action), unasked=not defaults):
        value = getattr(action, field.name)
        if field.name != "tool_name" and (defaults or value != field.default):
            data[field.name] = list(value) if isinstance(value, tuple) else value
    return data


def _ordered_fields(cls: type[Any], unasked: bool = False) -> list[dataclasses.Field[Any]]:
    fields = [field for field in dataclasses.fields(cls) if unasked or field.metadata.get("asked", True)]
    rank = {name: index for index, name in enumerate(_FIRST)}
    return sorted(fields, key=lambda field: rank.get(field.name, len(_FIRST)))


def action_schema(name: str, coordinate: Mapping[str, Any], *, tag: bool = True) -> dict[str, Any]:
    """JSON schema of one action. Every property is required and may be null where it has a default: the shape that
    strict servers accept and constrained decoders handle fastest. `tag=False` leaves tool_name out (native tools)."""
    cls = ACTIONS[name]
    hints = typing.get_type_hints(cls)
    properties: dict[str, Any] = {}
    for field in _ordered_fields(cls):
        if field.name == "tool_name":
            if tag:
                properties["tool_name"] = {"type": "string", "const": name}
            continue
        optional = isinstance(hints[field.name], types.UnionType)
        schema = dict(coordinate) if field.name in COORDINATES else _field_schema(hints[field.name])
        if optional:
            schema = {"anyOf": [schema, {"type": "null"}]}
        if name == "wait":
            schema |= {"minimum": 0, "maximum": MAX_WAIT_SECONDS}
        properties[field.name] = schema
    return {
        "type": "object",
        "description": DESCRIPTIONS[name],
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _field_schema(hint: Any) -> dict[str, Any]:
    schema = TypeAdapter(hint).json_schema()
    if schema.get("type") == "array":
        return {"type": "array", "items": schema["items"], "minItems": 1}
    return schema


def union_schema(names: Sequence[str], coordinate: Mapping[str, Any]) -> dict[str, Any]:
    """Exactly one of the named actions."""
    variants = [action_schema(name, coordinate) for name in names]
    return variants[0] if len(variants) == 1 else {"anyOf": variants}


ANSWER_ONLY = ("answer",)


# ------------------------------------------------------------------------------------------------- JSON in free text

_FENCE = re.compile(r"^\s*```[a-zA-Z]*\s*\n?|\n?\s*```\s*$")
_THINK = re.compile(r"^\s*(?:<think>)?(?P<reasoning>.*?)</think>\s*", re.DOTALL)


def split_reasoning(text: str) -> tuple[str, str]:
    """Separate a leading `<think>...</think>` block from the reply."""
    match = _THINK.match(text)
    if match is None or text.lstrip().startswith("{"):  # a JSON reply may quote the tag
        return "", text
    return match["reasoning"].strip(), text[match.end() :]


def first_json_object(text: str) -> dict[str, Any]:
    """The first JSON object in a reply, tolerating code fences and a sentence before it; nothing is repaired."""
    body = _FENCE.sub("", text)
    start = body.find("{")
    if start < 0:
        raise InvalidAction("the reply holds no JSON object; reply with one JSON object and nothing else")
    try:
        value, _ = json.JSONDecoder().raw_decode(body[start:])
    except json.JSONDecodeError as error:
        raise InvalidAction(
            f"the reply is not valid JSON ({error.msg} at character {error.pos} of the object); "
            "reply with one complete JSON object and nothing else"
        ) from None
    except RecursionError:
        raise InvalidAction("the reply's JSON is nested too deeply") from None
    return typing.cast(dict[str, Any], value)


def required_text(value: Mapping[str, Any], key: str) -> str:
    """A text member that may be missing or null, but not something else."""
    item = value.get(key)
    if item is None:
        return ""
    if not isinstance(item, str):
        raise InvalidAction(f"{key} must be text, not {_short(item)}")
    return item
