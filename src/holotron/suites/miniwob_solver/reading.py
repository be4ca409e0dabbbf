"""Long texts: scroll, mark, copy, and give words a style."""

from __future__ import annotations

from holotron.suites.miniwob_solver.dragging import drag
from holotron.suites.miniwob_solver.moves import at, click, fill, first, press_submit
from holotron.suites.miniwob_solver.page import Page, PageElement
from holotron.suites.miniwob_solver.registry import solves
from holotron.suites.miniwob_solver.words import ordinal, parse, quoted
from holotron.types import Action, Click, PressKeys, Scroll

FAR = 500.0  # a flick of the wheel when only the end of a text matters


def scroll_to_end(box: PageElement, direction: str = "down") -> Action | None:
    """None when the text is already at that end, or short enough to be seen whole."""
    if box.scroll is None or (box.scroll.at_bottom if direction == "down" else box.scroll.at_top):
        return None
    x, y = at(box.rect.centre)
    return Scroll("down" if direction == "down" else "up", FAR, x=x, y=y)


@solves("scroll-text")
def last_word(goal: str, page: Page) -> Action:
    text = page.get("textarea")
    word = text.value.split()[-1].rstrip(".")
    return first(scroll_to_end(text), fill(page, page.get("input"), word), press_submit(page))


@solves("scroll-text-2")
def scroll_text(goal: str, page: Page) -> Action:
    direction = "down" if "to the bottom" in goal else "up"
    return first(scroll_to_end(page.get("textarea"), direction), press_submit(page))


@solves("sign-agreement")
def sign_agreement(goal: str, page: Page) -> Action:
    if goal.startswith("Click the cancel button"):
        return press_submit(page, "Cancel")
    name, button = quoted(goal)
    field = page.get("input", id="name")
    read = scroll_to_end(page.get("textarea")) if field.disabled else None
    return first(read, fill(page, field, name), press_submit(page, button))


# ----------------------------------------------------------------------------------------------------- copy and paste

# The clipboard cannot be seen: remember what was copied last, and which part of a field is marked.
CLIPBOARD = """() => {
  if (!window.copyWatch) {
    window.copyWatch = {text: null};
    document.addEventListener('copy', () => {
      const field = document.activeElement;
      window.copyWatch.text = field.value.slice(field.selectionStart, field.selectionEnd);
    });
  }
  const field = document.activeElement;
  const marked = 'selectionStart' in field ? field.value.slice(field.selectionStart, field.selectionEnd) : '';
  return {copied: window.copyWatch.text, marked};
}"""


@solves("copy-paste", "copy-paste-2", question=CLIPBOARD)
def copy_and_paste(goal: str, page: Page) -> Action:
    position = ordinal(parse(goal, r"from the (\w+) text area")[0]) if "from the" in goal else 1
    source = page.all("textarea")[position - 1]
    field = page.get("input")
    if field.value == source.value:
        return press_submit(page)
    if page.answer["copied"] == source.value:
        if not field.focused:
            return click(page, field)
        if field.value not in ("", page.answer["marked"]):
            return PressKeys(("Control", "a"))
        return PressKeys(("Control", "v"))
    if not source.focused:
        return click(page, source)
    return PressKeys(("Control", "c" if page.answer["marked"] == source.value else "a"))


# ----------------------------------------------------------------------------------------------------- marking text

# For a text box: its characters' first and last box, and what is marked on the page.
MARKING = """(box) => {
  const edge = (node, at) => {
    const range = document.createRange();
    range.setStart(node, at);
    range.setEnd(node, at + 1);
    return box(range.getBoundingClientRect());
  };
  const paragraphs = document.querySelectorAll('#randomText p');
  const blocks = paragraphs.length ? [...paragraphs] : [document.getElementById('randomText')];
  return {
    marked: getSelection().toString(),
    blocks: blocks.map((block) => {
      const node = block.firstChild;
      const end = node.data.trimEnd().length;
      return {text: node.data, first: edge(node, 0), last: edge(node, end - 1)};
    }),
  };
}"""


@solves("highlight-text", "highlight-text-2", question=MARKING)
def highlight_text(goal: str, page: Page) -> Action:
    position = ordinal(parse(goal, r"the (\w+) paragraph")[0]) if "text in the paragraph" not in goal else 1
    block = page.answer["blocks"][position - 1]
    if page.answer["marked"].split() == block["text"].split():
        return press_submit(page)
    return mark(block["first"], block["last"], unmark=page.answer["marked"] != "")


def mark(first_box: list[float], last_box: list[float], *, unmark: bool = False) -> Action:
    """Drag from the left edge of the first character to the right edge of the last.

    `unmark` when something else is marked: dragging that would carry it away, so click it off first.
    """
    start = (first_box[0], first_box[1] + first_box[3] / 2)
    end = (last_box[0] + last_box[2] + 1, last_box[1] + last_box[3] / 2)
    return Click(*at(end)) if unmark else drag(start, end)
