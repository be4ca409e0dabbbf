"""Doing what an `Action` says on one page.

Everything here happens inside the page: mouse, keyboard, scrolling. What concerns the browser around it
(addresses, tabs, going back) belongs to the environment. An action that cannot be done is `Refused` with a
sentence for the agent; that is an ordinary event of an episode, not a fault.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys

from playwright.async_api import Error as PlaywrightError

from holotron.envs.pool import first_line
from holotron.envs.tab import Tab
from holotron.types import Action, Click, DoubleClick, Drag, Hover, PressKeys, RightClick, Scroll, Wait, Write

MOST_OF_A_PAGE = 0.8  # how far a scroll without an amount goes, as a part of the view
LONGEST_WAIT = 10.0  # seconds
TYPED = 400  # characters typed key by key; longer texts are inserted in one go


class Refused(Exception):
    """The action was not done; the message tells the agent why."""


async def perform(tab: Tab, action: Action) -> None:
    """Do one in-page action. `Refused` when it makes no sense here."""
    match action:
        case Click(x, y):
            await tab.click(*_inside(tab, x, y))
        case DoubleClick(x, y):
            await tab.click(*_inside(tab, x, y), count=2)
        case RightClick(x, y):
            await tab.click(*_inside(tab, x, y), button="right")
        case Hover(x, y):
            await tab.move(*_inside(tab, x, y))
        case Drag(x1, y1, x2, y2):
            await tab.drag(*_inside(tab, x1, y1), *_inside(tab, x2, y2))
        case Scroll():
            await _scroll(tab, action)
        case Write():
            await _write(tab, action)
        case PressKeys(keys):
            await _press(tab, keys)
        case Wait(seconds):
            await asyncio.sleep(min(max(seconds, 0.0), LONGEST_WAIT))
        case _:
            raise Refused(f"{action.tool_name} is not possible here.")


def _inside(tab: Tab, x: float, y: float) -> tuple[float, float]:
    display = tab.display
    if not (math.isfinite(x) and math.isfinite(y) and 0 <= x <= display.width and 0 <= y <= display.height):
        raise Refused(f"The point ({x:g}, {y:g}) is outside the {display.width}x{display.height} view.")
    return min(x, display.width - 0.01), min(y, display.height - 0.01)


async def _scroll(tab: Tab, action: Scroll) -> None:
    display = tab.display
    x = display.width / 2 if action.x is None else action.x
    y = display.height / 2 if action.y is None else action.y
    vertical = action.direction in ("up", "down")
    amount = action.amount or MOST_OF_A_PAGE * (display.height if vertical else display.width)
    if not (math.isfinite(amount) and amount > 0):
        raise Refused(f"Cannot scroll by {action.amount:g} pixels.")
    signed = amount if action.direction in ("down", "right") else -amount
    x, y = _inside(tab, x, y)
    await tab.wheel(x, y, 0 if vertical else signed, signed if vertical else 0)


async def _write(tab: Tab, action: Write) -> None:
    if action.x is not None and action.y is not None:
        await tab.click(*_inside(tab, action.x, action.y))
    kind = await tab.evaluate(_FOCUSED_KIND)
    if kind == "value" and await tab.evaluate(f"({_SET_VALUE})({json.dumps(action.content)})"):
        pass  # date, time, colour, range: the browser's own editor wants a value, not keys
    else:
        if action.overwrite and kind:
            await tab.press("Meta" if sys.platform == "darwin" else "Control", "a")
            if not action.content:
                await tab.press("Delete")
        if len(action.content) <= TYPED:
            await tab.type(action.content)
        else:
            await tab.insert(action.content)
    if action.press_enter:
        await tab.press("Enter")


async def _press(tab: Tab, keys: tuple[str, ...]) -> None:
    names = [_key_name(key) for chord in keys for key in (chord.split("+") if len(chord) > 1 else [chord]) if key]
    if not names:
        raise Refused("press_keys needs at least one key.")
    try:
        await tab.press(*names)
    except PlaywrightError as error:
        if "Unknown key" in str(error):
            raise Refused(f"{first_line(error)}. Use names like Enter, Tab, ArrowDown, Control, a.") from None
        raise


def _key_name(key: str) -> str:
    return _KEY_NAMES.get(key.strip().lower().replace("_", ""), key.strip() or key)


_KEY_NAMES = {
    "ctrl": "Control", "control": "Control", "cmd": "Meta", "command": "Meta", "meta": "Meta", "win": "Meta",
    "super": "Meta", "alt": "Alt", "option": "Alt", "shift": "Shift", "enter": "Enter", "return": "Enter",
    "esc": "Escape", "escape": "Escape", "tab": "Tab", "space": "Space", "spacebar": "Space",
    "backspace": "Backspace", "del": "Delete", "delete": "Delete", "insert": "Insert", "home": "Home", "end":
    "End", "pageup": "PageUp", "pgup": "PageUp", "pagedown": "PageDown", "pgdn": "PageDown", "up": "ArrowUp",
    "down": "ArrowDown", "left": "ArrowLeft", "right": "ArrowRight", "arrowup": "ArrowUp", "arrowdown":
    "ArrowDown", "arrowleft": "ArrowLeft", "arrowright": "ArrowRight",
}  # fmt: skip

# What has the focus: "value" for fields whose editor is the browser's own, "text" for editable text, "" for
# neither.
_FOCUSED_KIND = """(() => {
  let element = document.activeElement;
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  if (!element || element.disabled || element.readOnly) return '';
  const own = ['date', 'time', 'datetime-local', 'month', 'week', 'color', 'range'];
  if (element.localName === 'input' && own.includes(element.type)) return 'value';
  if (element.localName === 'textarea' || element.isContentEditable) return 'text';
  const buttons = ['button', 'submit', 'reset', 'checkbox', 'radio', 'file', 'image'];
  return element.localName === 'input' && !buttons.includes(element.type) ? 'text' : '';
})()"""

_SET_VALUE = """(text) => {
  const element = document.activeElement;
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(element, text);
  if (element.value !== text.trim()) return false;
  element.dispatchEvent(new Event('input', {bubbles: true}));
  element.dispatchEvent(new Event('change', {bubbles: true}));
  return true;
}"""
