"""A dialect for small policies: the goal, the screenshot, and one short line back.

    click 412 733            double 412 733        right 412 733       hover 412 733
    type hello               replace what the focused field holds
    insert hello             type without replacing
    enter hello              type, then press Enter
    write 412 733 hello      click the field, then type
    key Control a            scroll down [412 733] [by 250]            drag 100 200 300 400
    wait [2.5]  back  goto URL  refresh  newtab [URL]  tab 1  closetab  restart  answer TEXT

Coordinates are cells 000-999, always three digits, so that position in the text tells a byte-level model which digit it
is writing. Line breaks, tabs and backslashes in texts are written \\n, \\t, \\r and \\\\. There is no memory: what a
small policy knows, it sees. It thinks in two ways. It looks somewhere before it acts,

    look 400 690 click 412 733

which is how "the button below Total" is found: first Total, then what is below it; and how an answer is read. What it
types may need something that stands on the screen: then it reads that first, and works with what it has read,

    read 7 + 5 | type 12
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from holotron.actions import InvalidAction, action_from_json
from holotron.agent.coordinates import Frame, Screen
from holotron.agent.dialects import dialects
from holotron.agent.dialects.base import ANSWER_NOW, ChatDialect, Output, feedback_text, goal_text, picture, user_text
from holotron.agent.history import Selection, Shown, Turn
from holotron.agent.messages import Message, Part
from holotron.errors import InputError
from holotron.types import (
    Action,
    Answer,
    Click,
    CloseTab,
    DoubleClick,
    Drag,
    GoBack,
    Goto,
    Hover,
    NewTab,
    PressKeys,
    Refresh,
    Restart,
    RightClick,
    Scroll,
    SwitchTab,
    Task,
    Wait,
    Write,
)

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_UNESCAPES = {escaped[1]: plain for plain, escaped in _ESCAPES.items()}
_BAR = "\\|"  # in what is read, where a bare one ends it

_POINTED: dict[str, type[Click] | type[DoubleClick] | type[RightClick] | type[Hover]] = {
    "click": Click,
    "double": DoubleClick,
    "right": RightClick,
    "hover": Hover,
}
_BARE: dict[str, type[GoBack] | type[Refresh] | type[CloseTab] | type[Restart]] = {
    "back": GoBack,
    "refresh": Refresh,
    "closetab": CloseTab,
    "restart": Restart,
}
_VERB_OF = {cls: verb for verb, cls in (_POINTED | _BARE).items()}

_CELL = r"(\d{1,3})"
_SCROLL = re.compile(rf"(up|down|left|right)(?: {_CELL} {_CELL})?(?: by (\d+))?")
_PAIR = re.compile(rf"{_CELL} {_CELL}")
_WRITE = re.compile(rf"{_CELL} {_CELL}(?: (.*))?", re.DOTALL)
_DRAG = re.compile(rf"{_CELL} {_CELL} {_CELL} {_CELL}")
_LOOK = re.compile(rf"(look {_CELL} {_CELL}) ")
_WORDS = r"(?:[^\\|]|\\.)*"  # what is read, up to a bar that is not escaped
_READ = re.compile(rf"read ({_WORDS}) \| ")
_PLACES = re.compile(
    rf"(?:look {_CELL} {_CELL} )?(?:read {_WORDS} \| )?"
    rf"(?:(?:click|double|right|hover|write|drag|scroll \w+) {_CELL} {_CELL}(?:(?<=drag ... ...) {_CELL} {_CELL})?)?"
)

# One line of any kind, for engines that decode under a regular expression.
_POINT_RE = r"[0-9]{3} [0-9]{3}"
_TEXT_RE = r"[^\n]*"
_LINES = {
    "click": rf"click {_POINT_RE}",
    "double_click": rf"double {_POINT_RE}",
    "right_click": rf"right {_POINT_RE}",
    "hover": rf"hover {_POINT_RE}",
    "write": rf"(read ([^\n\\|]|\\[^\n])* \| )?(type|insert|enter|write {_POINT_RE}) {_TEXT_RE}",
    "press_keys": r"key [^ \n]+( [^ \n]+)*",
    "scroll": rf"scroll (up|down|left|right)( {_POINT_RE})?( by [0-9]{{1,4}})?",
    "drag": rf"drag {_POINT_RE} {_POINT_RE}",
    "go_back": "back",
    "goto": r"goto [^ \n]+",
    "refresh": "refresh",
    "wait": r"wait( ([0-9](\.[0-9]+)?|10))?",
    "new_tab": r"newtab( [^ \n]+)?",
    "switch_tab": r"tab [0-9]{1,2}",
    "close_tab": "closetab",
    "restart": "restart",
    "answer": rf"answer {_TEXT_RE}",
}


@dialects.register("compact")
class CompactDialect(ChatDialect):
    name: ClassVar[str] = "compact"
    default_frame: ClassVar[Frame] = Frame.CELLS
    frames: ClassVar[tuple[Frame, ...]] = (Frame.CELLS,)
    looks: ClassVar[bool] = True

    def system(self, task: Task, screen: Screen) -> str:
        return ""

    def ask(self, task: Task, view: Selection, shown: Shown, before: Turn | None) -> list[Message]:
        parts: list[Part] = []
        if shown is view.shown[0]:
            parts.append(goal_text(task, view) + "\n")
            done = [turn for turn in view.folded if turn.reply is not None and not turn.reply.error]
            if past := [
                next(iter(turn.said.strip().splitlines()), "") for turn in done
            ]:  # of a reply, `read` takes one line
                parts.append("\n".join(past) + "\n")
        if shown.turn.feedback:
            parts.append(f"error: {feedback_text(shown.turn)}\n")
        if shown.turn.instruction:
            parts.append(f"{user_text(shown.turn)}\n")
        if shown.turn.must_answer:
            parts.append(ANSWER_NOW + "\n")
        return [Message("user", (*parts, picture(shown)))]

    def output(self, *, must_answer: bool = False) -> Output:
        names = ("answer",) if must_answer else self.actions
        return Output(regex=f"(look {_POINT_RE} )?(" + "|".join(_LINES[name] for name in names) + ")")

    # ------------------------------------------------------------------------------------------------------ reading

    def read(self, text: str) -> tuple[str, str, Action]:
        line = text.lstrip().split("\n", 1)[0]
        looked = _LOOK.match(line)
        line = line[looked.end() if looked else 0 :]
        has_read = _READ.match(line)
        verb, _, rest = line[has_read.end() if has_read else 0 :].partition(" ")
        reader = _READERS.get(verb)
        if reader is None:
            raise InvalidAction(f"there is no action {verb[:40]!r}; start with one of: {' '.join(_READERS)}")
        action = reader(rest)
        if action is None:
            raise InvalidAction(f"cannot read {line[:80]!r}; say for example {_EXAMPLES.get(verb, verb)!r}")
        if looked and isinstance(action, Answer):  # where it is read belongs to the answer
            return "", "", replace(action, x=float(looked[2]), y=float(looked[3]))
        if has_read and isinstance(action, Write):  # and what is read to what is typed
            action = replace(action, read=_unescape(has_read[1].replace(_BAR, "|")))
        return "", looked[1] if looked else "", action

    def places(self, text: str) -> list[tuple[int, float, float]]:
        line = _PLACES.match(text)
        assert line is not None  # all of it is optional
        pairs = [(line.start(n), int(line[n]), int(line[n + 1])) for n in range(1, 6, 2) if line[n]]
        return [(start, (x + 0.5) / 1000, (y + 0.5) / 1000) for start, x, y in pairs]

    # ------------------------------------------------------------------------------------------------------ writing

    def write(self, action: Action, note: str, thought: str) -> str:
        if isinstance(action, Answer) and action.x is not None:
            return _line(action)
        looked = f"{thought} " if _LOOK.fullmatch(f"{thought} ") else ""
        return looked + _line(action)


def _line(action: Action) -> str:
    match action:
        case Click() | DoubleClick() | RightClick() | Hover():
            return f"{_VERB_OF[type(action)]} {_cells(action.x, action.y)}"
        case GoBack() | Refresh() | CloseTab() | Restart():
            return _VERB_OF[type(action)]
        case Write():
            return _write(action)
        case PressKeys():
            return "key " + " ".join(action.keys)
        case Scroll():
            point = f" {_cells(action.x, action.y)}" if action.x is not None and action.y is not None else ""
            return f"scroll {action.direction}{point}" + (f" by {action.amount:.0f}" if action.amount else "")
        case Drag():
            return f"drag {_cells(action.x1, action.y1)} {_cells(action.x2, action.y2)}"
        case Wait():
            return "wait" if action.seconds == 1.0 else f"wait {action.seconds:g}"
        case Goto():
            return f"goto {action.url}"
        case NewTab():
            return f"newtab {action.url}".rstrip()
        case SwitchTab():
            return f"tab {action.index}"
        case Answer():
            looked = f"look {_cells(action.x, action.y)} " if action.x is not None and action.y is not None else ""
            return f"{looked}answer {_escape(action.content)}"


def _write(action: Write) -> str:
    read = f"read {_escape(action.read).replace('|', _BAR)} | " if action.read else ""
    return read + _typed(action)


def _typed(action: Write) -> str:
    content = _escape(action.content)
    if action.x is not None and action.y is not None:
        if action.overwrite and not action.press_enter:
            return f"write {_cells(action.x, action.y)} {content}"
    elif action.press_enter and action.overwrite:
        return f"enter {content}"
    elif not action.press_enter:
        return f"{'type' if action.overwrite else 'insert'} {content}"
    raise InputError("the compact dialect has no words for this write; use a click, then type, insert or enter")


def _cells(x: float, y: float) -> str:
    return f"{x:03.0f} {y:03.0f}"


def _escape(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text)


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _UNESCAPES.get(match[1], match[0]), text)


# ----------------------------------------------------------------------------------------------------- verb by verb


def _pointed(verb: str) -> Callable[[str], Action | None]:
    def read(rest: str) -> Action | None:
        match = _PAIR.fullmatch(rest.strip())
        return _POINTED[verb](float(match[1]), float(match[2])) if match else None

    return read


def _bare(verb: str) -> Callable[[str], Action | None]:
    return lambda rest: None if rest.strip() else _BARE[verb]()


def _read_write(rest: str) -> Action | None:
    match = _WRITE.fullmatch(rest)
    return Write(_unescape(match[3] or ""), x=float(match[1]), y=float(match[2])) if match else None


def _read_scroll(rest: str) -> Action | None:
    match = _SCROLL.fullmatch(rest.strip())
    if match is None:
        return None
    value = {"tool_name": "scroll", "direction": match[1], "x": match[2], "y": match[3], "amount": match[4]}
    return action_from_json(value)


def _read_drag(rest: str) -> Action | None:
    match = _DRAG.fullmatch(rest.strip())
    return Drag(float(match[1]), float(match[2]), float(match[3]), float(match[4])) if match else None


_READERS: dict[str, Callable[[str], Action | None]] = {
    **{verb: _pointed(verb) for verb in _POINTED},
    "type": lambda rest: Write(_unescape(rest)),
    "insert": lambda rest: Write(_unescape(rest), overwrite=False),
    "enter": lambda rest: Write(_unescape(rest), press_enter=True),
    "write": _read_write,
    "key": lambda rest: action_from_json({"tool_name": "press_keys", "keys": rest.split()}),
    "scroll": _read_scroll,
    "drag": _read_drag,
    "wait": lambda rest: action_from_json({"tool_name": "wait", "seconds": rest.strip() or None}),
    "goto": lambda rest: Goto(rest.strip()) if rest.strip() else None,
    "newtab": lambda rest: NewTab(rest.strip()),
    "tab": lambda rest: action_from_json({"tool_name": "switch_tab", "index": rest.strip()}),
    **{verb: _bare(verb) for verb in _BARE},
    "answer": lambda rest: Answer(_unescape(rest)),
}

_EXAMPLES = {
    "click": "click 412 733",
    "double": "double 412 733",
    "right": "right 412 733",
    "hover": "hover 412 733",
    "write": "write 412 733 hello",
    "scroll": "scroll down",
    "drag": "drag 100 200 300 400",
    "goto": "goto https://example.org",
}
