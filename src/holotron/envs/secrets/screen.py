"""Screenshots on which no secret is to be read.

The page is not touched. What it paints is read from the browser's layout, before and after the picture is taken;
where a secret is found, its place is blanked on the picture. What cannot be placed, or cannot be known, is blanked as
a whole.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from PIL import Image, ImageDraw

from holotron.envs.frames import Process, apart
from holotron.envs.secrets.keeping import Secrets
from holotron.envs.secrets.pictures import Pictures
from holotron.envs.secrets.places import EVERYTHING, Region, places_of, places_of_text
from holotron.envs.secrets.snapshot import ANYWHERE, STYLES, Box, PageSnapshot
from holotron.envs.tab import Tab

BLANK = (68, 68, 68)


@dataclass(slots=True)
class _Sight:
    """What was found in one process of a page."""

    process: Process
    page: PageSnapshot
    texts: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # letters of what is painted
    marks: set[tuple[int, int]] = field(default_factory=set)  # texts with something beside them: document, node
    whole: set[tuple[int, int]] = field(default_factory=set)  # elements: document, node

    def __bool__(self) -> bool:
        return bool(self.texts or self.marks or self.whole)


class Screen:
    """One session's."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._pictures = Pictures(secrets)

    async def take(self, tab: Tab) -> bytes:
        """A screenshot, encoded as the display says."""
        if not self._secrets.finder:
            return await tab.screenshot()
        if not await self._look(tab):
            picture = await tab.screenshot()
            if not await self._look(tab):  # nor has it come meanwhile
                return picture
        before = await self._regions(tab)
        picture = await tab.screenshot(format="png")
        after = await self._regions(tab)
        moved = [a.around(b) for a, b in zip(before, after, strict=False)] if len(before) == len(after) else []
        return _blanked(picture, [*before, *after, *moved], tab)

    async def _look(self, tab: Tab) -> list[_Sight]:
        page = await self._search(Process(tab))
        sights = [page]
        if page.page.closed_frames:
            sights += [await self._search(process) for process in await apart(tab)]
        return [sight for sight in sights if sight]

    async def _search(self, process: Process) -> _Sight:
        page = PageSnapshot(await process.send("DOMSnapshot.captureSnapshot", computedStyles=list(STYLES)))
        sight = _Sight(process, page)
        finder, texts = self._secrets.finder, [one.text for one in page.painted]
        for index, spans in finder.across(texts).items():
            sight.texts.setdefault(index, []).extend(spans)
        for index, spans in finder.across([text[::-1] for text in reversed(texts)]).items():
            at, length = len(texts) - 1 - index, len(texts[len(texts) - 1 - index])
            sight.texts.setdefault(at, []).extend((length - end, length - begin) for begin, end in spans)
        exact = set(sight.texts)
        for order in (_rows(page.boxes), _columns(page.boxes)):
            for index in finder.across([box.text for box in order]):
                painted = order[index].painted
                if painted not in exact:  # only together with others does it tell anything
                    sight.texts[painted] = [(0, len(texts[painted]))]
        for index in finder.across([mark for _, _, mark in page.marks]):
            sight.marks.add(page.marks[index][:2])
        sight.whole |= await self._pictures.doubtful(process, page)
        return sight

    async def _regions(self, tab: Tab) -> list[Region]:
        regions: list[Region] = []
        for sight in await self._look(tab):
            regions += await _places(sight)
        return regions


async def _places(sight: _Sight) -> list[Region]:
    process, page = sight.process, sight.page
    if process.frame is not None:  # of another process: all of the frame
        box = await (await process.frame.frame_element()).bounding_box()
        if box is None:
            return []
        return [Region(box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"])]
    found: list[Region] = []
    for index, spans in sorted(sight.texts.items()):
        one = page.painted[index]
        found += await places_of_text(process, page, one.document, one.node, spans, one.exact)
    for document, node in sorted(sight.marks):
        beside = 2 * page.size(document, node)
        found += [region.grown(beside) for region in await places_of(process, page, document, node)]
    for document, node in sorted(sight.whole):
        far = page.spread(document, node)
        if far == ANYWHERE:
            return [EVERYTHING]
        found += [region.grown(far) for region in await places_of(process, page, document, node)]
    await process.forget()
    return found


def _rows(boxes: Sequence[Box]) -> list[Box]:
    """In the order in which lines are read, wherever the elements stand in the page."""
    return _read(boxes, lambda box: (box.y, box.height), lambda box: box.x)


def _columns(boxes: Sequence[Box]) -> list[Box]:
    return _read(boxes, lambda box: (box.x, box.width), lambda box: box.y)


def _read(
    boxes: Sequence[Box], across: Callable[[Box], tuple[float, float]], along: Callable[[Box], float]
) -> list[Box]:
    """Line by line; what overlaps the first of a line by half belongs to it."""
    lines: list[list[Box]] = []
    end = float("-inf")
    for box in sorted(boxes, key=across):
        begin, size = across(box)
        if begin + size / 2 > end:
            lines.append([])
            end = begin + size
        lines[-1].append(box)
    return [box for line in lines for box in sorted(line, key=along)]


def _blanked(picture: bytes, regions: Sequence[Region], tab: Tab) -> bytes:
    display = tab.display
    with Image.open(io.BytesIO(picture)) as opened:
        image = opened.convert("RGB")
    across, down = image.width / display.width, image.height / display.height
    pen = ImageDraw.Draw(image)
    for region in regions:
        left, top = max(0, int(region.left * across)), max(0, int(region.top * down))
        right, bottom = (
            min(image.width, int(region.right * across) + 1),
            min(image.height, int(region.bottom * down) + 1),
        )
        if left < right and top < bottom:
            pen.rectangle((left, top, right - 1, bottom - 1), fill=BLANK)
    encoded = io.BytesIO()
    if display.format == "jpeg":
        image.save(encoded, "JPEG", quality=display.jpeg_quality)
    else:
        image.save(encoded, "PNG", compress_level=1)
    return encoded.getvalue()
