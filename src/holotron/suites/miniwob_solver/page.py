"""What the solver knows of a page: the elements that are laid out, where they are, and which of them can be clicked.

`dump.js` builds it inside the page; everything here is plain data, so that a solver is a pure function and a stored
page state can be labelled again at any time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

from holotron.types import Observation


@dataclass(frozen=True, slots=True)
class Rect:
    """CSS pixels of the viewport."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def centre(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2

    def contains(self, other: Rect) -> bool:
        return self.x <= other.x and self.y <= other.y and other.right <= self.right and other.bottom <= self.bottom

    def touches(self, other: Rect) -> bool:
        return self.x < other.right and other.x < self.right and self.y < other.bottom and other.y < self.bottom


@dataclass(frozen=True, slots=True)
class ScrollState:
    """How far a box is scrolled; `left` pixels are still hidden below."""

    top: float
    height: float
    shown: float

    @property
    def left(self) -> float:
        return self.height - self.shown - self.top

    @property
    def at_top(self) -> bool:
        return self.top <= 1

    @property
    def at_bottom(self) -> bool:
        return self.left <= 1


@dataclass(frozen=True, slots=True)
class PageElement:
    index: int
    parent: int  # index of the nearest ancestor that is laid out, -1 at the top
    tag: str
    id: str
    classes: frozenset[str]
    text: str  # with all descendants, white space squeezed
    value: str
    checked: bool
    disabled: bool
    focused: bool
    rect: Rect
    shown: Rect | None  # the part inside the window and every scrolling ancestor
    point: tuple[float, float] | None  # a point where a click reaches it; None when hidden or covered
    background: str
    attributes: dict[str, str]
    scroll: ScrollState | None  # only for boxes whose content is larger than they are

    def has_class(self, name: str) -> bool:
        return name in self.classes


@dataclass(frozen=True, slots=True)
class Page:
    elements: tuple[PageElement, ...]
    viewport: tuple[float, float]
    scroll: ScrollState
    answer: Any = None  # to the task's own question to the page

    # ------------------------------------------------------------------------------------------------- finding

    def all(
        self,
        tag: str | None = None,
        *,
        id: str | None = None,
        css: str | None = None,
        text: str | None = None,
        type: str | None = None,
        within: PageElement | None = None,
        where: Callable[[PageElement], bool] | None = None,
    ) -> list[PageElement]:
        """Every element, in document order, that meets all the conditions given."""
        return [
            e
            for e in self.elements
            if (tag is None or e.tag == tag)
            and (id is None or e.id == id)
            and (css is None or css in e.classes)
            and (text is None or e.text == text)
            and (type is None or e.attributes.get("type") == type)
            and (within is None or self.is_inside(e, within))
            and (where is None or where(e))
        ]

    def find(self, tag: str | None = None, **conditions: Any) -> PageElement | None:
        found = self.all(tag, **conditions)
        return found[0] if found else None

    def get(self, tag: str | None = None, **conditions: Any) -> PageElement:
        found = self.find(tag, **conditions)
        if found is None:
            raise LookupError(f"no element {tag or '*'} with {conditions} on the page")
        return found

    def ancestors(self, element: PageElement) -> Iterator[PageElement]:
        while element.parent >= 0:
            element = self.elements[element.parent]
            yield element

    def is_inside(self, element: PageElement, container: PageElement) -> bool:
        return any(a.index == container.index for a in self.ancestors(element))

    def ancestor(self, element: PageElement, *, tag: str | None = None, css: str | None = None) -> PageElement:
        for a in self.ancestors(element):
            if (tag is None or a.tag == tag) and (css is None or css in a.classes):
                return a
        raise LookupError(f"<{element.tag} id={element.id!r}> is in no {tag or '*'}.{css or '*'}")

    @property
    def focus(self) -> PageElement | None:
        return next((e for e in self.elements if e.focused), None)


def parse_page(dump: str) -> Page:
    """From the JSON string of `dump.js`."""
    raw = json.loads(dump)
    return Page(
        elements=tuple(_element(i, e) for i, e in enumerate(raw["elements"])),
        viewport=tuple(raw["viewport"]),
        scroll=ScrollState(*raw["scroll"]),
        answer=raw["answer"],
    )


def _element(index: int, raw: dict[str, Any]) -> PageElement:
    return PageElement(
        index=index,
        parent=raw["parent"],
        tag=raw["tag"],
        id=raw["id"],
        classes=frozenset(raw["classes"]),
        text=raw["text"],
        value=raw["value"],
        checked=raw["checked"],
        disabled=raw["disabled"],
        focused=raw["focused"],
        rect=Rect(*raw["rect"]),
        shown=Rect(*raw["shown"]) if raw["shown"] else None,
        point=tuple(raw["point"]) if raw["point"] else None,
        background=raw["background"],
        attributes=raw["attributes"],
        scroll=ScrollState(*raw["scroll"]) if raw["scroll"] else None,
    )


class Evaluates(Protocol):
    """The one thing the solver needs of an environment."""

    async def evaluate(self, expression: str) -> Any: ...


@cache
def _dump_function() -> str:
    script = files(__package__).joinpath("dump.js").read_text(encoding="utf-8")
    return script[script.index("(height, question)") :].strip()


async def read_page(environment: Evaluates, observation: Observation, question: str = "null") -> Page:
    """The page as it is now, in the coordinates of the observation."""
    height = observation.viewport[1]
    return parse_page(await environment.evaluate(f"({_dump_function()})({height}, {question})"))
