"""The twelve desktop tools of Holotron-3-Nano, as data: what a model may write, checked, and its JSON schema.

The names, arguments and limits are those of the public reference loop (`NVIDIA-NeMo/Nemotron@e27b371`,
`usage-cookbook/Nemotron-3-Nano-Omni/computer-use-agent-with-omni/server/holotron_agent.py`).
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

Thousandths = Annotated[int, Field(ge=0, le=1000)]  # across or down the screenshot


class Tool(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    tool_name: str


class Goal(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    title: str
    status: Literal["todo", "running", "done", "failed"]


class UpdatePlan(Tool):
    """Write down or change your plan: all goals, at most one of them running."""

    tool_name: Literal["update_plan"] = "update_plan"
    goals: Annotated[list[Goal], Field(min_length=1, max_length=20)]


class WriteText(Tool):
    """Type text where the cursor is. overwrite replaces what the field holds; press_enter submits."""

    tool_name: Literal["write_desktop"] = "write_desktop"
    content: str
    press_enter: bool = False
    overwrite: bool = False


class Pointed(Tool):
    element: str
    x: Thousandths
    y: Thousandths


class ClickAt(Pointed):
    """Click the element at x, y."""

    tool_name: Literal["click_desktop"] = "click_desktop"
    button: Literal["left", "right", "middle"] = "left"


class DoubleClickAt(Pointed):
    """Double-click the element at x, y."""

    tool_name: Literal["double_click_desktop"] = "double_click_desktop"


class DragTo(Pointed):
    """Drag from where the cursor is to x, y."""

    tool_name: Literal["drag_to_desktop"] = "drag_to_desktop"


class ScrollAt(Pointed):
    """Scroll at x, y by clicks of the mouse wheel."""

    tool_name: Literal["scroll_desktop"] = "scroll_desktop"
    direction: Literal["up", "down", "left", "right"]
    scroll_size: Annotated[int, Field(ge=1, le=100)] = 10


class MoveTo(Pointed):
    """Move the mouse to x, y without clicking."""

    tool_name: Literal["move_to_desktop"] = "move_to_desktop"


class KeyDown(Tool):
    """Press a key and hold it."""

    tool_name: Literal["key_down_desktop"] = "key_down_desktop"
    key: str


class KeyUp(Tool):
    """Release a key that is held."""

    tool_name: Literal["key_up_desktop"] = "key_up_desktop"
    key: str


class Hotkey(Tool):
    """Press keys together, for example ["ctrl", "c"]."""

    tool_name: Literal["hotkey_desktop"] = "hotkey_desktop"
    keys: Annotated[list[str], Field(min_length=1, max_length=5)]
    repeat_count: Annotated[int, Field(ge=1, le=20)] = 1


class HoldAndTap(Tool):
    """Hold some keys while tapping others one after the other."""

    tool_name: Literal["hold_and_tap_key_desktop"] = "hold_and_tap_key_desktop"
    hold_keys: Annotated[list[str], Field(min_length=1, max_length=3)]
    tap_keys: Annotated[list[str], Field(min_length=1, max_length=5)]


class GiveAnswer(Tool):
    """End the task and give the user your answer."""

    tool_name: Literal["answer"] = "answer"
    content: str


TOOLS: dict[str, type[Tool]] = {
    str(tool.model_fields["tool_name"].default): tool
    for tool in (
        UpdatePlan, WriteText, ClickAt, DoubleClickAt, DragTo, ScrollAt, MoveTo, KeyDown, KeyUp, Hotkey, HoldAndTap,
        GiveAnswer,
    )
}  # fmt: skip


@cache
def adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(TOOLS[name])


def tool_schema(name: str) -> dict[str, Any]:
    """JSON schema of one tool, flat: `tool_name` beside its arguments; what has a default may be left out."""
    schema = adapter(name).json_schema()
    # Models say which tool before its arguments, and constrained decoders write properties in the schema's order.
    properties = {"tool_name": {"type": "string", "const": name}}
    properties |= {field: kind for field, kind in schema["properties"].items() if field != "tool_name"}
    required = ["tool_name", *schema.get("required", [])]
    schema |= {"description": (TOOLS[name].__doc__ or "").strip(), "properties": properties, "required": required}
    return _plain(schema, schema.get("$defs", {}))


def _plain(value: Any, definitions: dict[str, Any]) -> Any:
    """Without titles and with references written out, which is shorter to read and spares decoders the look-up."""
    if isinstance(value, list):
        return [_plain(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _plain(definitions[value["$ref"].rpartition("/")[2]], definitions)
    return {
        key: {name: _plain(item, definitions) for name, item in entry.items()}
        if key == "properties"
        else _plain(entry, definitions)
        for key, entry in value.items()
        if key not in ("title", "$defs")
    }
