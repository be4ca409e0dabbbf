"""The parts of a page that different processes of the browser draw, each with a protocol session of its own.

The page and the frames in its process answer on the tab's session. Frames of other sites may live in processes of their
own (a visible Chrome does that, the headless shell does not), and are asked on sessions of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from playwright.async_api import CDPSession, Frame
from playwright.async_api import Error as PlaywrightError

from holotron.envs.tab import Tab

WORLD = "holotron"  # where our scripts run: with the page's elements, out of reach of the page's own scripts


class Process:
    """`frame`: what is drawn there; None: the page itself."""

    def __init__(self, tab: Tab, cdp: CDPSession | None = None, frame: Frame | None = None) -> None:
        self.tab = tab
        self.frame = frame
        self._cdp = cdp

    async def send(self, method: str, /, **parameters: Any) -> Any:
        if self._cdp is None:
            return await self.tab.send(method, **parameters)
        return await self.tab.ask(self._cdp, method, **parameters)

    async def world(self, frame: str) -> int:
        """Where scripts of ours run in a frame. It ends with the document that the frame shows now."""
        return int((await self.send("Page.createIsolatedWorld", frameId=frame, worldName=WORLD))["executionContextId"])

    async def root(self) -> Mapping[str, Any]:
        """The frame at the top: its id and the id of what was loaded into it."""
        return dict((await self.send("Page.getFrameTree"))["frameTree"]["frame"])

    async def tree(self) -> list[Mapping[str, Any]]:
        """All frames."""
        found, waiting = [], [(await self.send("Page.getFrameTree"))["frameTree"]]
        while waiting:
            one = waiting.pop()
            found.append(one["frame"])
            waiting += one.get("childFrames", [])
        return found

    async def call(self, target: str, function: str, *arguments: Any, by_value: bool = True) -> Any:
        """Call a function with `this` as the object of that id. Its value, or the id of what it returns."""
        reply = await self.send(
            "Runtime.callFunctionOn",
            objectId=target,
            functionDeclaration=function,
            arguments=[{"value": argument} for argument in arguments],
            returnByValue=by_value,
            objectGroup=WORLD,
        )
        if reply.get("exceptionDetails"):
            return None
        return reply["result"].get("value") if by_value else reply["result"].get("objectId")

    async def resolve(self, node: int, world: int) -> str:
        """The object of a node, in a world."""
        found = await self.send("DOM.resolveNode", backendNodeId=node, executionContextId=world, objectGroup=WORLD)
        return str(found["object"]["objectId"])

    async def forget(self) -> None:
        await self.send("Runtime.releaseObjectGroup", objectGroup=WORLD)


async def apart(tab: Tab) -> list[Process]:
    """The frames of a page that have processes of their own."""
    found = []
    for frame in tab.page.frames[1:]:
        cdp = tab.sessions.get(frame)
        if cdp is None:
            try:
                cdp = tab.sessions[frame] = await tab.page.context.new_cdp_session(frame)
                cdp.on("close", _forgetting(tab, frame))
            except PlaywrightError:  # in the process of the page around it
                continue
        found.append(Process(tab, cdp, frame))
    return found


def _forgetting(tab: Tab, frame: Frame) -> Callable[..., None]:
    def forget(*_: Any) -> None:
        tab.sessions.pop(frame, None)

    return forget
