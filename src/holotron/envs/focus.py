"""Which field gets the keys: looked for in the browser itself, through frames and shadow roots, also closed ones.

Scripts of ours look in a world of their own, so a page cannot show them another element than the one that has the
focus. Looked at after the click that gives a field the focus, and before the first key.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from holotron.envs.frames import Process, apart
from holotron.envs.tab import Tab
from holotron.errors import EnvironmentFault

_FIELD = (files(__package__) / "assets" / "field.js").read_text()
DEEPEST = 12  # frames in frames, and shadow roots in shadow roots
_FRAMES = ("iframe", "frame", "object", "embed", "fencedframe")
_SELECTED = """(() => {
  const chosen = (root) => {
    const field = root.activeElement;
    if (field?.shadowRoot) return chosen(field.shadowRoot);
    return typeof field?.selectionStart === 'number' ? field.value.slice(field.selectionStart, field.selectionEnd) : '';
  };
  return String(getSelection()) + chosen(document);
})()"""


@dataclass(frozen=True, slots=True)
class Focus:
    """What has the focus, and the place it is in."""

    url: str  # of the frame; frames without an address of their own have that of the page around them
    origin: str = ""  # of the frame's document, as the browser keeps it apart from others; "null" belongs to nobody
    kind: str = ""  # "password", "payment", or another
    search: bool = False  # what is typed here is a search
    text: bool = False  # it takes text
    process: Process | None = None
    element: str = ""
    loaded: str = ""  # the id of the document


async def focused(tab: Tab) -> Focus:
    process = Process(tab)
    place = tab.page.url
    try:
        root = await process.root()
        frame, loaded = str(root["id"]), str(root.get("loaderId", ""))
        for _ in range(DEEPEST):
            world = await process.world(frame)
            element = await _active(process, world)
            node = (await process.send("DOM.describeNode", objectId=element))["node"] if element else {}
            if node.get("localName") not in _FRAMES or "frameId" not in node:
                return await _described(process, world, element, place, loaded)
            process, frame = await _inside(process, node["frameId"])
            loaded = next((str(one["loaderId"]) for one in await process.tree() if one["id"] == frame), "")
            world = await process.world(frame)
            address = await _evaluated(process, world, "location.href")
            place = address if address.startswith(("http:", "https:")) else place
    except EnvironmentFault:  # the page is on its way out
        if tab.crashed:
            raise
    return Focus(place)


async def field_at(tab: Tab, x: float, y: float) -> Focus:
    """What lies at a point of the viewport, as if it had the focus."""
    process = Process(tab)
    try:
        found = await process.send("DOM.getNodeForLocation", x=round(x), y=round(y))
        world = await process.world(str(found["frameId"]))
        element = await process.resolve(found["backendNodeId"], world)
        return await _described(process, world, element, await _evaluated(process, world, "location.href"), "")
    except EnvironmentFault:  # nothing lies there
        if tab.crashed:
            raise
    return Focus(tab.page.url)


async def selected(tab: Tab) -> str:
    """The text that is selected, in any frame: what a drag takes along."""
    found = []
    for process in (Process(tab), *await apart(tab)):
        for frame in await process.tree():
            found.append(await _evaluated(process, await process.world(str(frame["id"])), _SELECTED))
    return "\n".join(filter(None, found))


async def _inside(process: Process, frame: str) -> tuple[Process, str]:
    """Who draws a frame."""
    if any(one["id"] == frame for one in await process.tree()):
        return process, frame
    for other in await apart(process.tab):
        if (await other.root())["id"] == frame:
            return other, frame
    return process, frame


async def _active(process: Process, world: int) -> str:
    """The element with the focus in a document, through its shadow roots."""
    reply = await process.send(
        "Runtime.evaluate", expression="document.activeElement", contextId=world, objectGroup="holotron"
    )
    element = str(reply["result"].get("objectId", ""))
    for _ in range(DEEPEST if element else 0):
        node = (await process.send("DOM.describeNode", objectId=element))["node"]
        roots = [root for root in node.get("shadowRoots", ()) if root["shadowRootType"] != "user-agent"]
        if not roots:
            break
        root = await process.resolve(roots[0]["backendNodeId"], world)
        inner = await process.call(root, "function () { return this.activeElement }", by_value=False)
        if not inner:
            break
        element = inner
    return element


async def _described(process: Process, world: int, element: str, place: str, loaded: str) -> Focus:
    origin = await _evaluated(process, world, "self.origin")
    said = await process.call(element, f"function () {{ return ({_FIELD})(this) }}") if element else None
    if not said:
        return Focus(place, origin, process=process, loaded=loaded)
    return Focus(place, origin, said["kind"], said["search"], said["text"], process, element, loaded)


async def _evaluated(process: Process, world: int, expression: str) -> str:
    reply = await process.send("Runtime.evaluate", expression=expression, contextId=world, returnByValue=True)
    return str(reply["result"].get("value", ""))
