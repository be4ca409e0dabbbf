"""Good manners in a browser that somebody else uses too: their tabs are not ours, and it is left as it was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from playwright.async_api import BrowserContext, Page, Route
from playwright.async_api import Error as PlaywrightError

from holotron.envs.network import Blocked, NetworkPolicy, check_url
from holotron.envs.pool import quietly


async def opened_by(page: Page, ours: Sequence[Page]) -> bool:
    """Whether a new tab comes from one of our pages."""
    try:
        return await page.opener() in ours
    except PlaywrightError:
        return False


async def screen(context: BrowserContext, network: NetworkPolicy, note: Callable[[str], None]) -> None:
    """In somebody else's browser our proxy cannot be put in the way, so requests are looked at one by one. Names are
    not looked up: this is the weaker guard."""

    async def look(route: Route) -> None:
        try:
            if route.request.url.startswith(("http:", "https:")):
                check_url(route.request.url, network)
        except Blocked as blocked:
            note(f"Blocked: {blocked}.")
            await quietly(route.abort())
        else:
            await quietly(route.continue_())

    await context.route("**/*", look)


async def leave(context: BrowserContext, ours: Sequence[Page]) -> None:
    """Close our tabs and take our checks away."""
    await quietly(context.unroute_all())
    for page in ours:
        await quietly(page.close())


class OtherTabs:
    """Which frames are in the tabs of the person whose browser this is: what those send is none of our business. A
    frame that cannot be told is taken for ours, so that it is asked about rather than not."""

    def __init__(self, context: BrowserContext, ours: Callable[[], Sequence[Page]]) -> None:
        self._context = context
        self._ours = ours
        self._theirs: set[str] = set()

    async def is_ours(self, frame: str) -> bool:
        if frame in self._theirs:
            return False
        ours = self._ours()
        for page in self._context.pages:
            if page not in ours and not await opened_by(page, ours):
                self._theirs |= await _frames(page)
        return frame not in self._theirs


async def _frames(page: Page) -> set[str]:
    try:
        cdp = await page.context.new_cdp_session(page)
        tree = (await cdp.send("Page.getFrameTree"))["frameTree"]
        await cdp.detach()
    except PlaywrightError:  # closed meanwhile
        return set()
    return set(_ids(tree))


def _ids(tree: Any) -> list[str]:
    return [tree["frame"]["id"], *(id for child in tree.get("childFrames", ()) for id in _ids(child))]
