"""The loop that Holotron-3-Nano was published with: twelve desktop tools as JSON, coordinates 0-1000.

    {"note": null, "thought": "The gear opens the settings.",
     "tool_call": {"tool_name": "click_desktop", "element": "gear", "x": 412, "y": 733, "button": "left"}}

As in the public reference (see `desktop_tools`), the task, the result of every tool and every observation are user
messages of their own, older screenshots become a line of text, the reply is held to a JSON schema, and what stands of
it in the conversation is what was understood, written the same way every time. The words of the system prompt are ours.

A tool that has no counterpart among our actions (holding a key, the middle button, several taps, dragging from wherever
the cursor is) is understood all the same: the reply is refused with the reason, which the model reads in its next turn.
`update_plan` changes nothing on the screen; it is a wait of no time. Ten clicks of the wheel, the default, are "most of
a page"; any other number is that many tenths of the screen.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from pydantic import ValidationError

from holotron.actions import InvalidAction, action_from_json, explain, first_json_object, required_text
from holotron.agent.coordinates import Frame, Screen, frame_sentence
from holotron.agent.dialects import desktop_tools as tools
from holotron.agent.dialects import dialects
from holotron.agent.dialects.base import (
    ANSWER_NOW,
    PAGE_IS_DATA,
    UNCHANGED,
    ChatDialect,
    Output,
    feedback_text,
    goal_text,
    page_text,
    place,
    today,
    user_text,
)
from holotron.agent.history import Selection, Shown, Turn
from holotron.agent.messages import Message, Part
from holotron.errors import InputError
from holotron.types import (
    Action,
    Answer,
    Click,
    DoubleClick,
    Hover,
    PressKeys,
    RightClick,
    Scroll,
    Task,
    Wait,
    Write,
)

OMITTED = "[Image omitted by context cleaning]"  # as the reference writes it
_WHEEL = 100  # thousandths of the screen that one click of the wheel scrolls
_PAGE = 10  # clicks that mean "most of a page"

# The action that each tool becomes; none: it is understood and refused.
_BECOMES: dict[str, tuple[str, ...]] = {
    "update_plan": ("wait",),
    "write_desktop": ("write",),
    "click_desktop": ("click", "right_click"),
    "double_click_desktop": ("double_click",),
    "scroll_desktop": ("scroll",),
    "move_to_desktop": ("hover",),
    "hotkey_desktop": ("press_keys",),
    "hold_and_tap_key_desktop": ("press_keys",),
    "answer": ("answer",),
    "drag_to_desktop": (),
    "key_down_desktop": (),
    "key_up_desktop": (),
}
_TOOL_OF = {action: name for name, actions in reversed(_BECOMES.items()) for action in actions}

# What pyautogui calls keys, where that is not the lower-case name.
_KEYS = {
    "Control": "ctrl", "Meta": "win", "Escape": "esc", "ArrowUp": "up", "ArrowDown": "down", "ArrowLeft": "left",
    "ArrowRight": "right",
}  # fmt: skip

_SYSTEM = """You operate a computer for a user, step by step. In every step you see the screen and call one tool.

<rules>
- note: what later steps will need from this screen (values, names, paths), for only the last few screenshots stay \
visible; null when there is nothing new.
- thought: whether the last tool did what you wanted, and why the next one follows. Do not repeat what changed nothing.
- tool_call: exactly one tool.
- {frame}
- {data}
- Do what the task asks and check it on the screen. When it is done, or cannot be done, end with the answer tool.
</rules>

<tools>
{tools}
</tools>

<output_format>
Reply with one JSON object and nothing else. It must follow this schema:
{schema}
</output_format>"""


@dialects.register("desktop")
class DesktopDialect(ChatDialect):
    name: ClassVar[str] = "desktop"
    default_frame: ClassVar[Frame] = Frame.THOUSAND
    frames: ClassVar[tuple[Frame, ...]] = (Frame.THOUSAND,)
    expressible: ClassVar[tuple[str, ...]] = tuple(_TOOL_OF)

    # ------------------------------------------------------------------------------------------------------ reading

    def system(self, task: Task, screen: Screen) -> str:
        names = self._tools()
        prompt = _SYSTEM.format(
            frame=frame_sentence(self.frame, screen),
            data=PAGE_IS_DATA,
            tools="\n".join(f"- {name}: {(tools.TOOLS[name].__doc__ or '').strip()}" for name in names),
            schema=json.dumps(_schema(names), separators=(",", ":")),
        )
        return f"{prompt}\n{date}" if (date := today(task)) else prompt

    def ask(self, task: Task, view: Selection, shown: Shown, before: Turn | None) -> list[Message]:
        turn = shown.turn
        asked: list[Message] = []
        if shown is view.shown[0]:
            asked.append(Message("user", (f"Task: {goal_text(task, view)}",)))
            if view.folded:
                lines = [f"step {past.index + 1}: {_one_line(past)}" for past in view.folded]
                asked.append(Message("user", ("<history>\n" + "\n".join(lines) + "\n</history>",)))
        tool = _tool_named(before.said) if before is not None and before.reply is not None else ""
        if turn.feedback:
            named = f' tool="{tool}"' if tool else ""
            asked.append(Message("user", (f"<error{named}>\nerror: {feedback_text(turn)}\n</error>",)))
        elif tool and tool != "update_plan":  # tools that act print nothing; a plan has no result
            asked.append(Message("user", (f'<tool_output tool="{tool}">\n\n</tool_output>',)))
        if turn.instruction:
            asked.append(Message("user", (user_text(turn),)))
        where = "".join(f"{line}\n" for line in place(turn.observation))
        seen: Part = shown.image if shown.image is not None else UNCHANGED if turn.image is None else OMITTED
        end = f"\n</observation>\n{ANSWER_NOW}" if turn.must_answer else "\n</observation>"
        parts: tuple[Part, ...] = (f"<observation>\n{where}", seen, end)
        asked.append(Message("user", parts if shown.image is not None else ("".join(map(str, parts)),)))
        return asked

    def replied(self, turn: Turn) -> Message:
        return Message("assistant", (_as_understood(turn.said),))

    # ------------------------------------------------------------------------------------------------------ writing

    def _tools(self) -> tuple[str, ...]:
        """What is offered: whatever becomes an action that is allowed, and what only a desktop can do, as trained."""
        allowed = set(self.actions)
        return tuple(name for name in tools.TOOLS if not _BECOMES[name] or allowed.intersection(_BECOMES[name]))

    def output(self, *, must_answer: bool = False) -> Output:
        return Output(json_schema=_schema(("answer",) if must_answer else self._tools()))

    def read(self, text: str) -> tuple[str, str, Action]:
        reply = first_json_object(text)
        call = _understood(reply, self._tools())
        return required_text(reply, "note"), required_text(reply, "thought"), _action(call)

    def write(self, action: Action, note: str, thought: str) -> str:
        return _said(note or None, thought, _call(action))


def _understood(reply: dict[str, Any], offered: tuple[str, ...]) -> tools.Tool:
    given = reply.get("tool_call")
    if not isinstance(given, dict):
        raise InvalidAction("the reply has no tool_call; reply with {note, thought, tool_call}")
    name = given.get("tool_name")
    if not isinstance(name, str) or name not in tools.TOOLS:
        raise InvalidAction(f"there is no tool {str(name)[:40]!r}; use one of: {', '.join(offered)}")
    try:
        # null means "not given", as in the other dialects.
        kept = {key: item for key, item in given.items() if item is not None}
        call: tools.Tool = tools.adapter(name).validate_python(kept)
    except ValidationError as error:
        raise InvalidAction(f"{name}: {explain(error)}") from None
    return call


def _said(note: str | None, thought: str, call: tools.Tool) -> str:
    """A reply as the reference writes it into the conversation: nothing left out, no spaces."""
    step = {"note": note, "thought": thought, "tool_call": call.model_dump()}
    return json.dumps(step, ensure_ascii=False, separators=(",", ":"))


def _as_understood(said: str) -> str:
    """A reply without what surrounds its JSON, defaults written out; one that cannot be read stays as it is."""
    try:
        reply = first_json_object(said)
        call = _understood(reply, ())
    except InvalidAction:
        return said
    note, thought = reply.get("note"), reply.get("thought", "")
    plain = (note is None or isinstance(note, str)) and isinstance(thought, str)
    return _said(note, thought, call) if plain else said


def _schema(names: tuple[str, ...]) -> dict[str, Any]:
    variants = [tools.tool_schema(name) for name in names]
    properties = {
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "thought": {"type": "string"},
        "tool_call": variants[0] if len(variants) == 1 else {"anyOf": variants},
    }
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _action(call: tools.Tool) -> Action:
    """What a tool means here, in the model's frame; an `InvalidAction` says why it cannot be done."""
    match call:
        case tools.ClickAt(button="left"):
            return Click(call.x, call.y, call.element)
        case tools.ClickAt(button="right"):
            return RightClick(call.x, call.y, call.element)
        case tools.ClickAt():
            raise _refused(call, "there is no middle button here", "button left or right")
        case tools.DoubleClickAt():
            return DoubleClick(call.x, call.y, call.element)
        case tools.MoveTo():
            return Hover(call.x, call.y, call.element)
        case tools.ScrollAt():
            amount = 0.0 if call.scroll_size == _PAGE else float(call.scroll_size * _WHEEL)
            return Scroll(call.direction, amount, call.x, call.y)
        case tools.WriteText():
            return Write(call.content, overwrite=call.overwrite, press_enter=call.press_enter)
        case tools.Hotkey(repeat_count=1):
            return _keys(call, call.keys)
        case tools.Hotkey():
            raise _refused(call, "keys are pressed once in a step here", "repeat_count 1")
        case tools.HoldAndTap() if len(call.tap_keys) == 1:
            return _keys(call, [*call.hold_keys, *call.tap_keys])
        case tools.HoldAndTap():
            raise _refused(call, "one key is tapped in a step here", "one of tap_keys at a time")
        case tools.DragTo():
            raise _refused(call, "nothing can be dragged from where the cursor is here", "clicks or keys")
        case tools.KeyDown() | tools.KeyUp():
            raise _refused(call, "keys cannot be held between steps here", "hotkey_desktop with all keys")
        case tools.UpdatePlan():
            return Wait(0.0)
        case tools.GiveAnswer():
            return Answer(call.content)
    raise InvalidAction(f"there is no tool {call.tool_name}")


def _keys(call: tools.Tool, keys: list[str]) -> Action:
    try:
        return action_from_json({"tool_name": "press_keys", "keys": keys})
    except InvalidAction:
        raise InvalidAction(f'{call.tool_name}: the keys are empty; give for example ["ctrl", "c"]') from None


def _refused(call: tools.Tool, why: str, instead: str) -> InvalidAction:
    return InvalidAction(f"{call.tool_name} was understood, but {why}; use {instead} instead")


def _call(action: Action) -> tools.Tool:
    match action:
        case Click():
            return tools.ClickAt(element=action.element, x=_int(action.x), y=_int(action.y))
        case RightClick():
            return tools.ClickAt(element=action.element, x=_int(action.x), y=_int(action.y), button="right")
        case DoubleClick():
            return tools.DoubleClickAt(element=action.element, x=_int(action.x), y=_int(action.y))
        case Hover():
            return tools.MoveTo(element=action.element, x=_int(action.x), y=_int(action.y))
        case Write(x=None):
            if action.element:
                raise InputError("write_desktop types where the cursor is and names no element")
            return tools.WriteText(content=action.content, press_enter=action.press_enter, overwrite=action.overwrite)
        case Scroll() if action.x is not None and action.y is not None:
            clicks = action.amount / _WHEEL if action.amount else float(_PAGE)
            if clicks != int(clicks) or not 1 <= clicks <= 100 or (action.amount and clicks == _PAGE):
                raise InputError("scroll_desktop scrolls by whole tenths of the screen, or by most of a page")
            size, x, y = int(clicks), _int(action.x), _int(action.y)
            return tools.ScrollAt(element="", x=x, y=y, direction=action.direction, scroll_size=size)
        case PressKeys() if len(action.keys) <= 5:
            return tools.Hotkey(keys=[_KEYS.get(key, key.lower() if len(key) > 1 else key) for key in action.keys])
        case Answer():
            return tools.GiveAnswer(content=action.content)
    raise InputError(f"the desktop dialect has no words for this {action.tool_name}")


def _int(value: float) -> int:
    return round(value)


def _tool_named(said: str) -> str:
    """Which tool a reply called, for the result that follows it; empty if none can be made out."""
    try:
        name = first_json_object(said).get("tool_call", {}).get("tool_name")
    except (InvalidAction, AttributeError):
        return ""
    return name if isinstance(name, str) and name in tools.TOOLS else ""


def _one_line(turn: Turn) -> str:
    note = f" (note: {page_text(turn.reply.note)})" if turn.reply is not None and turn.reply.note else ""
    return f"{_tool_named(turn.said) or '(a reply that was not a valid action)'}{note}"
