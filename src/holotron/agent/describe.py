"""One line about an action, for people: terminals, logs, reports. What it quotes cannot end the quote or the line."""

from __future__ import annotations

from holotron.quoting import one_line
from holotron.types import (
    Action,
    Answer,
    Click,
    DoubleClick,
    Drag,
    Goto,
    Hover,
    NewTab,
    PressKeys,
    RightClick,
    Scroll,
    SwitchTab,
    Wait,
    Write,
)

_INNER = str.maketrans("“”", "‘’")  # quotes inside quotes


def describe(action: Action) -> str:
    name = action.tool_name.replace("_", " ")
    match action:
        case Write():
            where = f" at {_point(action.x, action.y)}" if action.x is not None else ""
            enter = " ⏎" if action.press_enter else ""
            return f"write {_quoted(action.content)}{enter}{where}{_element(action.element)}"
        case PressKeys():
            return one_line(f"press {'+'.join(action.keys)}", 80)
        case Scroll():
            amount = f" by {action.amount:g}" if action.amount else ""
            where = f" at {_point(action.x, action.y)}" if action.x is not None else ""
            return f"scroll {action.direction}{amount}{where}"
        case Drag():
            return f"drag {_point(action.x1, action.y1)} to {_point(action.x2, action.y2)}"
        case Goto() | NewTab():
            return one_line(f"{name} {action.url}", 500)
        case SwitchTab():
            return f"switch to tab {action.index}"
        case Wait():
            return f"wait {action.seconds:g} s"
        case Answer():
            return f"answer {_quoted(action.content)}"
        case Click() | DoubleClick() | RightClick() | Hover():
            return f"{name} {_point(action.x, action.y)}{_element(action.element)}"
    return name


def _point(x: float | None, y: float | None) -> str:
    return f"({x:.0f}, {y:.0f})"


def _element(element: str) -> str:
    return f" on {_quoted(element)}" if element else ""


def _quoted(text: str) -> str:
    return f"“{one_line(text, 80).translate(_INNER)}”"
