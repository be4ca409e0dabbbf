"""Things that must be opened before they show what is wanted: tabs, sections, folders, menus, pages of a book.

Where the target may be anywhere the solver looks in order, one place after the other, as someone must who cannot
see inside; it never goes straight to a place that only the DOM gives away.
"""

from __future__ import annotations

from holotron.suites.miniwob_solver.moves import click, press_submit
from holotron.suites.miniwob_solver.page import Page, PageElement
from holotron.suites.miniwob_solver.registry import Memory, solves
from holotron.suites.miniwob_solver.words import parse, quoted
from holotron.types import Action, Click, Hover


def _after(places: list[PageElement], opened: PageElement | None) -> PageElement:
    """The next place to look, round and round."""
    return places[0] if opened is None else places[(places.index(opened) + 1) % len(places)]


# ------------------------------------------------------------------------------------------------ tabs and sections


@solves("click-tab")
def click_tab(goal: str, page: Page) -> Action:
    return click(page, page.get("a", text=parse(goal, r"(Tab #\d)")[0]))


@solves("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard")
def find_link_in_tabs(goal: str, page: Page) -> Action:
    link = page.find(css="alink", text=quoted(goal)[0])
    if link is not None:
        return click(page, link)
    opened = page.find("li", css="ui-tabs-active")
    tab = _after(page.all("li", css="ui-tabs-tab"), opened)
    return click(page, page.get("a", within=tab))


@solves("click-collapsible", "click-collapsible-nodelay")
def open_section_and_submit(goal: str, page: Page) -> Action:
    if page.find(css="ui-accordion-content") is not None:
        return press_submit(page)
    return click(page, page.get("h3"))


@solves("click-collapsible-2", "click-collapsible-2-nodelay")
def find_link_in_sections(goal: str, page: Page) -> Action:
    link = page.find(css="alink", text=quoted(goal)[0])
    if link is not None:
        return click(page, link)
    opened = page.find("h3", css="ui-accordion-header-active")
    return click(page, _after(page.all("h3"), opened))


@solves("navigate-tree")
def find_in_folders(goal: str, page: Page) -> Action:
    """Unfold the first closed folder until the name shows up."""
    target = page.find("span", text=quoted(goal)[0])
    if target is not None:
        return click(page, target)
    closed = page.get("li", css="expandable")
    return click(page, page.get("span", within=closed))


# ------------------------------------------------------------------------------------------------------------ menus


def _follow(page: Page, path: list[str]) -> Action:
    """Point at each entry to unfold what is behind it, click the last."""
    for name in reversed(path):
        entry = page.find("div", css="ui-menu-item-wrapper", text=name)
        if entry is not None:
            move = click(page, entry)
            return move if name == path[-1] or not isinstance(move, Click) else Hover(move.x, move.y, name)
    raise LookupError(f"no entry of {path} on the screen")


@solves("click-menu")
def follow_menu_path(goal: str, page: Page) -> Action:
    return _follow(page, parse(goal, r"Select (.*)")[0].split(">"))


MENU_ICONS = {
    "ui-icon-disk": "Save", "ui-icon-seek-start": "Prev", "ui-icon-stop": "Stop", "ui-icon-play": "Play",
    "ui-icon-seek-end": "Next", "ui-icon-zoomin": "Zoom In", "ui-icon-zoomout": "Zoom Out",
}  # fmt: skip
IN_PLAYBACK = {"Prev", "Stop", "Play", "Next"}


@solves("click-menu-2", question="() => (document.querySelector('#query .ui-icon') || {classList: []}).classList[1]")
def find_in_menu(goal: str, page: Page) -> Action:
    """The entry is named in the goal, or shown there as an icon."""
    name = MENU_ICONS[page.answer] if page.answer else quoted(goal)[1]
    if page.find("ul", id="menu") is None:
        return click(page, page.get("button", id="open-menu"))
    return _follow(page, ["Playback", name] if name in IN_PLAYBACK else [name])


@solves("click-pie", "click-pie-nodelay")
def click_pie_slice(goal: str, page: Page) -> Action:
    closed = page.find("text", text="+")
    return click(page, closed or page.get("text", text=quoted(goal)[0]))


# ------------------------------------------------------------------------------------------------------------ pages


@solves("phone-book")
def find_contact(goal: str, page: Page, memory: Memory) -> Action:
    """Turn the pages forward; back again only after the last one has been seen."""
    name, detail = parse(goal, r"Find (.*) in the contact book and click on their (\w+)")
    if page.get("h2").text == name:
        return click(page, page.get("a", css=detail), element=detail)
    onward, back = page.find("a", text=">"), page.find("a", text="<")
    if onward is None or back is None:
        memory["turn"] = "<" if onward is None else ">"
    return click(page, page.get("a", text=memory.get("turn", ">")))
