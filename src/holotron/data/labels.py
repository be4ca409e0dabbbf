"""What is known about one screenshot: its elements and every visible character.

    page.image                       # uint8 [height, width, 3], device pixels
    page.elements[3].box             # (left, top, right, bottom) in CSS pixels, the part that can be seen
    page.text.characters             # every visible character, line after line
    page.text.boxes                  # float32 [characters, 4]: where each of them is
    page.text.boxes * page.scale     # ... in pixels of the image

One rule for all coordinates: CSS pixels of the viewport, as in `holotron.types`; `scale` leads to image pixels.
Everything here is plain data on NumPy: trainers read it on machines that have no browser.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal

import numpy as np

from holotron.types import Action, Answer, Click

Box = tuple[float, float, float, float]  # left, top, right, bottom

# What a person may click. Other roles (heading, cell, label, image, dialog ...) are there to be read or referred to.
CLICKABLE = frozenset({
    "button", "link", "textbox", "checkbox", "radio", "combobox", "option", "tab", "menuitem", "switch", "slider",
    "spinbutton", "treeitem", "day", "row", "card", "swatch", "shape", "icon",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Element:
    role: str
    box: Box  # the visible part
    name: str = ""  # what a person would call it: its text, its label, its icon
    text: str = ""  # the text that can be seen on it
    value: str = ""  # what a field holds
    icon: str = ""
    colour: str = ""  # of its background (of the figure itself for shapes), when it has an everyday name
    states: tuple[str, ...] = ()  # checked, selected, disabled, expanded, focused
    within: str = ""  # the row, card or section it belongs to, by name
    exposed: bool = True  # all of it can be seen and a click on its centre reaches it
    key: str = ""  # how a scripted episode refers to it

    @property
    def centre(self) -> tuple[float, float]:
        return middle(self.box)

    @property
    def area(self) -> float:
        return area(self.box)

    @property
    def clickable(self) -> bool:
        return self.exposed and self.role in CLICKABLE and "disabled" not in self.states


@dataclass(frozen=True, slots=True)
class Line:
    """A run of characters that are read in one go. `start` and `stop` count in `Text.characters`."""

    text: str
    box: Box
    start: int
    stop: int
    element: int  # the innermost element that holds it, -1 for none


@dataclass(frozen=True, slots=True)
class Text:
    """All visible characters. Lines follow each other without separators; spaces within a line are characters."""

    characters: str
    boxes: np.ndarray  # float32 [characters, 4]
    lines: np.ndarray  # int32 [lines, 3]: start, stop, element

    def __iter__(self) -> Iterator[Line]:
        return (self.line(index) for index in range(len(self.lines)))

    def line(self, index: int) -> Line:
        start, stop, element = (int(n) for n in self.lines[index])
        return Line(self.characters[start:stop], union(self.boxes[start:stop]), start, stop, element)

    def words(self) -> Iterator[Line]:
        """The words of each line, as short lines."""
        for line in self:
            start = line.start
            for word in line.text.split(" "):
                stop = start + len(word)
                if word:
                    yield Line(word, union(self.boxes[start:stop]), start, stop, line.element)
                start = stop + 1

    @classmethod
    def of(cls, lines: Iterable[tuple[str, Any, int]]) -> Text:
        """From (text, boxes of its characters, element) triples."""
        texts, boxes, spans, start = [], [np.zeros((0, 4), np.float32)], [], 0
        for text, where, element in lines:
            texts.append(text)
            boxes.append(np.asarray(where, np.float32).reshape(-1, 4))
            spans.append((start, start + len(text), element))
            start += len(text)
        return cls("".join(texts), np.concatenate(boxes), np.asarray(spans, np.int32).reshape(-1, 3))


Kind = Literal["click", "absent", "find", "read"]
NOT_THERE = "not found"  # what to answer when asked for something that is not on the screen


@dataclass(frozen=True, slots=True)
class Sample:
    kind: Kind
    by: str  # how it is described or asked: text, icon, colour, order, line at ...
    instruction: str  # may hold "{point}", see `worded`
    box: Box | None = None  # where to click; for reading, where the answer is
    answer: str = ""
    point: tuple[float, float] | None = None
    anchor: Box | None = None  # the text that is quoted, where it stands beside the target; not stored

    def worded(self, write_point: Callable[[float, float], str]) -> str:
        """The instruction with its point in the words of whoever reads it: pixels, thousandths ..."""
        if self.point is None:
            return self.instruction
        return self.instruction.replace("{point}", write_point(*self.point))

    def action(self) -> Action:
        """The right reaction, in CSS pixels."""
        if self.kind in ("click", "find"):
            assert self.box is not None
            return Click(*middle(self.box))
        if self.kind == "absent":
            return Answer(NOT_THERE)
        return Answer(self.answer, *(middle(self.box) if self.box is not None else ()))


@dataclass(frozen=True, slots=True)
class Page:
    """One labelled screenshot. Of an episode it is one step: the screen, and what was done there."""

    id: str
    image: np.ndarray  # uint8 [height, width, 3]
    scale: float  # image pixels per CSS pixel
    elements: tuple[Element, ...]
    text: Text
    origin: Mapping[str, Any] = field(default_factory=dict)  # maker, seed, theme, font, language, layout ...
    goal: str = ""  # of the episode
    step: int = 0
    steps: int = 0  # 0: not part of an episode
    action: Mapping[str, Any] | None = None  # `holotron.actions` JSON: what to do here towards the goal
    samples: tuple[Sample, ...] = ()

    @property
    def viewport(self) -> tuple[float, float]:
        return self.image.shape[1] / self.scale, self.image.shape[0] / self.scale


def area(box: Sequence[float]) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def middle(box: Box) -> tuple[float, float]:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def union(boxes: np.ndarray) -> Box:
    left, top = boxes[:, :2].min(0)
    right, bottom = boxes[:, 2:].max(0)
    return float(left), float(top), float(right), float(bottom)


def contains(box: Sequence[float], x: float, y: float) -> bool:
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


# ------------------------------------------------------------------------------------------------------------ as JSON


_DEFAULTS = {f.name: f.default for f in fields(Element) if f.default is not MISSING}


def elements_to_json(elements: Iterable[Element]) -> str:
    """One JSON list; what is at its default is left out."""
    rows = [
        {name: value for name in Element.__slots__ if (value := getattr(element, name)) != _DEFAULTS.get(name)}
        for element in elements
    ]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def elements_from_json(rows: str) -> tuple[Element, ...]:
    return tuple(
        Element(**{**row, "box": tuple(row["box"]), "states": tuple(row.get("states", ()))}) for row in json.loads(rows)
    )
