"""Does the browser side work on this machine? What `holotron doctor` asks.

`click_accuracy` proves the whole way from pixels to pixels: a target is drawn somewhere in a page, found on the
screenshot as a policy would see it, its image coordinates are converted, the click is made, and the page reports where
it arrived. Most agents that "click in the wrong place" fail here, at odd window sizes or fractional scale factors.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image, ImageChops

from holotron.envs.chromium import find_chromium
from holotron.envs.pool import OPEN_TIMEOUT, BrowserPool, bounded
from holotron.envs.session import SessionOptions
from holotron.envs.tab import Display
from holotron.envs.web import WebEnvironment
from holotron.errors import EnvironmentFault
from holotron.types import Click, Observation, Task

VIEWPORTS = ((1280, 720), (1003, 701), (641, 977), (160, 210))
SCALES = (1.0, 1.5, 2.0, 3.0)
TOLERANCE = 1.0  # CSS pixels
TARGET = 8  # CSS pixels, side of the square to click
PATIENCE = 20  # looks, before something that is late is taken for wrong

Point = tuple[float, float]
Convert = Callable[[Point, Observation], Point]


@dataclass(frozen=True, slots=True)
class ClickCheck:
    """How well clicks land on one display."""

    viewport: tuple[int, int]
    scale: float
    image_size: tuple[int, int]
    clicks: int
    worst: float  # CSS pixels between where a click was aimed and where it arrived

    @property
    def ok(self) -> bool:
        return self.worst <= TOLERANCE


@dataclass(frozen=True, slots=True)
class BrowserCheck:
    """The browser itself."""

    executable: Path
    version: str
    start_seconds: float
    missing_glyphs: tuple[str, ...] = field(default=())  # scripts that would be drawn as boxes


def image_to_view(point: Point, observation: Observation) -> Point:
    """From pixels of the screenshot to the CSS pixels that actions use."""
    (width, height), (view_width, view_height) = observation.image_size, observation.viewport
    return point[0] * view_width / width, point[1] * view_height / height


async def click_accuracy(
    viewports: Sequence[tuple[int, int]] = VIEWPORTS,
    scales: Sequence[float] = SCALES,
    *,
    convert: Convert = image_to_view,
) -> list[ClickCheck]:
    """Click targets on every combination of sizes. `convert` may pass the point through a policy's own dialect."""
    browsers = BrowserPool(browsers=1)
    try:
        return [await _check(browsers, viewport, scale, convert) for viewport in viewports for scale in scales]
    finally:
        await browsers.close()


async def _check(browsers: BrowserPool, viewport: tuple[int, int], scale: float, convert: Convert) -> ClickCheck:
    width, height = viewport
    environment = WebEnvironment(browsers, SessionOptions(display=Display(width, height, scale, "png")))
    try:
        observation = await environment.reset(Task("doctor", "clicks", start_url="about:blank"))
        await environment.evaluate(_TARGET_PAGE)
        worst, aims = 0.0, list(_aims(width, height))
        seen: Point | None = None
        for x, y in aims:
            await environment.evaluate(f"place({x}, {y}, {TARGET})")
            before = seen
            for _ in range(PATIENCE):  # on a busy machine a screenshot may show the target where it was, or half drawn
                observation = await environment.observe()
                seen, last = find_target(observation.image), seen
                if seen == last != before:
                    break
            assert seen is not None
            await environment.step(Click(*convert(seen, observation)))
            for _ in range(PATIENCE):  # and the page may hear of the click a moment later
                if (landed := await environment.evaluate("landed")) is not None:
                    break
                await asyncio.sleep(0.05)
            if landed is None:
                raise EnvironmentFault("a click did not reach the page within a second")
            landed_x, landed_y = landed
            worst = max(worst, abs(landed_x - x), abs(landed_y - y))
        return ClickCheck(viewport, scale, observation.image_size, len(aims), worst)
    finally:
        await environment.close()


def _aims(width: int, height: int) -> list[Point]:
    """Centres of targets: near the corners and edges, where errors of scale are largest, and inside. Even numbers, so
    that the edges of a target fall on whole pixels at a scale of 1.5 and its centre can be found exactly."""
    margin = TARGET // 2
    columns = (margin, width // 3, width - margin)
    rows = (margin, (height * 3) // 5, height - margin)
    return [(x // 2 * 2, y // 2 * 2) for x in columns for y in rows]


def find_target(image: bytes) -> Point:
    """The centre of the magenta square, in image pixels."""
    with Image.open(io.BytesIO(image)) as opened:
        red, green, _ = opened.convert("RGB").split()
    magenta = ImageChops.subtract(red, green).point(lambda value: 255 * (value > 127))
    columns, rows = magenta.getprojection()
    if not any(columns):
        raise ValueError("There is no target on the screenshot.")
    return _middle(columns), _middle(rows)


def _middle(line: Sequence[int]) -> float:
    """The centre of the longest run of marks. Where size times scale is not whole, Chromium's last pixel is a copy of
    the first one, so the extent of all marks would be wrong."""
    best, start = (0, 0), 0
    for at, mark in enumerate([*line, 0]):
        if not mark:
            best, start = max(best, (at - start, start)), at + 1
    length, start = best
    return start + length / 2


async def check_browser() -> BrowserCheck:
    """Start the browser once and look at what it can draw."""
    executable = find_chromium()
    browsers = BrowserPool(browsers=1, executable=executable)
    began = time.monotonic()
    try:
        async with bounded("looking at the browser", OPEN_TIMEOUT):
            lease = await browsers.lease()
            seconds = time.monotonic() - began
            page = await lease.context.new_page()
            missing = await page.evaluate(_MISSING_GLYPHS, list(_SAMPLES.items()))
            return BrowserCheck(executable, lease.browser.version, seconds, tuple(missing))
    finally:
        await browsers.close()


_SAMPLES = {
    "Latin": "a",
    "Greek": "λ",
    "Cyrillic": "ж",
    "Chinese": "漢",
    "Japanese": "か",
    "Korean": "한",
    "emoji": "🙂",
}

_TARGET_PAGE = """(() => {
  document.body.style.cssText = 'margin:0; background:white; overflow:hidden';
  const square = document.body.appendChild(document.createElement('div'));
  square.style.cssText = 'position:absolute; background:magenta';
  window.landed = null;
  window.place = (x, y, size) => {
    window.landed = null;
    Object.assign(square.style,
      {left: `${x - size / 2}px`, top: `${y - size / 2}px`, width: `${size}px`, height: `${size}px`});
    // Two frames later the target is on the screen: on a busy machine a screenshot may still show the frame before.
    return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())));
  };
  // Only pointer events keep fractions of a pixel.
  addEventListener('pointerdown', (event) => { window.landed = [event.clientX, event.clientY]; });
})()"""

# A glyph that looks like the one for a character nobody has assigned is the box for "missing".
_MISSING_GLYPHS = """(samples) => {
  const draw = (text) => {
    const canvas = Object.assign(document.createElement('canvas'), {width: 40, height: 40});
    const pen = canvas.getContext('2d');
    pen.font = '24px sans-serif';
    pen.fillText(text, 4, 30);
    return canvas.toDataURL();
  };
  const box = draw('\\u{10FFFD}');
  return samples.filter(([, text]) => draw(text) === box).map(([name]) => name);
}"""
