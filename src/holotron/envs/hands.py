"""Doing what an `Action` says on one page.

Everything here happens inside the page: mouse, keyboard, scrolling. What concerns the browser around it
(addresses, tabs, going back) belongs to the environment. An action that cannot be done raises `ActionRefused` with a
sentence for the agent; that is an ordinary event of an episode, not a fault.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys

from holotron.envs.tab import Area, Tab
from holotron.keys import normalise_keys
from holotron.types import Action, Click, DoubleClick, Drag, Hover, PressKeys, RightClick, Scroll, Wait, Write

MOST_OF_A_PAGE = 0.8  # how far a scroll without an amount goes, as a part of the view
LONGEST_WAIT = 10.0  # seconds

# Fields that the browser edits in its own way, and how a value for them is written.
VALUES = {
    "date": "2024-05-31",
    "time": "14:30",
    "datetime-local": "2024-05-31T14:30",
    "month": "2024-05",
    "week": "2024-W22",
    "color": "#ff8800",
    "range": "50",
}


class ActionRefused(Exception):
    """The action was not done; the message tells the agent why."""


async def perform(tab: Tab, action: Action, view: Area | None = None) -> str:
    """Do one in-page action; returns what the agent should know about it, mostly nothing. `view` is the part of the
    viewport that the agent sees and counts coordinates from."""
    view = view or whole(tab)
    match action:
        case Click(x, y):
            await tab.click(*inside(view, x, y))
        case DoubleClick(x, y):
            await tab.click(*inside(view, x, y), count=2)
        case RightClick(x, y):
            await tab.click(*inside(view, x, y), button="right")
        case Hover(x, y):
            await tab.move(*inside(view, x, y))
        case Drag(x1, y1, x2, y2):
            await tab.drag(*inside(view, x1, y1), *inside(view, x2, y2))
        case Scroll():
            await _scroll(tab, action, view)
        case Write():
            return await _write(tab, action, view)
        case PressKeys(keys):
            await _press(tab, keys)
        case Wait():
            await asyncio.sleep(waiting_time(action))
        case _:
            raise ActionRefused(f"{action.tool_name} is not possible here.")
    return ""


def waiting_time(action: Wait) -> float:
    return min(action.seconds, LONGEST_WAIT) if action.seconds > 0 else 0.0


def whole(tab: Tab) -> Area:
    """All of the viewport."""
    return Area(0, 0, tab.display.width, tab.display.height)


def inside(view: Area, x: float, y: float) -> tuple[float, float]:
    """The point in the viewport for a point in the view."""
    if not (math.isfinite(x) and math.isfinite(y) and 0 <= x <= view.width and 0 <= y <= view.height):
        raise ActionRefused(f"The point ({x:g}, {y:g}) is outside the {view.width:g}x{view.height:g} view.")
    return view.x + min(x, view.width - 0.01), view.y + min(y, view.height - 0.01)  # the far edges belong to it


async def _scroll(tab: Tab, action: Scroll, view: Area) -> None:
    x = view.width / 2 if action.x is None else action.x
    y = view.height / 2 if action.y is None else action.y
    vertical = action.direction in ("up", "down")
    amount = action.amount or MOST_OF_A_PAGE * (view.height if vertical else view.width)
    if not (math.isfinite(amount) and amount > 0):
        raise ActionRefused(f"Cannot scroll by {action.amount:g} pixels.")
    signed = amount if action.direction in ("down", "right") else -amount
    x, y = inside(view, x, y)
    await tab.wheel(x, y, 0 if vertical else signed, signed if vertical else 0)


async def _write(tab: Tab, action: Write, view: Area) -> str:
    if action.x is not None and action.y is not None:
        await tab.click(*inside(view, action.x, action.y))
    kind = await tab.evaluate(f"({_FOCUSED_KIND})()")
    if kind in ("value", "select"):  # dates, times, colours, lists: the field wants a value, not keys
        problem = await tab.evaluate(f"({_SET_VALUE})({json.dumps(action.content)})")
        if problem:
            raise ActionRefused(str(problem))
        if kind == "select":
            await tab.press("Escape")  # the click has opened the list
    else:
        if action.overwrite and kind:
            await tab.press(_COMMAND_KEY, "a")
            if not action.content:
                await tab.press("Delete")
        await tab.type(action.content)
    if action.press_enter:
        await tab.press("Enter")
    return "" if kind else "No text field has the focus; the keys were sent all the same."


async def _press(tab: Tab, keys: tuple[str, ...]) -> None:
    names = normalise_keys(keys)  # scripts may write them in any way that models do
    if not names:
        raise ActionRefused("press_keys needs at least one key.")
    try:
        if _pastes(names):
            await tab.paste(*names)
        else:
            await tab.press(*names)
    except ValueError as error:
        raise ActionRefused(f"{error}. Use names like Enter, Tab, ArrowDown, Control, a.") from None


def _pastes(names: tuple[str, ...]) -> bool:
    """Whether any of these keys does, pressed while those before it are held."""
    held: set[str] = set()
    for name in names:
        if (name.lower() == "v" and held & {_COMMAND_KEY, "ControlOrMeta"}) or (name == "Insert" and "Shift" in held):
            return True
        held.add(name)
    return False


_COMMAND_KEY = "Meta" if sys.platform == "darwin" else "Control"

# The element with the focus, also inside shadow roots and frames of the same site.
_FOCUSED = """
  let element = document.activeElement;
  for (let inner = element; inner; ) {
    element = inner;
    try { inner = element.shadowRoot?.activeElement ?? element.contentDocument?.activeElement; } catch { break; }
  }
  element = element?.closest('select') ?? element;  // an open list has the focus on one of its options"""

# "value" for fields with an editor of the browser's own, "select" for lists, "text" for editable text, "frame" for a
# frame of another site that we cannot look into, "" otherwise.
_FOCUSED_KIND = f"""() => {{{_FOCUSED}
  if (!element || element.disabled || element.readOnly) return '';
  const own = {json.dumps(list(VALUES))};
  const buttons = ['button', 'submit', 'reset', 'checkbox', 'radio', 'file', 'image'];
  if (element.localName === 'select') return 'select';
  if (element.localName === 'iframe') return 'frame';
  if (element.localName === 'textarea' || element.isContentEditable) return 'text';
  if (element.localName !== 'input' || buttons.includes(element.type)) return '';
  return own.includes(element.type) ? 'value' : 'text';
}}"""

# Returns what is wrong with the value, or null. Dates and times are taken in the usual ways of writing them.
_SET_VALUE = f"""(text) => {{{_FOCUSED}
  text = text.trim();
  const pad = (number) => String(number).padStart(2, '0');
  if (element.localName === 'select') {{
    const same = (option) => option.label.trim().toLowerCase() === text.toLowerCase();
    const found = [...element.options].find(same);
    if (!found) return `The list has no option "${{text}}".`;
    element.value = found.value;
    element.selectedIndex = found.index;
  }} else {{
    const before = element.value;
    const set = (value) => {{
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(element, value);
      return element.value === value;
    }};
    const day = new Date(text), hour = new Date(`2000-01-01 ${{text}}`);
    const date = isNaN(day) ? '' : `${{day.getFullYear()}}-${{pad(day.getMonth() + 1)}}-${{pad(day.getDate())}}`;
    const time = isNaN(hour) ? '' : `${{pad(hour.getHours())}}:${{pad(hour.getMinutes())}}`;
    const value = {{date, time}}[element.type];
    if (!set(text) && !(value && set(value))) {{
      set(before);
      const example = {json.dumps(VALUES)}[element.type];
      return `"${{text}}" is not a value for this ${{element.type}} field. Write it like ${{example}}.`;
    }}
  }}
  for (const type of ['input', 'change']) element.dispatchEvent(new Event(type, {{bubbles: true}}));
  return null;
}}"""
