"""What is on the page, for those who may look behind the pixels: scripted solvers and labellers of data.

Policies never see this. One call returns every visible element of the page, parents before children.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files

SCRIPT = (files(__package__) / "assets" / "dom.js").read_text()


@dataclass(frozen=True, slots=True)
class DomElement:
    index: int
    parent: int  # index of the parent, -1 for the root
    tag: str  # lower case; "#text" for text that stands beside elements
    x: float  # left, top, width, height in the CSS pixels that actions use
    y: float
    width: float
    height: float
    text: str = ""  # its own text, without that of its children
    id: str = ""
    classes: tuple[str, ...] = ()
    value: str = ""
    type: str = ""
    checked: bool = False  # a ticked box, a chosen option
    focused: bool = False
    disabled: bool = False
    hit: bool = False  # the centre is in view and a click there reaches this element
    color: str = ""
    background: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def center(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2


def parse(rows: str, *, left: float = 0.0, top: float = 0.0) -> list[DomElement]:
    """The result of `SCRIPT` as elements; `left`, `top` is where the observed part of the viewport begins."""
    elements = []
    for index, row in enumerate(json.loads(rows)):
        x, y, width, height = row.pop("rect")
        row["classes"] = tuple(row.get("classes", ()))
        elements.append(DomElement(index=index, x=x - left, y=y - top, width=width, height=height, **row))
    return elements
