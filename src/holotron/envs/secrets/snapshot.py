"""What a page paints, as the browser's own layout says: text of elements and of generated content, fields, pictures; in
open and closed shadow roots, and in all frames of one process.

    page = PageSnapshot(await process.send("DOMSnapshot.captureSnapshot", computedStyles=STYLES))
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

# Pictures that styles paint, and what makes an element paint elsewhere than in its box.
PICTURES = (
    "background-image", "list-style-image", "border-image-source", "content",
    "mask-image", "-webkit-mask-box-image-source", "filter", "backdrop-filter",
)  # fmt: skip
MOVES = ("text-shadow", "filter", "-webkit-box-reflect", "letter-spacing")
MARKS = ("text-emphasis-style", "hyphenate-character")  # what they say is painted as well, if it stands in quotes
STYLES = tuple(dict.fromkeys((*PICTURES, *MOVES, *MARKS, "column-count", "column-width", "font-size", "zoom")))
ANYWHERE = float("inf")  # how far from its box something may be painted

_ELEMENT, _TEXT = 1, 3  # types of nodes
_FIELDS = frozenset({"INPUT", "TEXTAREA", "SELECT", "OPTION", "OPTGROUP", "IMG", "OBJECT", "EMBED", "VIDEO", "AUDIO"})
_SAID = ("value", "placeholder", "alt", "label")  # attributes that fields paint
_SOURCES = ("src", "href", "xlink:href", "data", "poster")
_HELD = frozenset({"pattern", "mask", "clippath", "marker", "filter"})  # drawn wherever somebody refers to them
_URL = re.compile(r"""url\((?:"((?:[^"\\]|\\.)*)"|([^)"']*))\)""")
_PIXELS = re.compile(r"-?[\d.]+(?=px)")


@dataclass(frozen=True, slots=True)
class Painted:
    """Something that paints text. `exact`: a piece of text whose letters can be found one by one."""

    document: int
    node: int
    text: str
    exact: bool


@dataclass(frozen=True, slots=True)
class Box:
    """A piece of a line, and where it is painted in its own document."""

    painted: int  # which of the painted
    text: str
    x: float
    y: float
    width: float
    height: float


class PageSnapshot:
    def __init__(self, raw: Any) -> None:
        self._documents = raw["documents"]
        self._strings: list[str] = raw["strings"]
        # Which strings may say something as a style: nearly all say nothing, and there are many of them.
        self._telling = {at for at, text in enumerate(self._strings) if "url(" in text or text[:1] in ("'", '"')}
        self._layouts = [dict(zip(d["layout"]["nodeIndex"], range(10**9), strict=False)) for d in self._documents]
        self.painted: list[Painted] = []
        self.marks: list[tuple[int, int, str]] = []  # beside letters, by styles: document, node, text
        self.boxes: list[Box] = []
        self.pictures: list[tuple[int, int, str]] = []  # document, node, address
        self.canvases: list[tuple[int, int]] = []
        self.films: list[tuple[int, int]] = []
        self._holders: dict[int, tuple[int, int]] = {}  # of documents in frames: the frame's document and node
        self.closed_frames = False  # there are frames that another process draws
        if self._documents:
            self._read(0, set())

    # -------------------------------------------------------------------------------------------------- about a node

    def backend(self, document: int, node: int) -> int:
        return int(self._documents[document]["nodes"]["backendNodeId"][node])

    def frame(self, document: int) -> str:
        return self._string(self._documents[document]["frameId"])

    def bounds(self, document: int, node: int) -> tuple[float, float, float, float] | None:
        """Left, top, width, height in the viewport of its own document."""
        layout = self._layouts[document].get(node)
        if layout is None:
            return None
        x, y, width, height = self._documents[document]["layout"]["bounds"][layout]
        whole = self._documents[document]
        return x - whole.get("scrollOffsetX", 0), y - whole.get("scrollOffsetY", 0), width, height

    def spread(self, document: int, node: int) -> float:
        """How far from its box it may be painted, in CSS pixels."""
        far = 0.0
        for one in self._around(document, node):
            if self._name(document, one).lower() in _HELD:
                return ANYWHERE
            style = self._style(document, one)
            shadow, bent, mirrored, apart = (style.get(name, "none") for name in MOVES)
            if mirrored != "none" or "url(" in bent:
                return ANYWHERE
            sizes = [abs(float(size)) for size in _PIXELS.findall(shadow)]  # right, down, blurred by; again and again
            far = max([far, *(max(sizes[at : at + 2]) + 2 * sizes[at + 2] for at in range(0, len(sizes) - 2, 3))])
            far += sum(abs(float(size)) for size in _PIXELS.findall(bent))
            far = max([far, *(-float(size) for size in _PIXELS.findall(apart))])  # letters over each other
        return far

    def size(self, document: int, node: int) -> float:
        """Of letters, in CSS pixels. A font can say that its letters are lower than they are."""
        for one in self._around(document, node):
            if sizes := _PIXELS.findall(self._style(document, one).get("font-size", "")):
                return float(sizes[0])
        return 0.0

    def columns(self, document: int, node: int) -> int | None:
        """The element around it that lays its text out in columns: where in them, the layout does not say."""
        kinds = self._documents[document]["nodes"]["nodeType"]
        for one in self._around(document, node):
            style = self._style(document, one) if kinds[one] == _ELEMENT else {}
            if style.get("column-count", "auto") != "auto" or style.get("column-width", "auto") != "auto":
                return one
        return None

    def enlarged(self, document: int) -> tuple[int, int] | None:
        """The outermost frame around a document that is enlarged: the browser misplaces what is in it."""
        found = None
        while document in self._holders:
            holder = document, node = self._holders[document]
            if any(self._style(document, one).get("zoom", "1") != "1" for one in self._around(document, node)):
                found = holder
        return found

    def _around(self, document: int, node: int) -> Iterator[int]:
        parents = self._documents[document]["nodes"]["parentIndex"]
        while node >= 0:
            yield node
            node = parents[node]

    def _style(self, document: int, node: int) -> dict[str, str]:
        layout = self._layouts[document].get(node)
        if layout is None:
            return {}
        values = self._documents[document]["layout"]["styles"][layout]
        return dict(zip(STYLES, map(self._string, values), strict=False))

    def _string(self, index: int) -> str:
        return self._strings[index] if 0 <= index < len(self._strings) else ""

    def _name(self, document: int, node: int) -> str:
        return self._string(self._documents[document]["nodes"]["nodeName"][node])

    def _attributes(self, document: int, node: int) -> dict[str, str]:
        flat = list(map(self._string, self._documents[document]["nodes"]["attributes"][node]))
        return dict(zip(flat[::2], flat[1::2], strict=False))

    # ------------------------------------------------------------------------------------------------------- reading

    def _read(self, document: int, seen: set[int]) -> None:
        """In the order of the layout; what is in a frame stands where the frame does."""
        seen.add(document)
        whole = self._documents[document]
        nodes, layout = whole["nodes"], whole["layout"]
        types, values = nodes["nodeType"], nodes["nodeValue"]
        frames = _sparse(nodes.get("contentDocumentIndex"))
        written = _sparse(nodes.get("inputValue")) | _sparse(nodes.get("textValue"))
        sources = _sparse(nodes.get("currentSourceURL"))
        choices = self._choices(document)
        if "feImage" in self._strings:  # such a picture has no box of its own
            for node, name in enumerate(nodes["nodeName"]):
                if self._string(name) == "feImage":
                    self._picture(document, node, "feImage", "")
        boxes = self._boxes_of(whole)
        for index, node in enumerate(layout["nodeIndex"]):
            if not self._telling.isdisjoint(layout["styles"][index]):
                self._styled(document, node, text=types[node] == _TEXT)
            if types[node] == _TEXT:
                text = self._string(values[node])
                drawn = self._string(layout["text"][index])
                exact = True
            else:
                name = self._name(document, node)
                text = drawn = self._string(layout["text"][index])
                exact = False
                if name in _FIELDS:
                    text = self._field(document, node, name, self._string(written.get(node, -1)), choices)
                if name in ("IFRAME", "FRAME", "OBJECT", "EMBED", "FENCEDFRAME"):
                    inner = frames.get(node)
                    self.closed_frames |= inner is None and name not in ("OBJECT", "EMBED")
                    if inner is not None and inner not in seen:
                        self._holders[inner] = (document, node)
                        self._read(inner, seen)
                self._picture(document, node, name, self._string(sources.get(node, -1)))
            if text.strip():
                self.painted.append(Painted(document, node, text, exact))
                for start, length, (x, y, width, height) in boxes.get(index, ()):
                    box = Box(len(self.painted) - 1, drawn[start : start + length], x, y, width, height)
                    self.boxes += [box] if box.text.strip() else []

    def _styled(self, document: int, node: int, *, text: bool) -> None:
        """What styles paint: marks at texts, pictures at elements."""
        style = self._style(document, node)
        for key in MARKS if text else ():
            if style[key].startswith(('"', "'")):
                self.marks.append((document, node, style[key][1:-1]))
        for key in () if text else PICTURES:
            if "url(" in style[key]:
                parent = self._documents[document]["nodes"]["parentIndex"][node]
                places = (node, parent) if key == "content" and parent >= 0 else (node,)  # it has a box without a name
                urls = [one or other for one, other in _URL.findall(style[key])]
                self.pictures += [(document, place, url) for url in urls for place in places]

    def _field(self, document: int, node: int, name: str, value: str, choices: dict[int, str]) -> str:
        """What a field or picture paints by itself; a password's dots tell nothing."""
        said = self._attributes(document, node)
        if name == "INPUT" and said.get("type", "").lower() == "password":
            return said.get("placeholder", "")
        texts = [value, *(said.get(key, "") for key in _SAID), choices.get(node, "")]
        return " ".join(dict.fromkeys(text for text in texts if text))

    def _choices(self, document: int) -> dict[int, str]:
        """The texts of lists and of what can be chosen in them."""
        nodes = self._documents[document]["nodes"]
        found: dict[int, str] = {}
        lists = {index for index, name in enumerate(nodes["nodeName"]) if self._string(name) in ("SELECT", "OPTION")}
        for index, kind in enumerate(nodes["nodeType"] if lists else ()):
            said = self._string(nodes["nodeValue"][index]) if kind == _TEXT else ""
            if index in lists:
                said = self._attributes(document, index).get("label", "")
            if said:
                for one in self._around(document, index):
                    if one in lists:
                        found[one] = f"{found.get(one, '')} {said}"
        return found

    def _picture(self, document: int, node: int, name: str, source: str) -> None:
        if name == "CANVAS":
            self.canvases.append((document, node))
        elif name == "VIDEO":
            self.films.append((document, node))
        urls = [source] if source else []
        if name == "use":  # of a drawing that is not in this page
            said, base = self._attributes(document, node), self._string(self._documents[document]["baseURL"])
            shown = said.get("href") or said.get("xlink:href", "")
            urls += [] if shown.startswith("#") else [_joined(base, shown).partition("#")[0]]
        if not source and name in ("image", "INPUT", "IMG", "VIDEO", "EMBED", "OBJECT", "feImage"):
            said, base = self._attributes(document, node), self._string(self._documents[document]["baseURL"])
            urls += [_joined(base, said[key]) for key in _SOURCES if key in said]
        self.pictures += [(document, node, url) for url in urls]

    def _boxes_of(self, whole: Any) -> dict[int, list[tuple[int, int, Any]]]:
        found: dict[int, list[tuple[int, int, Any]]] = {}
        boxes = whole["textBoxes"]
        for at, layout in enumerate(boxes["layoutIndex"]):
            found.setdefault(layout, []).append((boxes["start"][at], boxes["length"][at], boxes["bounds"][at]))
        return found


def _joined(base: str, address: str) -> str:
    try:
        return urljoin(base, address)
    except ValueError:
        return address


def _sparse(table: Any) -> dict[int, int]:
    if not table:
        return {}
    return dict(zip(table["index"], table.get("value", table["index"]), strict=False))
