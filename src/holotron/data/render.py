"""Made pages in a real browser: pixels, labels, and episodes played with mouse and keyboard.

    async with Renderer() as renderer:
        shots = await renderer.render(make_page(Recipe(), seed=7, index=12))

A page without an episode gives one `Shot`. An episode gives one for each move, with the action that was taken there. If
the page does not end as expected (something lay in the way, say) the episode is dropped and its first screen is kept.

What makes it fast: raw protocol calls, all labels in one JSON string, and screenshots that leave the browser as quick
PNGs and become compact, lossless WebP in a thread of this process while the browser works on the next page.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np
from PIL import Image

from holotron.data.colours import colour_name, parse_css
from holotron.data.labels import Element, Text
from holotron.data.pages.flows import Move
from holotron.data.pages.make import MadePage
from holotron.data.shards import encode
from holotron.envs.hands import perform
from holotron.envs.pool import BrowserLease, BrowserPool, bounded
from holotron.envs.tab import Clipboard, Display, Tab
from holotron.errors import EnvironmentFault
from holotron.types import Action, Click, Write

LABELS = (files(__package__) / "assets" / "labels.js").read_text()
_UNIT = 1 / 16  # CSS pixels, of the character boxes that labels.js gives
_PAINTED = frozenset({"button", "swatch", "shape", "tab", "option", "menuitem", "card", "row", "day", "switch"})
FLAGS = ("--disable-partial-raster",)
OPEN_TIMEOUT = 30.0  # seconds
ATTEMPTS = 3  # at a page
RESTART_AFTER = 2000  # pages; browsers grow


@dataclass(frozen=True, slots=True)
class Shot:
    """One screenshot with its labels."""

    image: bytes  # lossless WebP
    size: tuple[int, int]  # pixels
    elements: tuple[Element, ...]
    text: Text
    action: Action | None = None  # what was done next, in an episode


class Renderer:
    """One browser with a few tabs. `render` may be called any number of times at once; `tabs` pages are made at a time.

    Chromium places letters differently at scale 1 and above it, and a process that has drawn a font one way keeps on
    doing so. For pages that depend on nothing but themselves, a tab therefore serves one of the two kinds only. And
    after a change it redraws only the part around it, whose edges may then differ by a shade from a whole drawing:
    that is switched off.
    """

    def __init__(self, *, tabs: int = 2) -> None:
        self._pool = BrowserPool(browsers=1, contexts_per_browser=2 * tabs, flags=FLAGS)
        self._places = asyncio.Semaphore(tabs)
        self._idle: dict[bool, list[_Slot]] = {False: [], True: []}

    async def __aenter__(self) -> Renderer:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._pool.close()

    async def render(self, page: MadePage) -> list[Shot]:
        """The page's shots. A browser that dies meanwhile is replaced; an episode that fails is played once more, in a
        new tab, before it is dropped: what a page holds must not depend on how busy the machine was."""
        async with self.slot(page) as slot:
            shots = await _patiently(slot, page)
            if page.flow is not None and shots[0].action is None:
                await slot.close()
                shots = await _patiently(slot, page)
            return shots

    @contextlib.asynccontextmanager
    async def slot(self, page: MadePage) -> AsyncIterator[_Slot]:
        """A place to work on this page."""
        async with self._places:
            idle = self._idle[page.size.scale > 1]
            slot = idle.pop() if idle else _Slot(self._pool)
            try:
                yield slot
            finally:
                idle.append(slot)


class _Slot:
    """A tab that is opened when first needed, and now and then replaced."""

    def __init__(self, pool: BrowserPool) -> None:
        self._pool = pool
        self.lease: BrowserLease | None = None
        self._tab: Tab | None = None
        self._used = 0

    async def tab(self) -> Tab:
        if self._used >= RESTART_AFTER:
            await self.close()
        if self._tab is None:
            self.lease = await self._pool.lease(locale="en-US", timezone_id="UTC", offline=True)
            async with bounded("opening a page", OPEN_TIMEOUT):
                page = await self.lease.context.new_page()
                self._tab = await Tab.open(page, Display(format="png"), Clipboard(self.lease.clipboard))
        self._used += 1
        return self._tab

    async def close(self) -> None:
        if self.lease is not None:
            await self.lease.close()
        self.lease, self._tab, self._used = None, None, 0


async def _patiently(slot: _Slot, page: MadePage) -> list[Shot]:
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(EnvironmentFault):
            return await _shots(await slot.tab(), page)
        await slot.close()
    return await _shots(await slot.tab(), page)


async def _shots(tab: Tab, page: MadePage) -> list[Shot]:
    await load(tab, page)
    first = await shoot(tab)
    if page.flow is None:
        return [first]
    shots, now = [], first
    for nth, move in enumerate(page.flow.moves):
        if nth:
            now = await shoot(tab)
        action = _action(move, now)
        if action is None:
            return [first]
        shots.append(replace(now, action=action))
        await perform(tab, action)
    noted = json.loads(await tab.evaluate("JSON.stringify(window.__log)"))
    return shots if noted == [page.flow.outcome] else [first]


async def load(tab: Tab, page: MadePage) -> None:
    """Show the page, at its size."""
    size = page.size
    tab.display = Display(size.width, size.height, size.scale, "png")
    await tab.send(
        "Input.dispatchMouseEvent", type="mouseMoved", x=0, y=0
    )  # nothing hovers where the last page was left
    await tab.send(
        "Emulation.setDeviceMetricsOverride",
        width=size.width,
        height=size.height,
        deviceScaleFactor=size.scale,
        mobile=False,
    )
    frame = (await tab.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
    await tab.send("Page.setDocumentContent", frameId=frame, html=page.html)


async def shoot(tab: Tab) -> Shot:
    """What the tab shows now, with labels. Works on any page, not only on ours."""
    found = await tab.evaluate(LABELS)
    reply = await tab.send("Page.captureScreenshot", format="png", optimizeForSpeed=True)
    return await asyncio.to_thread(labelled, base64.b64decode(reply["data"]), found)


def labelled(png: bytes, found: str) -> Shot:
    """A screenshot with what `LABELS` said about the page at that moment."""
    image, known = Image.open(io.BytesIO(png)), json.loads(found)
    return Shot(encode(image), image.size, tuple(map(_element, known["elements"])), _text(known))


def _action(move: Move, shot: Shot) -> Action | None:
    """The move as an action on what is on the screen; None when its element cannot be reached."""
    target = next((element for element in shot.elements if element.key == move.key and element.exposed), None)
    if target is None:
        return None
    if move.kind == "write":
        return Write(move.text)
    x, y = target.centre
    return Click(round(x, 1), round(y, 1), element=target.name)


def _element(row: dict[str, Any]) -> Element:
    painted = parse_css(row["background"]) if row["role"] in _PAINTED else None
    colour = colour_name(painted[0]) if painted and painted[1] > 0.9 else ""
    name = row["label"] or row["text"] or row["placeholder"]
    return Element(
        role=row["role"],
        box=tuple(row["box"]),
        name=name,
        text=row["text"],
        value=row["value"],
        icon=row["icon"],
        colour=colour,
        states=tuple(row["states"]),
        within=row["within"],
        exposed=row["exposed"],
        key=row["key"],
    )


def _text(found: dict[str, Any]) -> Text:
    boxes = np.asarray(found["boxes"], np.float32).reshape(-1, 4) * np.float32(_UNIT)
    return Text(found["text"], boxes, np.asarray(found["lines"], np.int32).reshape(-1, 3))
