"""Sliders, spinners and the colour field: bring a number to a value."""

from __future__ import annotations

from holotron.suites.miniwob_solver.moves import at, check, click, fill, first, first_of, press_submit
from holotron.suites.miniwob_solver.page import Page, PageElement, Rect
from holotron.suites.miniwob_solver.registry import solves
from holotron.suites.miniwob_solver.words import ordinal, parse, rgb
from holotron.types import Action, Click, PressKeys

# [value, lowest, highest] of every slider on the page.
SLIDERS = """() => $('.ui-slider').get().map((s) =>
  [$(s).slider('value'), $(s).slider('option', 'min'), $(s).slider('option', 'max')])"""


def slide(page: Page, slider: PageElement, state: list[int], wanted: int) -> Action | None:
    """Click where the value should be on the track; the last few steps, where the handle is in the way, by key."""
    value, low, high = state
    if value == wanted:
        return None
    share = (wanted - low) / (high - low)
    track, handle = slider.rect, page.get(css="ui-slider-handle", within=slider)
    grip = Rect(handle.rect.x - 1, handle.rect.y - 1, handle.rect.width + 2, handle.rect.height + 2)
    if slider.has_class("ui-slider-vertical"):
        point = track.centre[0], _between(track.bottom - share * track.height, track.y, track.bottom)
    else:
        point = _between(track.x + share * track.width, track.x, track.right), track.centre[1]
    x, y = at(point)
    if not grip.contains(Rect(x, y, 0, 0)):  # a click on the handle only takes hold of it
        return Click(x, y, element="slider")
    if not handle.focused:
        return click(page, handle, element="slider handle")
    return PressKeys(("ArrowRight" if wanted > value else "ArrowLeft",))


def _between(value: float, low: float, high: float) -> float:
    """On the track, not on its rim."""
    return min(max(value, low + 1), high - 2)


@solves("use-slider", question=SLIDERS)
def use_slider(goal: str, page: Page) -> Action:
    wanted = int(parse(goal, r"Select (-?\d+) with the slider")[0])
    return first(slide(page, page.get(css="ui-slider"), page.answer[0], wanted), press_submit(page))


@solves("use-slider-2", question=SLIDERS)
def use_three_sliders(goal: str, page: Page) -> Action:
    wanted = map(int, parse(goal, r"\[(\d+),(\d+),(\d+)\]"))
    sliders = zip(page.all(css="ui-slider"), page.answer, wanted, strict=True)
    return first(first_of(slide(page, s, state, n) for s, state, n in sliders), press_submit(page))


@solves("form-sequence", question=SLIDERS)
def slider_and_check_box(goal: str, page: Page) -> Action:
    number, position = parse(goal, r"Select (-?\d+) with the slider, click the (\w+) checkbox")
    boxes = page.all("input", type="checkbox")
    return first(
        slide(page, page.get(css="ui-slider"), page.answer[0], int(number)),
        first_of(check(page, box, i == ordinal(position)) for i, box in enumerate(boxes, 1)),
        press_submit(page),
    )


@solves("use-spinner")
def use_spinner(goal: str, page: Page) -> Action:
    wanted = int(parse(goal, r"Select (-?\d+) with the spinner")[0])
    value = int(page.get("input").value or 0)
    if value == wanted:
        return press_submit(page)
    way = "up" if wanted > value else "down"
    return click(page, page.get("a", css=f"ui-spinner-{way}"), element=way)


@solves("use-colorwheel", question="() => ui_utils.colorNameToHex(core.getUtterance().split(' ')[1])")
def choose_named_colour(goal: str, page: Page) -> Action:
    return _enter_colour(page, page.answer.removeprefix("#").upper())


@solves("use-colorwheel-2", question="() => getComputedStyle(document.querySelector('#query .cc')).backgroundColor")
def choose_shown_colour(goal: str, page: Page) -> Action:
    """The goal shows the colour instead of naming it."""
    return _enter_colour(page, "{:02X}{:02X}{:02X}".format(*rgb(page.answer)))


def _enter_colour(page: Page, code: str) -> Action:
    """The field takes the colour's code; then a click beside it closes the picker, which lies over the button."""
    field = page.get("input", id="col")
    if field.value.upper() != code:
        return first(fill(page, field, code))
    submit = page.get("button", text="Submit")
    if submit.point is None:
        return Click(*at((field.rect.right - 20, field.rect.y - 8)), element="beside the picker")
    return click(page, submit)
