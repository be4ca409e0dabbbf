"""One or two clicks on something named in the goal: buttons, links, dialogs, widgets, text boxes."""

from __future__ import annotations

from holotron.suites.miniwob_solver.moves import click
from holotron.suites.miniwob_solver.page import Page
from holotron.suites.miniwob_solver.registry import solves
from holotron.suites.miniwob_solver.words import ordinal, parse, quoted
from holotron.types import Action


@solves("click-test")
def click_the_only_button(goal: str, page: Page) -> Action:
    return click(page, page.get("button"))


@solves("click-test-2", "click-test-transfer")
def click_button_one(goal: str, page: Page) -> Action:
    return click(page, page.get("button", text=parse(goal, r"button (\w+)")[0]))


@solves("click-button-sequence", question="() => buttonsPushed.length")
def click_one_then_two(goal: str, page: Page) -> Action:
    return click(page, page.get("button", text="ONE" if page.answer == 0 else "TWO"))


@solves("click-button", "unicode-test")
def click_named_button(goal: str, page: Page) -> Action:
    name = quoted(goal)[0]
    # The same label may be on two buttons; take the one that needs no scrolling.
    return click(page, min(page.all("button", text=name), key=lambda b: b.shown is None))


@solves("click-link")
def click_named_link(goal: str, page: Page) -> Action:
    return click(page, page.get(css="alink", text=quoted(goal)[0]))


@solves("click-dialog")
def close_dialog(goal: str, page: Page) -> Action:
    return click(page, page.get("button", css="ui-dialog-titlebar-close"), element="x")


@solves("click-dialog-2")
def click_dialog_button(goal: str, page: Page) -> Action:
    name = quoted(goal)[0]
    if name == "x":
        return close_dialog(goal, page)
    return click(page, page.get("button", text=name))


@solves("click-widget")
def click_kind_of_widget(goal: str, page: Page) -> Action:
    kind = quoted(goal)[0]
    return click(page, page.get(where=lambda e: e.attributes.get("data-type") == kind), element=kind)


@solves("focus-text", "focus-text-2")
def focus_text_box(goal: str, page: Page) -> Action:
    position = ordinal(parse(goal, r"the (\w+) input")[0]) if "input" in goal else 1
    return click(page, page.all("input")[position - 1])


@solves("click-color")
def click_colour(goal: str, page: Page) -> Action:
    (colour,) = parse(goal, r"the (\S+) colored box")
    return click(page, page.get(where=lambda e: e.attributes.get("data-color") == colour), element=colour)


@solves("grid-coordinate")
def click_grid_point(goal: str, page: Page) -> Action:
    (coordinate,) = parse(goal, r"coordinate (\S+?)\.?$")
    return click(page, page.get("circle", id=coordinate))
