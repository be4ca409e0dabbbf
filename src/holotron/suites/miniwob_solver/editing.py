"""Programs in small: a text editor with styles, a terminal, a day's calendar."""

from __future__ import annotations

import re
from typing import Any

from holotron.suites.miniwob_solver.dragging import drag
from holotron.suites.miniwob_solver.moves import KEY_ENTER, bring_into_view, click, fill, first, press_submit
from holotron.suites.miniwob_solver.page import Page, PageElement
from holotron.suites.miniwob_solver.reading import mark
from holotron.suites.miniwob_solver.registry import solves
from holotron.suites.miniwob_solver.words import parse
from holotron.types import Action, PressKeys, Write

# ------------------------------------------------------------------------------------------------------- text editor

# The styled pieces of the text, what is marked ([start, length]) and the box of every character.
EDITOR = """(box) => {
  const marked = editor.getSelection() || editor.selection.savedRange;  // kept while a menu is open
  const walker = document.createTreeWalker(document.querySelector('.ql-editor'), NodeFilter.SHOW_TEXT);
  const boxes = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    for (let i = 0; i < node.data.length; i++) {
      if (node.data[i] === '\\uFEFF') continue;  // where the editor keeps the style of the next letter
      const range = document.createRange();
      range.setStart(node, i);
      range.setEnd(node, i + 1);
      boxes.push(box(range.getBoundingClientRect()));
    }
  return {pieces: editor.getContents().ops, marked: marked && [marked.index, marked.length], boxes, colours: COLOR_MAP};
}"""
Style = tuple[str, Any]  # as the editor names them: ("bold", True), ("color", "#e60000")
STYLES = {"bold": "bold", "italics": "italic", "underlined": "underline"}


@solves("text-editor", question=EDITOR)
def style_text(goal: str, page: Page) -> Action:
    """Mark the text, press the style's button, submit. A style that is there by mistake is taken off the same way."""
    what, style = parse(goal, r"(?:give|make) (.*?)(?: the (?:style|color))? (\w+) ?(?: and press Submit)?\.$")
    pieces = page.answer["pieces"]
    stretch = _range(what, "".join(piece["insert"] for piece in pieces))
    if style in STYLES:
        wanted: Style = (STYLES[style], True)
    else:
        wanted = ("color", page.answer["colours"][style][0])
    have = [(where, s) for where, styles in _styled(pieces) for s in styles]
    if have == [(stretch, wanted)]:
        return press_submit(page)
    for where, (name, value) in have:
        if (where, (name, value)) != (stretch, wanted) and (where, name) != (stretch, wanted[0]):
            return _press_style(page, where, (name, None))
    return _press_style(page, stretch, wanted)


def _press_style(page: Page, stretch: tuple[int, int], style: Style) -> Action:
    """Buttons turn a style on and off; a colour is taken off with the swatch that has none."""
    start, end = stretch
    marked = page.answer["marked"]
    if marked != [start, end - start]:
        other = marked is not None and marked[1] > 0
        return mark(page.answer["boxes"][start], page.answer["boxes"][end - 1], unmark=other)
    name, value = style
    if name != "color":
        return click(page, page.get("button", css=f"ql-{name}"), element=name)
    swatch = page.find(css="ql-picker-item", where=lambda e: e.attributes.get("data-value") == value)
    if swatch is None:
        return click(page, page.get(css="ql-picker-label"), element="text colour")
    return click(page, swatch, element=value or "no colour")


def _range(what: str, text: str) -> tuple[int, int]:
    """Where in the text the wanted words are."""
    if what == "everything":
        return 0, len(text.rstrip("\n"))
    word = what.removeprefix("the text ")
    match = re.search(rf"(?<!\S){re.escape(word)}(?!\S)", text)
    if match is None:
        raise LookupError(f"{word!r} is not in {text!r}")
    return match.span()


def _styled(pieces: list[dict[str, Any]]) -> list[tuple[tuple[int, int], list[Style]]]:
    """The stretches of text that have styles."""
    stretches, at = [], 0
    for piece in pieces:
        end = at + len(piece["insert"].rstrip("\n"))
        if piece.get("attributes"):
            stretches.append(((at, end), list(piece["attributes"].items())))
        at += len(piece["insert"])
    return stretches


# ---------------------------------------------------------------------------------------------------------- terminal


@solves("terminal")
def delete_file(goal: str, page: Page) -> Action:
    """List the files, then remove one that fits."""
    files = _listed_files(page)
    command = "ls" if files is None else f"rm {next(f for f in files if _has_extension(f, goal))}"
    typed = page.get(id="active-input").text
    if not page.get("input", id="terminal-target").focused:
        return click(page, page.get(id="terminal"), element="terminal")
    if typed == command:
        return KEY_ENTER
    return PressKeys(("Backspace",)) if typed else Write(command)


def _listed_files(page: Page) -> list[str] | None:
    """What the last `ls` on the screen printed."""
    files, listing = None, False
    for line in page.all("div", where=lambda e: e.classes & {"terminal-line", "terminal-output"} != frozenset()):
        if line.has_class("terminal-line"):
            listing = page.get("span", css="command", within=line).text == "ls"
        elif listing:
            files = line.text.split()
    return files


def _has_extension(file: str, goal: str) -> bool:
    match = re.search(r"extension (\.\S+)$", goal)
    return file.endswith(match[1]) if match else "." not in file


# ---------------------------------------------------------------------------------------------------------- calendar

HALF_HOURS = {"30 mins": 1, "0.5 hours": 1, "60 mins": 2, "1 hour": 2, "90 mins": 3, "1.5 hours": 3}


@solves("daily-calendar")
def create_event(goal: str, page: Page) -> Action:
    """Drag over free half-hours inside the window, name the event, create it."""
    length, name, start, end = parse(goal, r'Create a (.*) event named "(.*)", between (\w+) and (\w+)')
    slots, window = HALF_HOURS[length], range(_half_hour(start), _half_hour(end))
    made = page.find(id="newEvent")
    if made is not None and page.find(id="create-event") is None:
        return click(page, made)  # an event that was begun and let go: a click asks for its name
    if made is not None:
        begins = int(made.attributes["data-start"])
        fits = int(made.attributes["data-duration"]) == slots and begins in window and begins + slots <= window.stop
        if not fits:
            return press_submit(page, "Cancel")
        return first(fill(page, page.get("input", id="event-name"), name), press_submit(page, "Create"))

    cells = {int(c.id.removeprefix("hh-")): c for c in page.all("div", css="half-hour")}
    events = page.all("div", css="event")
    begins = next(
        b
        for b in range(window.start, window.stop - slots + 1)
        if not any(_overlap(cells[b + i], event) for i in range(slots) for event in events)
    )
    first_cell, last_cell = cells[begins], cells[begins + slots - 1]
    scroll = bring_into_view(page, last_cell) or bring_into_view(page, first_cell)
    if scroll is not None:
        return scroll
    x = first_cell.rect.centre[0]
    return drag((x, first_cell.rect.y + 4), (x, last_cell.rect.bottom - 5))


def _half_hour(time: str) -> int:
    """'8AM' -> 16, '12PM' -> 24, '4PM' -> 32: half-hours since midnight."""
    hour = int(time[:-2]) % 12 + (12 if time.endswith("PM") else 0)
    return 2 * hour


def _overlap(cell: PageElement, event: PageElement) -> bool:
    return min(cell.rect.bottom, event.rect.bottom) - max(cell.rect.y, event.rect.y) > 3
