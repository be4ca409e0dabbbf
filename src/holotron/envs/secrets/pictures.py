"""Pictures, canvases and films that may show a secret.

A drawing (SVG) is text and is read, whether it is in an address or came from a site. What a script paints is known by
the text that it painted (`assets/drawn.js`); where one painted something that cannot be known, into a page that was
given a secret, it is in doubt. Photographs and other pictures of dots that come from a site are not looked into.
"""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from dataclasses import dataclass
from urllib.parse import unquote

from playwright.async_api import Error as PlaywrightError

from holotron.envs.frames import Process
from holotron.envs.secrets.keeping import Secrets
from holotron.envs.secrets.leaving import views
from holotron.envs.secrets.snapshot import PageSnapshot
from holotron.errors import EnvironmentFault

_DOTS = re.compile(r"data:image/(png|jpe?g|gif|webp|avif|bmp|x-icon|vnd)", re.IGNORECASE)
_WRITES = re.compile(r"<(\w+:)?(text|foreignobject)\b|<!entity", re.IGNORECASE)
_TAGS = re.compile(r"<[^>]*>")
REMEMBERED = 2000  # addresses


@dataclass(slots=True)
class _Drawn:
    """What scripts of a page have painted, as far as is known."""

    secret: bool = False
    unknown: bool = False
    dots: frozenset[str] = frozenset()  # blobs that are pictures of dots


class Pictures:
    """One session's."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._judged: dict[tuple[str, str], bool] = {}  # whether a secret is to be read in it, by document and address

    async def doubtful(self, process: Process, page: PageSnapshot) -> set[tuple[int, int]]:
        """Elements that show a secret or may do so: document, node."""
        blobs = [one for one in page.pictures if one[2].startswith("blob:")]
        dots = [one for one in page.pictures if _DOTS.match(one[2])]
        found: set[tuple[int, int]] = set()
        if page.canvases or page.films or blobs or dots:
            drawn = await self._drawn(process)
            found |= {(document, node) for document, node, url in blobs if url not in drawn.dots}
            if drawn.secret or (drawn.unknown and await self._given(process)):
                found |= {*page.canvases, *page.films}
                found |= {(document, node) for document, node, _ in (*blobs, *dots)}
        vectors = [one for one in page.pictures if one not in blobs and one not in dots]
        return found | await self._readable(process, page, vectors)

    async def _drawn(self, process: Process) -> _Drawn:
        drawn, dots = _Drawn(), set[str]()
        page = process.tab.page
        for frame in page.frames:
            try:
                said = json.loads(await frame.evaluate("window.__holotron_drawn()"))
            except (PlaywrightError, TypeError, ValueError):  # it was not there when the frame began
                drawn.unknown = True
                continue
            drawn.unknown |= said["unknown"]
            drawn.secret |= bool(self._secrets.finder.names(said["texts"]))
            dots.update(said["rasters"])
        drawn.dots = frozenset(dots)
        return drawn

    async def _given(self, process: Process) -> bool:
        """Whether a secret was typed into one of the documents that are here."""
        return any(frame.get("loaderId") in self._secrets.documents for frame in await process.tree())

    async def _readable(
        self, process: Process, page: PageSnapshot, pictures: list[tuple[int, int, str]]
    ) -> set[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        unknown: list[tuple[int, int, str]] = []
        for document, node, url in pictures:
            if url.startswith("data:"):
                found |= {(document, node)} if await self._written(process, _undone(url)) else set()
            elif not url.startswith("#"):
                unknown.append((document, node, url))
        if unknown:
            found |= await self._from_sites(process, page, unknown)
        return found

    async def _written(self, process: Process, text: str) -> bool:
        """Whether a secret is to be read in a drawing, or may be: letters can stand in any order in it."""
        texts = list(views(text)) if "data:" in text else [text]  # drawings in drawings
        if any(map(self._in_text, texts)):
            return True
        return any(map(_WRITES.search, texts)) and await self._given(process)

    async def _from_sites(
        self, process: Process, page: PageSnapshot, pictures: list[tuple[int, int, str]]
    ) -> set[tuple[int, int]]:
        """Drawings that were loaded: once for each document and address."""
        loads = {str(frame["id"]): str(frame.get("loaderId", "")) for frame in await process.tree()}
        kinds: dict[tuple[str, str], str] = {}
        found: set[tuple[int, int]] = set()
        for document, node, url in pictures:
            frame = page.frame(document)
            key = (loads.get(frame, ""), url)
            if key not in self._judged:
                kinds = kinds or await _loaded(process)
                kind = kinds.get((frame, url), "image/svg+xml" if ".svg" in url.lower() else "")
                if not kind:  # not here yet
                    continue
                if len(self._judged) > REMEMBERED:
                    self._judged.clear()
                vector = kind == "image/svg+xml"
                self._judged[key] = vector and self._in_text(await _content(process, frame, url))
            if self._judged[key]:
                found.add((document, node))
        return found

    def _in_text(self, text: str) -> bool:
        finder = self._secrets.finder
        return bool(text) and bool(finder.names(text) or finder.names(html.unescape(_TAGS.sub("", text))))


async def _loaded(process: Process) -> dict[tuple[str, str], str]:
    """What each frame has loaded, and of which kind it is."""
    found: dict[tuple[str, str], str] = {}
    waiting = [(await process.send("Page.getResourceTree"))["frameTree"]]
    while waiting:
        one = waiting.pop()
        for resource in one["resources"]:
            found[one["frame"]["id"], resource["url"]] = resource["mimeType"]
        waiting += one.get("childFrames", [])
    return found


async def _content(process: Process, frame: str, url: str) -> str:
    try:
        loaded = await process.send("Page.getResourceContent", frameId=frame, url=url)
    except EnvironmentFault:  # gone
        process.tab.check_alive()
        return ""
    content = str(loaded["content"])
    return base64.b64decode(content).decode("utf-8", "replace") if loaded["base64Encoded"] else content


def _undone(url: str) -> str:
    """The text of a data: address."""
    head, _, body = url.partition(",")
    text = unquote(body)
    if ";base64" not in head.lower():
        return text
    bare = re.sub(r"[^A-Za-z0-9+/]", "", text.replace("-", "+").replace("_", "/"))
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4)).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return text
