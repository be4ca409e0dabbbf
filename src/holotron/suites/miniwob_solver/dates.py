"""The calendar popup, and the date fields that open it."""

from __future__ import annotations

from datetime import date, datetime

from holotron.suites.miniwob_solver.moves import click, first, press_submit
from holotron.suites.miniwob_solver.page import Page, PageElement
from holotron.suites.miniwob_solver.registry import solves
from holotron.suites.miniwob_solver.words import parse
from holotron.types import Action


def choose_date(page: Page, field: PageElement, wanted: str) -> Action | None:
    """`wanted` as MM/DD/YYYY: open the calendar, turn to the month, click the day, which also closes it."""
    day = datetime.strptime(wanted, "%m/%d/%Y").date()
    title = page.find(css="ui-datepicker-title")
    if title is None:
        return None if field.value == wanted else click(page, field)
    shown = datetime.strptime(title.text, "%B %Y").date()
    if shown != date(day.year, day.month, 1):
        return click(page, page.get("a", css="ui-datepicker-next" if shown < day else "ui-datepicker-prev"))
    return click(page, page.get("a", css="ui-state-default", text=str(day.day)))


@solves("choose-date", "choose-date-easy", "choose-date-medium", "choose-date-nodelay")
def pick_date(goal: str, page: Page) -> Action:
    (wanted,) = parse(goal, r"Select (\d+/\d+/\d+)")
    return first(choose_date(page, page.get("input", id="datepicker"), wanted), press_submit(page))
