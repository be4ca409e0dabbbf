"""The page as a plan sees it, and the moves a plan is made of.

Each move gives one action, or None when its part is already done, so a plan reads as a list of wishes:

    return view.fill("field:code", code) or view.click("coupon")

Elements are named by their `data-e` attribute. A move on something that is not on this page raises `Lost`: the solver
then goes back to the start page and tries again from there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from holotron.sites.state import Change, State
from holotron.sites.words import Words
from holotron.types import Action, Answer, Click, Drag, PressKeys, Scroll, Write

if TYPE_CHECKING:
    from holotron.sites.episode import SiteEpisode

SCRIPT = (files(__package__) / "page.js").read_text()


class Lost(LookupError):
    """What the plan wants is not on this page."""


@dataclass(frozen=True, slots=True)
class Element:
    name: str
    text: str = ""
    value: str = ""
    label: str = ""  # of a list: the chosen option
    open: bool = False  # of a list
    checked: bool = False
    disabled: bool = False
    hidden: bool = False  # not laid out: inside a closed menu
    top: float = 0.0
    bottom: float = 0.0
    shown: bool = False  # enough of it is in the window
    point: tuple[float, float] | None = None  # where a click reaches it
    cover: str = ""  # what lies on top of it when no click does


class PageView:
    def __init__(self, dump: str, episode: SiteEpisode) -> None:
        """`dump` is what `SCRIPT` says of the page."""
        raw = json.loads(dump)
        self.page: str = raw["page"]  # what the page calls itself, `product:12`
        self.host: str = raw["host"]
        self.path: str = raw["path"]
        self.query: dict[str, str] = raw["query"]
        self.height: float = raw["height"]
        self.facts: dict[str, Any] = episode.assignment.facts
        self.state: State = episode.state
        self.t: Words = episode.words
        self.memory: dict[str, Any] = episode.memory  # for plans that have to remember what they have seen
        self._episode = episode
        self.elements: dict[str, Element] = {}
        for element in raw["elements"]:
            if element.get("point"):
                element["point"] = tuple(element["point"])
            made = Element(**element)
            if made.name not in self.elements or self.elements[made.name].hidden:  # of several, one that is there
                self.elements[made.name] = made

    # --------------------------------------------------------------------------------------------------------- looking

    def has(self, name: str) -> bool:
        return name in self.elements and not self.elements[name].hidden

    def get(self, name: str) -> Element:
        if name not in self.elements:
            raise Lost(f"there is no {name} on {self.path}")
        return self.elements[name]

    def names(self, start: str) -> list[str]:
        """Of all elements whose name begins like this, what follows: `names("order:")` -> ["12", "15"]."""
        return [
            name.removeprefix(start) for name, e in self.elements.items() if name.startswith(start) and not e.hidden
        ]

    def strays(self, *tables: str) -> list[Change]:
        """What has changed in these tables though nobody asked for it: to be undone."""
        return [change for change in self._episode.verdict().side_effects if change.table in tables]

    # ----------------------------------------------------------------------------------------------------------- moves

    def see(self, name: str) -> Action | None:
        """Bring it into view."""
        element = self.get(name)
        if element.hidden and "menu" in self.elements:
            return self._click(self.get("menu"))
        if element.hidden:
            raise Lost(f"{name} is hidden on {self.path}")
        if element.shown and element.point is not None:
            return None
        if not element.shown:
            return Scroll("down" if element.bottom > self.height else "up")
        if element.cover == "dock":
            return Scroll("down")
        if element.cover == "drawer":
            return self._click(self.get("menu"))
        return PressKeys(("Escape",))  # an open list or calendar

    def click(self, name: str) -> Action:
        return self.see(name) or self._click(self.get(name))

    def _click(self, element: Element) -> Action:
        if element.point is None:
            return Scroll("up")  # the menu has scrolled away
        x, y = element.point
        said = element.label or element.text  # of a list what is chosen, not all its options in one word
        return Click(float(round(x)), float(round(y)), element=said[:40] or element.name)

    def fill(self, name: str, text: str) -> Action | None:
        """Have this text in the field."""
        element = self.get(name)
        if element.value == text:
            return None
        hidden = self.see(name)
        if hidden is not None or element.point is None:
            return hidden
        x, y = element.point
        return Write(text, float(round(x)), float(round(y)), element=name.removeprefix("field:"))

    def choose(self, name: str, label: str) -> Action | None:
        """Have this option chosen in the list: open it, then click the option."""
        element = self.get(name)
        if element.label == label:
            return self.click(name) if element.open else None
        return self.click(f"{name}={label}" if element.open else name)

    def tick(self, name: str, wanted: bool = True) -> Action | None:
        return None if self.get(name).checked == wanted else self.click(name)

    def drag(self, name: str, onto: str) -> Action | None:
        """Drag one thing onto another; None when the window never shows both at once."""
        if move := self.see(name):
            return move
        start, end = self.get(name).point, self.get(onto).point
        if start is None or end is None:
            return None
        return Drag(float(round(start[0])), float(round(start[1])), float(round(end[0])), float(round(end[1])))

    def search(self, text: str) -> Action:
        """Use the search field that every page has."""
        return self.fill("search", text) or self.click("search:go")

    def answer(self, text: str) -> Action:
        return Answer(text)

    def read(self, name: str, text: str) -> Action:
        """Bring it into view and answer with what stands there, or with what follows from it."""
        if move := self.see(name):
            return move
        x, y = self.get(name).point or (None, None)
        return Answer(text, x, y)
