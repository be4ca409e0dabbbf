"""When is a page done reacting? A screenshot taken too early misleads; one taken too late wastes everybody's time.

A page has settled when it has drawn a frame after the action, no transition is running, and whatever it requested has
arrived, with a short silence after it. All within a cap: pages that poll for ever or animate without end do not hold
the agent up.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from playwright.async_api import Page, Request

from holotron.envs.tab import PageCrash, Tab
from holotron.errors import EnvironmentFault

QUIET = 0.15  # seconds without requests that count as silence
PATIENCE = 2.0  # a request that takes longer than this is a poll or a stream, unless it is for a document
CAP = 5.0
ANIMATION_CAP = 0.7
POLL = 0.02
_COUNTED = frozenset({"document", "stylesheet", "script", "image", "font", "xhr", "fetch"})


class Activity:
    """The requests of one page."""

    def __init__(self, page: Page, aside: str = "") -> None:
        """`aside`: how addresses end that are questions of ours, and nothing a page waits for."""
        self._aside = aside
        self._running: dict[Request, float] = {}
        self.last = 0.0  # when something last began or ended
        page.on("request", self._began)
        page.on("requestfinished", self._ended)
        page.on("requestfailed", self._ended)

    def _began(self, request: Request) -> None:
        if request.resource_type in _COUNTED and not (self._aside and request.url.endswith(self._aside)):
            self.last = self._running[request] = time.monotonic()

    def _ended(self, request: Request) -> None:
        if self._running.pop(request, None) is not None:
            self.last = time.monotonic()

    def busy(self) -> bool:
        now = time.monotonic()
        return any(r.resource_type == "document" or now - began < PATIENCE for r, began in self._running.items())


async def settle(tab: Tab, activity: Activity, *, since: float, cap: float = CAP) -> str:
    """Wait until the page has settled after what was done at `since`; returns its title."""
    deadline = time.monotonic() + cap
    title = None
    while time.monotonic() < deadline:
        if activity.busy() or (activity.last > since and time.monotonic() - activity.last < QUIET):
            title = None  # nobody draws for a page that is about to go
        elif title is not None:
            break
        elif (title := await _drawn(tab)) is not None:
            continue
        await asyncio.sleep(POLL)
    return title or ""


async def _drawn(tab: Tab) -> str | None:
    """The page's title, after a frame and the end of transitions that will end soon. None when the page was replaced
    meanwhile, or is still being read: of a new tab, the request may have begun before anyone watched its requests."""
    with contextlib.suppress(EnvironmentFault):  # a page on its way out, or one too busy to answer
        title, loading = await tab.evaluate(_DRAWN, timeout=2.0)
        return None if loading else str(title)
    if tab.crashed:
        raise PageCrash("The page's process died.")
    return None


# A task after a frame's callbacks comes when that frame is done. The screenshot draws one more.
_DRAWN = f"""(async () => {{
  const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
  const drawn = new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const end = performance.now() + {ANIMATION_CAP * 1000};
  const moving = () => document.getAnimations().some((animation) =>
    animation.playState === 'running' && animation.effect?.getComputedTiming().endTime < {ANIMATION_CAP * 1000});
  await Promise.race([drawn, sleep(100)]);
  while (moving() && performance.now() < end) await sleep(30);
  return [document.title, document.readyState === 'loading'];
}})()"""
