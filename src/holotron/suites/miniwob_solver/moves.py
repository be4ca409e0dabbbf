"""Moves that many tasks share. Each looks at the page and gives one action, or None when its part is already done.

Everything acts on what can be seen: an element that is out of view is scrolled to first, in steps a person (or a
policy that has not seen the rest of the page) would take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holotron.suites.miniwob_solver.page import Page, PageElement, Rect, ScrollState
from holotron.types import Action, Click, PressKeys, Scroll, Write

SCROLL_STEP = 100.0  # CSS pixels; less than the smallest page area that scrolls, so nothing is jumped over
ENOUGH = 12.0  # CSS pixels of a tall element that must show before it is clicked
KEY_ENTER = PressKeys(("Enter",))


def at(point: tuple[float, float]) -> tuple[float, float]:
    """Whole pixels: what a policy that writes integers can say."""
    return float(round(point[0])), float(round(point[1]))


def click(page: Page, target: PageElement, *, element: str = "") -> Action:
    """A click on the element, or the scroll that brings it into view."""
    hidden = bring_into_view(page, target)
    if hidden is not None:
        return hidden
    if target.point is None:
        return PressKeys(("Escape",))  # something was opened on top of it: a calendar, a list of proposals
    x, y = at(target.point)
    return Click(x, y, element=element or target.text[:40] or target.id or target.tag)


def bring_into_view(page: Page, target: PageElement) -> Scroll | None:
    """The next scroll towards an element that is cut off; None when enough of it can be seen."""
    if target.shown is not None and target.shown.height >= min(0.6 * target.rect.height, ENOUGH):
        return None
    for box in page.ancestors(target):
        if box.scroll is not None and box.shown is not None:
            move = _scroll_towards(target.rect, box.shown, box.scroll)
            if move is not None:
                return move
    return _scroll_towards(target.rect, Rect(0, 0, *page.viewport), page.scroll)


def _scroll_towards(target: Rect, view: Rect, state: ScrollState) -> Scroll | None:
    """Scroll the box seen at `view` in the direction of the target, unless it is there or the box is at its end."""
    margin = min(target.height, ENOUGH)
    amount = min(SCROLL_STEP, 0.8 * view.height)
    x, y = at(view.centre)
    if target.y + margin > view.bottom and not state.at_bottom:
        return Scroll("down", amount, x=x, y=y)
    if target.bottom - margin < view.y and not state.at_top:
        return Scroll("up", amount, x=x, y=y)
    return None


def fill(page: Page, field: PageElement, content: str, *, read: str = "") -> Action | None:
    """Click into the field, then type; None when it already holds the content. `read` is what on the page it follows
    from, where there is more to it than copying."""
    if field.value == content:
        return None
    if field.focused:
        return Write(content, read=read)
    return click(page, field)


def check(page: Page, box: PageElement, wanted: bool = True) -> Action | None:
    """Tick or untick a checkbox, a radio button, a list entry."""
    return None if box.checked == wanted else click(page, box)


def first(*moves: Action | None) -> Action:
    """The first thing that is still to be done."""
    for move in moves:
        if move is not None:
            return move
    raise LookupError("nothing left to do on this page, yet the task has not ended")


def first_of(moves: Iterable[Action | None]) -> Action | None:
    return next((move for move in moves if move is not None), None)


def press_submit(page: Page, *labels: str) -> Action:
    """The button that ends the task."""
    wanted = labels or ("Submit",)
    return click(page, page.get(where=lambda e: e.tag == "button" and e.text in wanted))


def complete(page: Page, field: PageElement, typed: str, fits: Callable[[str], bool]) -> Action | None:
    """A field that proposes what could be meant: type a part, click the proposal that fits."""
    proposal = page.find("li", css="ui-menu-item", where=lambda e: fits(e.text))
    if proposal is not None and page.focus is field:
        return click(page, proposal)
    if fits(field.value):
        return None
    return Write(typed) if field.focused else click(page, field)
