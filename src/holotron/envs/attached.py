"""Good manners in a browser that somebody else uses too: their tabs are not ours, and it is left as it was found."""

from __future__ import annotations

from collections.abc import Sequence

from playwright.async_api import BrowserContext, Page
from playwright.async_api import Error as PlaywrightError

from holotron.envs.pool import quietly


async def opened_by(page: Page, ours: Sequence[Page]) -> bool:
    """Whether a new tab comes from one of our pages."""
    try:
        return await page.opener() in ours
    except PlaywrightError:
        return False


async def leave(context: BrowserContext, ours: Sequence[Page]) -> None:
    """Close our tabs and take our checks away."""
    await quietly(context.unroute_all())
    for page in ours:
        await quietly(page.close())
