"""The Surfer-H / Holo1.5 contract: `{thought, notes, action}` with actions such as `click_element`, absolute pixels.

These models do not chat. Every request is one message that holds the task, what was done so far, the notes taken, and
the last screenshots; so the memory is text we keep, not a conversation. `write_element` replaces what the field holds
and presses Enter, as that agent always did.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from holotron.actions import (
    ANSWER_ONLY,
    InvalidAction,
    action_from_json,
    action_to_json,
    first_json_object,
    required_text,
)
from holotron.agent.coordinates import Frame, Screen, action_to_model, frame_schema, frame_sentence
from holotron.agent.describe import describe
from holotron.agent.dialects import dialects
from holotron.agent.dialects.base import (
    ANSWER_NOW,
    PAGE_IS_DATA,
    Dialect,
    Output,
    feedback_text,
    place,
    today,
    user_text,
)
from holotron.agent.history import Selection, Turn
from holotron.agent.images import QWEN25, Resize
from holotron.agent.messages import Message
from holotron.errors import InputError
from holotron.types import Action, Scroll, Task, Write

_SYSTEM = """You browse the web for a user. Each request shows the latest screenshots of the browser, the task, the \
actions taken so far and your notes. Decide on the next action.

Guidelines:
- thought: brief reasoning that leads to the action.
- notes: information on the screenshots that matters for the task; empty when there is nothing new.
- To fill a field, write into it directly; there is no need to click it first.
- Accept or close cookie notices that are in the way.
- Do not repeat an action that changed nothing.
- When the notes and the screenshots are enough to answer the task, use the answer action, with all details.
- {frame}
- {data}

<output_json_format>
{schema}
</output_json_format>"""

# Our name -> theirs, with the arguments they have for it.
_THEIRS: dict[str, tuple[str, tuple[str, ...]]] = {
    "click": ("click_element", ("element", "x", "y")),
    "write": ("write_element", ("content", "element", "x", "y")),
    "scroll": ("scroll", ("direction",)),
    "go_back": ("go_back", ()),
    "goto": ("goto", ("url",)),
    "refresh": ("refresh", ()),
    "wait": ("wait", ("seconds",)),
    "restart": ("restart", ()),
    "answer": ("answer", ("content",)),
}
_OURS = {theirs: ours for ours, (theirs, _) in _THEIRS.items()} | {"write_element_abs": "write"}


@dialects.register("surfer")
class SurferDialect(Dialect):
    name: ClassVar[str] = "surfer"
    default_frame: ClassVar[Frame] = Frame.PIXELS
    default_resize: ClassVar[Resize | None] = QWEN25
    expressible: ClassVar[tuple[str, ...]] = tuple(_THEIRS)

    def system(self, task: Task, screen: Screen) -> str:
        prompt = _SYSTEM.format(
            frame=frame_sentence(self.frame, screen),
            data=PAGE_IS_DATA,
            schema=json.dumps(self._schema(self.actions), separators=(",", ":")),
        )
        return f"{prompt}\n{date}" if (date := today(task)) else prompt

    def messages(self, task: Task, view: Selection) -> list[Message]:
        last = view.shown[-1].turn
        system = Message("system", (self.system(task, last.screen),))
        past = [turn for turn in (*view.folded, *(item.turn for item in view.shown)) if turn.reply is not None]
        memory: dict[str, Any] = {
            "task": task.goal,
            "previous_actions": [self._past(turn) for turn in past],
            "notes": [turn.reply.note for turn in past if turn.reply is not None and turn.reply.note],
            "page": place(last.observation),
        }
        if said := [text for turn in (*past, last) if (text := user_text(turn))]:
            memory["user"] = said
        if last.feedback:
            memory["problem"] = feedback_text(last)
        if last.must_answer:
            memory["important"] = ANSWER_NOW
        images = [item.image for item in view.shown if item.image is not None]
        return [system, Message("user", (json.dumps(memory, ensure_ascii=False), *images))]

    def _past(self, turn: Turn) -> str:
        if turn.reply is None or turn.reply.action is None:
            return f"step {turn.index + 1}: a reply that was not a valid action"
        return f"step {turn.index + 1}: {describe(action_to_model(self.frame, turn.screen, turn.reply.action))}"

    def output(self, *, must_answer: bool = False) -> Output:
        return Output(json_schema=self._schema(ANSWER_ONLY if must_answer else self.actions))

    def _schema(self, names: tuple[str, ...]) -> dict[str, Any]:
        coordinate = frame_schema(self.frame)
        kinds: dict[str, dict[str, Any]] = {
            "x": coordinate,
            "y": coordinate,
            "direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
            "seconds": {"type": "integer", "minimum": 0, "maximum": 10},
        }
        variants = []
        for name in names:
            theirs, arguments = _THEIRS[name]
            properties = {"action": {"type": "string", "const": theirs}}
            properties |= {argument: kinds.get(argument, {"type": "string"}) for argument in arguments}
            variants.append(_object(properties))
        action = variants[0] if len(variants) == 1 else {"anyOf": variants}
        return _object({"thought": {"type": "string"}, "notes": {"type": "string"}, "action": action})

    def read(self, text: str) -> tuple[str, str, Action]:
        reply = first_json_object(text)
        given = reply.get("action")
        if not isinstance(given, Mapping):
            raise InvalidAction("the reply has no action; reply with {thought, notes, action}")
        name = given.get("action")
        if name not in _OURS:
            raise InvalidAction(f"there is no action {str(name)[:40]!r}; use one of: {', '.join(_OURS)}")
        ours = _OURS[name]
        arguments = {key: given[key] for key in _THEIRS[ours][1] if key in given}
        if ours == "write":
            arguments["press_enter"] = True
        action = action_from_json({"tool_name": ours, **arguments})
        notes = required_text(reply, "notes") or required_text(reply, "note")
        return notes, required_text(reply, "thought"), action

    def write(self, action: Action, note: str, thought: str) -> str:
        if isinstance(action, Write) and not (action.press_enter and action.overwrite and action.x is not None):
            raise InputError("surfer's write_element points at a field, replaces its text and presses Enter")
        if isinstance(action, Scroll) and (action.amount or action.x is not None):
            raise InputError("surfer's scroll takes a direction and nothing else")
        theirs, arguments = _THEIRS[action.tool_name]
        given = action_to_json(action, defaults=True)
        said = {"action": theirs} | {key: given[key] for key in arguments}
        return json.dumps({"thought": thought, "notes": note, "action": said}, ensure_ascii=False)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
