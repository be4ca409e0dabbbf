"""What is about to be typed into: passwords and payment data are asked about, in every frame and shadow root.

Looked at after the click that gives a field the focus and before the first key, in the frame that has it. A password
field is one whatever it is called: by its type, by dots in place of letters. Card numbers and IBANs are recognised by
their own check digits, in any field.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from playwright.async_api import CDPSession, Frame, Page
from playwright.async_api import Error as PlaywrightError

_FOCUS = (files("holotron.envs") / "assets" / "focus.js").read_text()
DEEPEST = 12  # frames in frames


@dataclass(frozen=True, slots=True)
class Focus:
    """The field that gets the keys."""

    url: str  # of the frame it is in
    kind: str = ""  # "a password", "payment data", or nothing to ask about
    search: bool = False  # what is typed here is a search


async def focused(page: Page) -> Focus:
    frame, place = page.main_frame, ""
    try:
        for _ in range(DEEPEST):
            place = _address(frame, place)
            handle = await frame.evaluate_handle(_FOCUS)
            try:
                child = await (await handle.get_property("frame")).as_element().content_frame()  # type: ignore[union-attr]
            except AttributeError:  # no frame has the focus: this is the place
                seen = await frame.evaluate("({kind, search, sealed}) => ({kind, search, sealed})", handle)
                kind = seen["kind"] or (await _sealed(page, frame) if seen["sealed"] else "")
                return Focus(place, kind, seen["search"])
            finally:
                await handle.dispose()
            if child is None:
                return Focus(place)
            frame = child
    except PlaywrightError:  # the page is on its way out
        pass
    return Focus(place)


def _address(frame: Frame, parent: str) -> str:
    """Frames without an address of their own belong to the page around them."""
    return frame.url if frame.url.startswith(("http:", "https:")) else parent


async def _sealed(page: Page, frame: Frame) -> str:
    """Closed shadow roots, into which no script can look, but the protocol can."""
    try:
        cdp = await page.context.new_cdp_session(frame if frame is not page.main_frame else page)
    except PlaywrightError:  # a frame in the same process as the page around it
        cdp = await page.context.new_cdp_session(page)
    try:
        root = (await cdp.send("DOM.getDocument", {"depth": -1, "pierce": True}))["root"]
        for node in _inputs(root):
            if await _has_focus(cdp, node["backendNodeId"]):
                attributes = dict(zip(node["attributes"][::2], node["attributes"][1::2], strict=False))
                return "a password" if attributes.get("type", "").lower() == "password" else ""
    finally:
        await cdp.detach()
    return ""


def _inputs(node: Any) -> list[Any]:
    found, waiting = [], [node]
    while waiting:
        one = waiting.pop()
        if one.get("localName") == "input":
            found.append(one)
        waiting += one.get("children", []) + one.get("shadowRoots", [])
        waiting += [one["contentDocument"]] if "contentDocument" in one else []
    return found


async def _has_focus(cdp: CDPSession, node: int) -> bool:
    resolved = await cdp.send("DOM.resolveNode", {"backendNodeId": node})
    call = {
        "objectId": resolved["object"]["objectId"],
        "functionDeclaration": "function() { return this.matches(':focus') }",
    }
    return bool((await cdp.send("Runtime.callFunctionOn", {**call, "returnByValue": True}))["result"].get("value"))
