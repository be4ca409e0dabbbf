"""Native tool calls: every action is a function the model may call, through whatever format its server speaks.

In stored text a call looks as Nemotron checkpoints write it, after the model's words:
`<TOOLCALL>[{"name": ..., "arguments": {...}}]</TOOLCALL>`. So a reply reads the same whether a server already parsed
it or the raw text came from an engine of our own. One action a turn: of several calls only the first counts.
"""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar

from holotron.actions import (
    DESCRIPTIONS,
    InvalidAction,
    action_from_json,
    action_schema,
    action_to_json,
)
from holotron.agent.coordinates import Frame, Screen, frame_schema, frame_sentence
from holotron.agent.dialects import dialects
from holotron.agent.dialects.base import (
    ANSWER_NOW,
    PAGE_IS_DATA,
    ChatDialect,
    Output,
    feedback_text,
    goal_text,
    picture,
    place,
    today,
    user_text,
)
from holotron.agent.history import Selection, Shown, Turn
from holotron.agent.messages import Message, Part, ToolCall
from holotron.quoting import one_line
from holotron.types import Action, Task

_SYSTEM = """You operate a web browser for a user. Each turn you see a screenshot; say in one line what you do and \
why, then call exactly one tool.
- {frame}
- {data}
- Check that your last action did what you wanted; never repeat one that changed nothing.
- When the task is done, or cannot be done, call answer if there is such a tool."""

_CALL = re.compile(r"<TOOLCALL>(.*?)(?:</TOOLCALL>|\Z)", re.DOTALL)


def write_calls(words: str, calls: list[tuple[str, Any]]) -> str:
    """Words and calls as one text; `calls` holds (name, arguments) where arguments may still be a JSON string."""
    if not calls:
        return words
    listed = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return f"{words}<TOOLCALL>{json.dumps(listed, ensure_ascii=False)}</TOOLCALL>"


def read_call(text: str) -> tuple[str, str, dict[str, Any]]:
    """(words, name, arguments) of the first call in a text. Raises `InvalidAction`."""
    match = _CALL.search(text)
    if match is None:
        raise InvalidAction("the reply calls no tool; call exactly one")
    words = text[: match.start()].strip()
    try:
        calls = json.loads(match[1])
        first = calls[0] if isinstance(calls, list) else calls
        arguments = first.get("arguments") or {}
        if isinstance(arguments, str):  # the OpenAI API carries arguments as a JSON string
            arguments = json.loads(arguments)
        return words, str(first["name"]), dict(arguments)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise InvalidAction(f"the tool call is malformed ({error}); call one tool with JSON arguments") from None


@dialects.register("tools")
class ToolsDialect(ChatDialect):
    name: ClassVar[str] = "tools"
    default_frame: ClassVar[Frame] = Frame.THOUSAND

    def system(self, task: Task, screen: Screen) -> str:
        prompt = _SYSTEM.format(frame=frame_sentence(self.frame, screen), data=PAGE_IS_DATA)
        return f"{prompt}\n{date}" if (date := today(task)) else prompt

    def ask(self, task: Task, view: Selection, shown: Shown, before: Turn | None) -> list[Message]:
        turn = shown.turn
        messages: list[Message] = []
        parts: list[Part] = []
        if shown is view.shown[0]:
            parts.append(f"Task: {goal_text(task, view)}\n")
            if view.folded:
                past = "\n".join(f"{past.index + 1}. {one_line(past.said, 4000)}" for past in view.folded)
                parts.append(f"Done so far:\n{past}\n")
        elif before is not None and (call := _call_of(before)) is not None:
            # Tool results cannot carry images in this API, so the result is a word and the screen follows as the user.
            messages.append(Message("tool", (feedback_text(turn) or "done",), tool_call_id=call.id))
        if turn.feedback and not messages:
            parts.append(f"Problem: {feedback_text(turn)}\n")
        if turn.instruction:
            parts.append(f"{user_text(turn)}\n")
        parts.append("".join(f"{line}\n" for line in place(turn.observation)))
        if turn.must_answer:
            parts.append(ANSWER_NOW + "\n")
        messages.append(Message("user", ("".join(str(part) for part in parts), picture(shown))))
        return messages

    def replied(self, turn: Turn) -> Message:
        call = _call_of(turn)
        words = _CALL.sub("", turn.said).strip()
        return Message("assistant", (words,), tool_calls=() if call is None else (call,))

    def output(self, *, must_answer: bool = False) -> Output:
        coordinate = frame_schema(self.frame)
        tools = tuple(
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": DESCRIPTIONS[name],
                    "parameters": _parameters(name, coordinate),
                },
            }
            for name in self.actions
        )
        return Output(tools=tools, must_call="answer" if must_answer and "answer" in self.actions else "")

    def read(self, text: str) -> tuple[str, str, Action]:
        words, name, arguments = read_call(text)
        return "", words, action_from_json({**arguments, "tool_name": name})

    def write(self, action: Action, note: str, thought: str) -> str:
        arguments = action_to_json(action, defaults=True)
        name = arguments.pop("tool_name")
        return write_calls(thought, [(name, arguments)])


def _parameters(name: str, coordinate: dict[str, Any]) -> dict[str, Any]:
    schema = action_schema(name, coordinate, tag=False)
    return {key: value for key, value in schema.items() if key != "description"}


def _call_of(turn: Turn) -> ToolCall | None:
    try:
        _, name, arguments = read_call(turn.said)
    except InvalidAction:
        return None
    return ToolCall(f"call_{turn.index}", name, arguments)
