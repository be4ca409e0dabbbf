"""The Holo3 / Holotron agent contract: one JSON object `{note, thought, tool_call}` a turn, coordinates 0-1000.

`note` is durable memory (or null), `thought` one line, `tool_call` flat: `tool_name` beside its arguments. The
schema is both in the system prompt and enforced by the decoder, as these models were trained. Observations come in
`<observation>`, results of the last action in `<tool_output>` or `<error>`.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from holotron.actions import (
    ANSWER_ONLY,
    DESCRIPTIONS,
    InvalidAction,
    action_from_json,
    action_to_json,
    first_json_object,
    required_text,
    union_schema,
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
    page_text,
    picture,
    place,
    today,
    user_text,
)
from holotron.agent.history import Selection, Shown, Turn
from holotron.agent.messages import Message, Part
from holotron.types import Action, Task

_SYSTEM = """You operate a web browser for a user. Each turn you see a screenshot and choose one action.

<rules>
- Look at the screenshot before you act, and check that your last action did what you wanted. If it did not, try \
something else; never repeat an action that changed nothing.
- note: what later steps will need from this screen (values, names, addresses); null when there is nothing new.
- thought: one line on why this action comes next.
- element: say what you point at before you give its coordinates.
- {frame}
- {data}
- Do only what the task asks. When it is done, or cannot be done, end with the answer action if there is one.
</rules>

<actions>
{actions}
</actions>

<output_format>
Reply with one JSON object and nothing else. It must follow this schema:
{schema}
</output_format>"""


@dialects.register("holotron")
class HolotronDialect(ChatDialect):
    name: ClassVar[str] = "holotron"
    default_frame: ClassVar[Frame] = Frame.THOUSAND

    def system(self, task: Task, screen: Screen) -> str:
        prompt = _SYSTEM.format(
            frame=frame_sentence(self.frame, screen),
            data=PAGE_IS_DATA,
            actions="\n".join(f"- {name}: {DESCRIPTIONS[name]}" for name in self.actions),
            schema=json.dumps(self._schema(self.actions), separators=(",", ":")),
        )
        return f"{prompt}\n{date}" if (date := today(task)) else prompt

    def ask(self, task: Task, view: Selection, shown: Shown, before: Turn | None) -> list[Message]:
        turn = shown.turn
        parts: list[Part] = []
        if shown is view.shown[0]:
            parts.append(f"<task>\n{goal_text(task, view)}\n</task>\n")
            if view.folded:
                lines = [f"step {past.index + 1}: {_one_line(past)}" for past in view.folded]
                parts.append("<history>\n" + "\n".join(lines) + "\n</history>\n")
        if turn.feedback:
            parts.append(f"<error>{feedback_text(turn)}</error>\n")
        elif before is not None and before.reply is not None and before.reply.action is not None:
            parts.append(f'<tool_output tool="{before.reply.action.tool_name}">done</tool_output>\n')
        if turn.instruction:
            parts.append(f"<user>{user_text(turn)}</user>\n")
        lines = place(turn.observation)
        parts += [f"<observation step={turn.index + 1}>\n", *(f"{line}\n" for line in lines)]
        parts += ["<screenshot>\n", picture(shown), "\n</screenshot>\n</observation>"]
        if turn.must_answer:
            parts.append(f"\n<final>{ANSWER_NOW}</final>")
        return [Message("user", _join(parts))]

    def output(self, *, must_answer: bool = False) -> Output:
        return Output(json_schema=self._schema(ANSWER_ONLY if must_answer else self.actions))

    def _schema(self, names: tuple[str, ...]) -> dict[str, Any]:
        properties = {
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "thought": {"type": "string"},
            "tool_call": union_schema(names, frame_schema(self.frame)),
        }
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }

    def read(self, text: str) -> tuple[str, str, Action]:
        reply = first_json_object(text)
        if "tool_call" not in reply:
            raise InvalidAction("the reply has no tool_call; reply with {note, thought, tool_call}")
        action = action_from_json(reply["tool_call"])
        return required_text(reply, "note"), required_text(reply, "thought"), action

    def write(self, action: Action, note: str, thought: str) -> str:
        reply = {"note": note or None, "thought": thought, "tool_call": action_to_json(action, defaults=True)}
        return json.dumps(reply, ensure_ascii=False)


def _one_line(turn: Turn) -> str:
    if turn.reply is None or turn.reply.error:
        return "(a reply that was not a valid action)"
    return page_text(turn.said, 4000)


def _join(parts: list[Part]) -> tuple[Part, ...]:
    """Neighbouring texts become one part: fewer pieces to send, same tokens everywhere."""
    joined: list[Part] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return tuple(joined)
