"""The four kinds of label as questions to a model: what it is shown, what it may write, what it meant.

A point is asked for in the model's own dialect, as a task with one step, because that is what policies are trained on.
One that answers instead of pointing says that there is nothing to point at, which is a label too. The others are plain
questions with a JSON answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from holotron.actions import InvalidAction
from holotron.agent.coordinates import Screen, frame_schema, frame_sentence, point_to_page
from holotron.agent.dialects.base import PAGE_IS_DATA, Dialect, Output
from holotron.agent.history import Selection, Shown, Turn
from holotron.agent.messages import Message
from holotron.annotate.agreement import Value
from holotron.annotate.items import Item
from holotron.data.labels import NOT_THERE
from holotron.types import Answer, Completion, Observation, Task

LONGEST_CAPTION = 240  # characters
_SIDES = ("left", "top", "right", "bottom")


class Question:
    """One item, ready to be asked in one model's words."""

    def __init__(self, item: Item, looks: Sequence[Observation], dialect: Dialect) -> None:
        self._item = item
        self._dialect = dialect
        prepared = [dialect.look(look) for look in looks]
        self._images = [image for image, _ in prepared]
        self._looks = looks
        self._screen: Screen = prepared[-1][1]

    def messages(self) -> list[Message]:
        item = self._item
        if item.kind == "point":
            turn = Turn(0, self._looks[-1], self._images[-1], self._screen)
            return self._dialect.messages(
                Task("annotate", "point", item.instruction), Selection((), (Shown(turn, turn.image),))
            )
        return [Message("system", (PAGE_IS_DATA,)), Message("user", (*self._images, self._words()))]

    def _words(self) -> str:
        item = self._item
        context = "".join(f"{line}\n" for line in item.context)
        if item.kind == "box":
            frame = frame_sentence(self._dialect.frame, self._screen)
            return (
                f"Give the box around the element that this is about: {item.instruction}\n{frame}\n"
                'Reply with JSON: {"left": ..., "top": ..., "right": ..., "bottom": ...}'
            )
        if item.kind == "caption":
            what = (
                "what the action did, as seen on the screen before and after" if context else "what this screen shows"
            )
            return f'{context}Say in one short sentence {what}.\nReply with JSON: {{"caption": "..."}}'
        what = "episode" if context else "screenshot"
        return (
            f"Task: {item.instruction}\n{context}Judge by the last screenshots whether this {what} shows that the task "
            'was done, fully and rightly.\nReply with JSON: {"reason": "...", "success": true or false}'
        )

    def output(self) -> Output:
        kind = self._item.kind
        if kind == "point":
            return self._dialect.output()
        if kind == "box":
            return Output(json_schema=_object({side: frame_schema(self._dialect.frame) for side in _SIDES}))
        text = {"type": "string", "maxLength": LONGEST_CAPTION}
        if kind == "caption":
            return Output(json_schema=_object({"caption": text}))
        return Output(json_schema=_object({"reason": text, "success": {"type": "boolean"}}))

    def read(self, completion: Completion) -> tuple[Value | None, str]:
        """What was meant, and a remark: the judge's reason, or why it could not be read."""
        if self._item.kind == "point":
            reply = self._dialect.parse(completion, self._screen)
            if isinstance(reply.action, Answer):
                return NOT_THERE, reply.action.content
            x, y = getattr(reply.action, "x", None), getattr(reply.action, "y", None)
            if x is None or y is None:
                said = f"no point but {reply.action.tool_name}" if reply.action else reply.error
                return None, said
            return (round(x, 1), round(y, 1)), ""
        try:
            return self._from_json(parse_json(completion.text))
        except (ValueError, KeyError, TypeError, InvalidAction) as error:
            return None, f"unreadable reply {completion.text[:80]!r}: {error}"

    def _from_json(self, reply: Any) -> tuple[Value | None, str]:
        if self._item.kind == "box":
            frame, screen = self._dialect.frame, self._screen
            left, top = point_to_page(frame, screen, float(reply["left"]), float(reply["top"]))
            right, bottom = point_to_page(frame, screen, float(reply["right"]), float(reply["bottom"]))
            if not (left < right and top < bottom):
                return None, "the box is empty"
            return tuple(round(v, 1) for v in (left, top, right, bottom)), ""
        if self._item.kind == "caption":
            caption = " ".join(str(reply["caption"]).split())
            return (caption, "") if caption else (None, "the caption is empty")
        if not isinstance(reply["success"], bool):
            return None, "success is neither true nor false"
        return reply["success"], str(reply.get("reason", ""))


def instructions_request(look: Observation, dialect: Dialect, count: int) -> tuple[list[Message], Output]:
    """Ask a model which elements of a screen one could be asked to click."""
    image, _ = dialect.look(look)
    words = (
        f"Write {count} different instructions, each about one element of this screen that can be clicked, as a person "
        'would say it.\nReply with JSON: {"instructions": ["...", ...]}'
    )
    line = {"type": "string", "minLength": 1, "maxLength": 120}
    lines = {"type": "array", "items": line, "minItems": 1, "maxItems": count}
    messages = [Message("system", (PAGE_IS_DATA,)), Message("user", (image, words))]
    return messages, Output(json_schema=_object({"instructions": lines}))


def read_instructions(completion: Completion, count: int) -> list[str]:
    """What came back; nothing where it cannot be read."""
    try:
        lines = parse_json(completion.text)["instructions"]
        cleaned = [" ".join(str(line).split()) for line in lines]
    except (ValueError, KeyError, TypeError):
        return []
    return list(dict.fromkeys(line for line in cleaned if line))[:count]


def parse_json(text: str) -> Any:
    """The object in a reply; models like to wrap it in words or fences."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise ValueError("there is no JSON object in it")
    return json.loads(text[start : end + 1])


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
