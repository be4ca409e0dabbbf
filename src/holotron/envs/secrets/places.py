"""Where on the screen something is painted: rectangles in CSS pixels of the viewport."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holotron.envs.frames import Process
from holotron.envs.secrets.snapshot import ANYWHERE, PageSnapshot
from holotron.errors import EnvironmentFault


@dataclass(frozen=True, slots=True)
class Region:
    left: float
    top: float
    right: float
    bottom: float

    def grown(self, far: float) -> Region:
        """With what letters paint outside their boxes, and `far` more."""
        height = self.bottom - self.top
        across, down = far + 2 + 0.15 * height, far + 2 + 0.1 * height
        return Region(self.left - across, self.top - down, self.right + across, self.bottom + down)

    def around(self, other: Region) -> Region:
        return Region(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )


EVERYTHING = Region(-1e6, -1e6, 1e6, 1e6)

# `this` is a text: the rectangles of all of it, and of the given parts.
_RECTANGLES = """function (parts) {
  const of = (from, to) => {
    const range = new Range();
    range.setStart(this, Math.min(from, this.length));
    range.setEnd(this, Math.min(to, this.length));
    return [...range.getClientRects()].map((box) => [box.left, box.top, box.right, box.bottom]);
  };
  return {whole: of(0, this.length), parts: parts.flatMap(([from, to]) => of(from, to))};
}"""


async def places_of_text(
    process: Process, page: PageSnapshot, document: int, node: int, spans: list[tuple[int, int]], exact: bool
) -> list[Region]:
    """Of some letters of a text; of all of it, where they cannot be told apart."""
    far = page.spread(document, node)
    if far == ANYWHERE:
        return [EVERYTHING]
    if (frame := page.enlarged(document)) is not None:
        return await places_of(process, page, *frame)
    parts = await _parts(process, page, document, node, spans) if exact else []
    if (columns := page.columns(document, node)) is not None:
        node, parts = columns, []
    size = page.size(document, node)
    found = parts or await places_of(process, page, document, node)
    return [one.grown(max(far, size) if one.bottom - one.top < 0.9 * size else far) for one in found]


async def places_of(process: Process, page: PageSnapshot, document: int, node: int) -> list[Region]:
    """Of an element."""
    if (frame := page.enlarged(document)) is not None:
        document, node = frame
    try:
        quads = (await process.send("DOM.getContentQuads", backendNodeId=page.backend(document, node)))["quads"]
        return [_bounding(quad[::2], quad[1::2]) for quad in quads]
    except EnvironmentFault:  # it paints nothing, or it has gone: then it is where it was
        process.tab.check_alive()
    bounds = page.bounds(document, node)
    if bounds is None or not (bounds[2] and bounds[3]):
        return []
    x, y, width, height = bounds
    return [Region(x, y, x + width, y + height)] if document == 0 else [EVERYTHING]


async def _parts(
    process: Process, page: PageSnapshot, document: int, node: int, spans: list[tuple[int, int]]
) -> list[Region]:
    try:
        world = await process.world(page.frame(document))
        element = await process.resolve(page.backend(document, node), world)
        found = await process.call(element, _RECTANGLES, [list(span) for span in spans])
    except EnvironmentFault:
        process.tab.check_alive()
        return []
    if not found or not found["parts"]:
        return []
    parts = [Region(*box) for box in found["parts"]]
    if document == 0 and process.frame is None:
        return parts
    # In a frame these are places in the frame. Where the frame is not turned or scaled, all is moved alike.
    whole, here = [Region(*box) for box in found["whole"]], await places_of(process, page, document, node)
    if not here or len(here) != len(whole):
        return []
    dx, dy = here[0].left - whole[0].left, here[0].top - whole[0].top
    moved = [Region(one.left + dx, one.top + dy, one.right + dx, one.bottom + dy) for one in (*whole, *parts)]
    same = all(_close(one, other) for one, other in zip(moved, here, strict=False))
    return moved[len(whole) :] if same else []


def _close(one: Region, other: Region) -> bool:
    return all(
        abs(a - b) < 1
        for a, b in (
            (one.left, other.left),
            (one.top, other.top),
            (one.right, other.right),
            (one.bottom, other.bottom),
        )
    )


def _bounding(xs: Any, ys: Any) -> Region:
    return Region(min(xs), min(ys), max(xs), max(ys))
