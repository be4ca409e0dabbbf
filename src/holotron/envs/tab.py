"""One page and the hands that work on it.

A `Tab` is a Playwright page plus a protocol (CDP) session of its own. Screenshots, mouse and script
evaluation go through that session directly: half the cost of the page-level calls. Keyboard and drags go
through Playwright, which knows key layouts and drag-and-drop.

Three traps are handled here once. A protocol session renders screenshots at scale 1 unless it sets the device
metrics itself. A screenshot's `clip` is in document coordinates, not in those of the viewport. And where metrics are
emulated, a screenshot changes the page's scale for a moment: on a busy machine a click that follows at once would
arrive at a fraction of its place, so the first input after a screenshot waits for two frames.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

from playwright.async_api import CDPSession, Frame, Page
from playwright.async_api import Error as PlaywrightError

from holotron.envs.patience import Patience
from holotron.envs.pool import first_line
from holotron.errors import EnvironmentFault

Button = Literal["left", "right", "middle"]

ANSWER_TIMEOUT = 15.0  # seconds for the browser to answer one call
INPUT_TIMEOUT = 20.0  # seconds for a page to take a drag or typing
TYPED = 400  # characters typed key by key; longer texts are inserted at once, which costs the browser far less
SCROLL_POLL, SCROLL_POLLS = 0.015, 16  # seconds, times
# For a moment a tab that goes to another site has neither the old page nor the new one to show; the words for it.
_BETWEEN_PAGES = ("Not attached to an active page", "Unable to capture screenshot")
BETWEEN_PAGES_POLL = 0.02  # seconds


class PageCrash(EnvironmentFault):
    """The page's process died. The context around it may still be good."""


class PageHang(EnvironmentFault):
    """The page stopped answering."""


@dataclass(frozen=True, slots=True)
class Display:
    """What the page is drawn on, and how a screenshot of it is encoded."""

    width: int = 1280  # CSS pixels
    height: int = 720
    scale: float = 1.0  # device pixels per CSS pixel
    format: Literal["jpeg", "png"] = "jpeg"
    jpeg_quality: int = 85

    @property
    def mime(self) -> str:
        return f"image/{self.format}"


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle in CSS pixels."""

    x: float
    y: float
    width: float
    height: float


@dataclass(slots=True)
class Clipboard:
    """What one session has copied. `lock` guards the browser's clipboard, which its other sessions use as well."""

    lock: asyncio.Lock
    text: str = ""


class Tab:
    def __init__(
        self, page: Page, cdp: CDPSession, display: Display, clipboard: Clipboard, patience: Patience | None = None
    ) -> None:
        self.page = page
        self.display = display
        self._cdp = cdp
        self._clipboard = clipboard
        self.crashed = False
        self.typed = TYPED
        self._emulated = False
        self._rescaled = False  # by a screenshot, and perhaps not back yet
        self._patience = patience or Patience()
        self.before_keys: Callable[[str], Awaitable[None]] | None = None  # may refuse what is about to be typed
        self.instead_of_paste: Callable[[str], Awaitable[bool]] | None = None  # may refuse it, or have done it itself
        self.sessions: dict[Frame, CDPSession] = {}  # with frames that have processes of their own
        self._waiting: set[asyncio.Timeout] = set()
        page.on("crash", self._on_crash)

    @classmethod
    async def open(
        cls,
        page: Page,
        display: Display,
        clipboard: Clipboard,
        *,
        native: bool = False,
        patience: Patience | None = None,
    ) -> Tab:
        """`native`: the browser's windows have been started in the display's size. Then a screenshot is a copy of what
        is drawn anyway, a third cheaper than with emulated metrics; where the size is not right, it is emulated."""
        tab = cls(page, await page.context.new_cdp_session(page), display, clipboard, patience)
        size = f"{display.width},{display.height},{display.scale:g}"
        if not native or await tab.evaluate("[innerWidth, innerHeight, devicePixelRatio].join()") != size:
            await tab._emulate()
        return tab

    async def resize(self, display: Display) -> None:
        """Be drawn on another display."""
        if display != self.display:
            self.display = display
            await self.page.set_viewport_size({"width": display.width, "height": display.height})
            await self._emulate()

    async def _emulate(self) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=self.display.width,
            height=self.display.height,
            deviceScaleFactor=self.display.scale,
            mobile=False,
        )
        self._emulated = True

    def _on_crash(self, _: Page) -> None:
        """Calls that a dead page was asked would never be answered: end them now."""
        self.crashed = True
        for waiting in self._waiting:
            if not waiting.expired():
                waiting.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def _calling(self, what: str, timeout: float) -> AsyncIterator[None]:
        """Bounds a call to the browser, and sorts its failures into crash, hang and loss of the browser."""
        try:
            async with self._patience.limit(timeout) as waiting:
                self._waiting.add(waiting)
                try:
                    yield
                finally:
                    self._waiting.discard(waiting)
        except (TimeoutError, PlaywrightError) as error:
            if self.crashed or "crash" in str(error).lower():
                raise PageCrash(f"The page's process died during {what}.") from error
            if isinstance(error, TimeoutError):
                raise PageHang(f"The page did not answer within {timeout:g} s: {what}.") from error
            if "Unknown key" in str(error):
                raise ValueError(first_line(error)) from error
            raise EnvironmentFault(f"{what} failed: {first_line(error)}") from error

    def check_alive(self) -> None:
        if self.crashed:
            raise PageCrash("The page's process died.")

    # ------------------------------------------------------------------------------------------- the protocol

    async def send(self, method: str, /, *, timeout: float | None = None, **parameters: Any) -> Any:
        """One protocol call."""
        return await self.ask(self._cdp, method, timeout=timeout, **parameters)

    async def ask(self, cdp: CDPSession, method: str, /, *, timeout: float | None = None, **parameters: Any) -> Any:
        """The same to another part of the page, with a protocol session of its own."""
        async with self._calling(method, timeout or ANSWER_TIMEOUT):
            return await cdp.send(method, parameters)

    async def on_event(self, domain: str, name: str, callback: Callable[[Any], None]) -> None:
        """Call back at each of a protocol domain's events of that name."""
        self._cdp.on(f"{domain}.{name}", callback)
        await self.send(f"{domain}.enable")

    async def evaluate(self, expression: str, *, timeout: float | None = None) -> Any:
        """The value of a JavaScript expression (promises are awaited). Large results: return one JSON string."""
        reply = await self.send(
            "Runtime.evaluate",
            timeout=timeout,
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
        )
        if failure := reply.get("exceptionDetails"):
            what = failure.get("exception", {}).get("description") or failure.get("text", "")
            raise EnvironmentFault(f"A script failed in the page: {what.splitlines()[0] if what else expression}")
        return reply["result"].get("value")

    async def screenshot(
        self, clip: Area | None = None, *, timeout: float | None = None, format: Literal["jpeg", "png"] | None = None
    ) -> bytes:
        """The viewport (or `clip`, in document coordinates) in device pixels, encoded as the display says, or as asked
        for."""
        parameters: dict[str, Any] = {"format": format or self.display.format}
        if parameters["format"] == "jpeg":
            parameters["quality"] = self.display.jpeg_quality
        else:
            parameters["optimizeForSpeed"] = True
        if clip is not None:
            parameters["clip"] = {
                "x": clip.x,
                "y": clip.y,
                "width": clip.width,
                "height": clip.height,
                "scale": 1,
            }
        async with self._calling("Page.captureScreenshot", timeout or ANSWER_TIMEOUT):
            while True:
                try:
                    reply = await self._cdp.send("Page.captureScreenshot", parameters)
                except PlaywrightError as error:
                    if not any(words in str(error) for words in _BETWEEN_PAGES):
                        raise
                    await asyncio.sleep(BETWEEN_PAGES_POLL)
                else:
                    self._rescaled = self._emulated and self.display.scale != 1
                    return base64.b64decode(reply["data"])

    # ---------------------------------------------------------------------------------------------- the hands

    async def _steady(self) -> None:
        """Wait until the page has its scale back."""
        if self._rescaled:
            await self.evaluate(_TWO_FRAMES)
            self._rescaled = False

    async def move(self, x: float, y: float) -> None:
        await self._steady()
        await self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    async def click(self, x: float, y: float, *, button: Button = "left", count: int = 1) -> None:
        """Move there, press and release. The events are sent in one go; the browser keeps their order."""
        await self._steady()
        events: list[dict[str, Any]] = [{"type": "mouseMoved"}]
        for nth in range(1, count + 1):
            pressed = {"button": button, "clickCount": nth}
            events += [{"type": "mousePressed", "buttons": _BUTTONS[button], **pressed}]
            events += [{"type": "mouseReleased", "buttons": 0, **pressed}]
        await asyncio.gather(*(self.send("Input.dispatchMouseEvent", x=x, y=y, **event) for event in events))

    async def wheel(self, x: float, y: float, dx: float, dy: float) -> None:
        """Turn the wheel and wait until what is under the pointer has moved; the browser scrolls a little later."""
        await self._steady()
        positions = f"({_SCROLL_POSITIONS})({x}, {y})"
        before = last = await self.evaluate(positions)
        await self.send("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=dx, deltaY=dy)
        for _ in range(SCROLL_POLLS):  # all of them only where nothing can scroll, or in another site's frame
            await asyncio.sleep(SCROLL_POLL)
            now = await self.evaluate(positions)
            if now != before and now == last:
                return
            last = now

    async def drag(self, x1: float, y1: float, x2: float, y2: float, *, moves: int = 8) -> None:
        """Press, travel in several moves (pages ignore jumps), release; HTML5 drag-and-drop works too."""
        await self._steady()
        mouse = self.page.mouse
        async with self._calling("dragging", INPUT_TIMEOUT):
            await mouse.move(x1, y1)
            await mouse.down()
            await mouse.move(x2, y2, steps=moves)
            await mouse.up()

    async def press(self, *keys: str) -> None:
        held: set[str] = set()
        for key in keys:
            letter = " " if key == "Space" else key
            if self.before_keys is not None and len(letter) == 1 and not held & _SHORTCUTS:
                await self.before_keys(letter)
            held.add(key)
        # What copies must not come between another session's placing its text and pasting it.
        async with self._clipboard.lock if held & _SHORTCUTS else contextlib.nullcontext():
            await self._press(keys)

    async def _press(self, keys: tuple[str, ...]) -> None:
        async with self._calling("pressing keys", INPUT_TIMEOUT):
            await self.page.keyboard.press("+".join(keys))

    async def type(self, text: str) -> None:
        """Key by key, as pages that listen to keys expect; long texts in one go."""
        if self.before_keys is not None and text:
            await self.before_keys(text)
        async with self._calling("typing", INPUT_TIMEOUT):
            if len(text) <= self.typed:
                await self.page.keyboard.type(text)
            else:
                await self.page.keyboard.insert_text(text)

    async def paste(self, *keys: str) -> None:
        """Press the keys of a paste with this session's text in the browser's clipboard. Where that cannot be placed
        there (from a password field, or because a page stands in the way), what another session has copied may be in
        it: then the text is inserted."""
        if self.instead_of_paste is not None and await self.instead_of_paste(self._clipboard.text):
            return
        if self.before_keys is not None and self._clipboard.text:
            await self.before_keys(self._clipboard.text)
        async with self._clipboard.lock:
            place = f"__holotron_place({json.dumps(self._clipboard.text)})"
            reply = await self.send("Runtime.evaluate", expression=place, userGesture=True, returnByValue=True)
            if reply["result"].get("value") is True:
                await self._press(keys)
                return
        async with self._calling("pasting", INPUT_TIMEOUT):
            await self.page.keyboard.insert_text(self._clipboard.text)


# A page that draws nothing, a hidden one, is not waited for.
_TWO_FRAMES = """new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(() => done()));
  setTimeout(done, 300);
})"""

# How far everything around a point is scrolled.
_SCROLL_POSITIONS = """(x, y) => {
  const found = [window.scrollX, window.scrollY];
  for (let e = document.elementFromPoint(x, y); e; e = e.parentElement ?? e.getRootNode().host)
    found.push(e.scrollLeft, e.scrollTop);
  return found.join();
}"""

_SHORTCUTS = frozenset({"Alt", "Control", "Meta"})  # held with these, keys write nothing
_BUTTONS = {"left": 1, "right": 2, "middle": 4}
