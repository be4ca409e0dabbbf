"""Check boxes, radio buttons, lists and shades: choose some of many, then submit."""

from __future__ import annotations

from holotron.suites.miniwob_solver.moves import SCROLL_STEP, at, check, click, fill, first, first_of, press_submit
from holotron.suites.miniwob_solver.page import Page, PageElement
from holotron.suites.miniwob_solver.registry import solves
from holotron.suites.miniwob_solver.words import listed, ordinal, parse, quoted, rgb
from holotron.types import Action, PressKeys, Scroll


def choose_labelled(page: Page, wanted: set[str]) -> Action:
    """Tick exactly the boxes whose label is wanted, then submit."""
    boxes = ((box, page.ancestor(box, tag="label").text in wanted) for box in page.all("input"))
    return first(first_of(check(page, box, want) for box, want in boxes), press_submit(page))


@solves("click-checkboxes", "click-checkboxes-large", "click-checkboxes-transfer")
def tick_named_boxes(goal: str, page: Page) -> Action:
    return choose_labelled(page, set(listed(parse(goal, r"Select (.*) and click Submit")[0])))


@solves("click-option")
def choose_radio_button(goal: str, page: Page) -> Action:
    (name,) = parse(goal, r"Select (.*) and click Submit")
    target = page.get("input", where=lambda e: page.ancestor(e, tag="label").text == name)
    return first(check(page, target), press_submit(page))


@solves("click-checkboxes-soft", question="() => SYNONYMS")
def tick_similar_words(goal: str, page: Page) -> Action:
    words = set(listed(parse(goal, r"similar to (.*) and click Submit")[0]))
    return choose_labelled(page, {word for group in page.answer if words & set(group) for word in group})


@solves("number-checkboxes", question="() => PATTERNS")
def tick_digit(goal: str, page: Page) -> Action:
    """The pattern is the one drawn beside the boxes."""
    pattern = [cell == 1 for row in page.answer[int(quoted(goal)[0])] for cell in row]
    boxes = zip(page.all("input", type="checkbox"), pattern, strict=True)
    return first(first_of(check(page, box, want) for box, want in boxes), press_submit(page))


@solves("click-shades")
def choose_shades(goal: str, page: Page) -> Action:
    (colour,) = parse(goal, r"shades of (\w+)")
    channel = ("red", "green", "blue").index(colour)

    def is_wanted(shade: PageElement) -> bool:
        value = rgb(shade.background)
        return value[channel] == max(value)

    shades = page.all("span", where=lambda e: "data-color" in e.attributes)
    wrong = (click(page, s, element=colour) for s in shades if s.has_class("selected") != is_wanted(s))
    return first(first_of(wrong), press_submit(page))


@solves("form-sequence-2")
def radio_and_text_box(goal: str, page: Page) -> Action:
    radio, number, box = parse(goal, r'Check the (\w+) radio .* number "(-?\d+)" into the (\w+) textbox')
    boxes = page.all("input", type="text")
    target = boxes[ordinal(box) - 1]
    return first(
        check(page, page.all("input", type="radio")[ordinal(radio) - 1]),
        first_of(fill(page, b, number if b is target else "") for b in boxes),
        press_submit(page),
    )


# ------------------------------------------------------------------------------------------------------- drop-downs


def choose_option(page: Page, select: PageElement, name: str) -> Action | None:
    """Open the list, scroll it if it is long, click the entry; None when it is chosen."""
    if select.value == name:
        return None
    option = page.find("option", text=name, within=select)
    if option is None:
        return click(page, select)
    if option.point is not None:
        return click(page, option)
    # The open list reaches from the field to the end of the window, and scrolls inside.
    x, y = at((select.rect.centre[0], (select.rect.bottom + page.viewport[1]) / 2))
    return Scroll("down" if option.rect.y > y else "up", SCROLL_STEP, x=x, y=y)


@solves("choose-list")
def choose_from_list(goal: str, page: Page) -> Action:
    (name,) = parse(goal, r"Select (.*) from the list")
    return first(choose_option(page, page.get("select"), name), press_submit(page))


@solves("form-sequence-3")
def choose_from_styled_list(goal: str, page: Page) -> Action:
    """The drop-down is drawn by the page: a label that opens a list of <li>."""
    height, button = parse(goal, r'Choose (.*) from the dropdown, .* labeled "(\w+)"')
    label = page.get("span", css="label")
    if label.text == height:
        return press_submit(page, button)
    entry = page.find("li", text=height)
    return click(page, page.get("div", css="selectric")) if entry is None else click(page, entry)


# A list box shows which entries are selected, but not which one the keyboard is at: count the keys.
KEYBOARD_POSITION = """() => {
  const list = document.getElementById('options');
  if (!list.counting) {
    list.counting = true;
    list.moved = 0;
    list.addEventListener('mousedown', () => { list.moved = 0; });
    list.addEventListener('keydown', (e) => {
      if (e.ctrlKey) list.moved += {ArrowDown: 1, ArrowUp: -1}[e.key] || 0;
    });
  }
  return list.moved;
}"""


@solves("click-scroll-list", question=KEYBOARD_POSITION)
def choose_from_scroll_list(goal: str, page: Page) -> Action:
    """A second entry is added with the keyboard: Control+Arrow walks there, Control+Space selects it."""
    (names,) = parse(goal, r"Select (.*) from the scroll list")
    options = page.all("option")
    wanted = sorted((i for i, o in enumerate(options) if o.text in names_in(names, options)))
    chosen = [i for i, o in enumerate(options) if o.checked]
    if chosen == wanted:
        return press_submit(page)
    if chosen != wanted[:1]:
        return click(page, options[wanted[0]])
    steps = wanted[1] - wanted[0] - page.answer
    if steps == 0:
        return PressKeys(("Control", "Space"))
    return PressKeys(("Control", "ArrowDown" if steps > 0 else "ArrowUp"))


def names_in(names: str, options: list[PageElement]) -> set[str]:
    """'Korea, Republic of, Peru' is two names: split at the comma that leaves entries of the list on both sides."""
    texts = {o.text for o in options}
    if names in texts:
        return {names}
    parts = names.split(", ")
    for i in range(1, len(parts)):
        pair = {", ".join(parts[:i]), ", ".join(parts[i:])}
        if pair <= texts:
            return pair
    raise LookupError(f"{names!r} is not on the list")
