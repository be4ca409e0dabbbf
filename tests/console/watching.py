"""For tests of the live page: a real Chromium that looks at it, as a person would, and complains about what a person
would not see (script errors, requests to elsewhere)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from axe_playwright_python.base import AXE_FILE_PATH
from playwright.async_api import Browser, Page, Playwright, async_playwright

from holotron.envs.chromium import find_chromium

PHONE = (390, 844)
_AXE = Path(AXE_FILE_PATH).read_text()


class Viewer:
    """One browser for all tests of a module; `run` runs a test's coroutine on the loop that it lives in."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._driver, self._browser = self._runner.run(self._start())

    async def _start(self) -> tuple[Playwright, Browser]:
        driver = await async_playwright().start()
        return driver, await driver.chromium.launch(executable_path=find_chromium())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)

    def close(self) -> None:
        self._runner.run(self._browser.close())
        self._runner.run(self._driver.stop())
        self._runner.close()

    @asynccontextmanager
    async def looking_at(
        self, url: str, *, size: tuple[int, int] = (1300, 900), scheme: str = "light", touch: bool = False
    ) -> AsyncIterator[Page]:
        context = await self._browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, has_touch=touch,  # type: ignore[arg-type]
            reduced_motion="reduce",
        )  # fmt: skip
        page = await context.new_page()
        page.set_default_timeout(15_000)
        problems: list[str] = []
        elsewhere: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: problems.append(line.text) if "net::ERR" not in line.text else None)
        page.on("request", lambda request: None if request.url.startswith(url) else elsewhere.append(request.url))
        await page.goto(url)
        try:
            yield page
            assert (problems, elsewhere) == ([], [])
        finally:
            await context.close()


class Wire:
    """Between the page and its server: a connection that can be cut, and mended."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._ends: set[asyncio.StreamWriter] = set()
        self._whole = True

    async def __aenter__(self) -> Wire:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self.cut()
        self._server.close()

    def instead_of(self, url: str) -> str:
        return url.replace(f":{self._to}/", f":{self.port}/")

    def cut(self) -> None:
        self._whole = False
        for end in self._ends:
            end.transport.abort()

    def mend(self) -> None:
        self._whole = True

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._whole:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        ends = {writer, back}
        self._ends |= ends
        try:
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        finally:
            self._ends -= ends
            for end in ends:
                end.close()

    async def _pump(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                to.write(data)
                await to.drain()
        to.close()


async def serious(page: Page) -> list[str]:
    """What axe-core finds that is serious or critical."""
    await page.evaluate(_AXE)
    found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:150]} ({one['nodes'][0]['failureSummary'][:200]})"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


async def until(true: Callable[[], Any], seconds: float = 15.0) -> Any:
    """Wait for something that happens outside the page."""
    async with asyncio.timeout(seconds):
        while not (value := true()):
            await asyncio.sleep(0.02)
        return value


async def until_true(page: Page, expression: str, seconds: float = 15.0) -> None:
    """Wait for something in the page; its content policy does not let Playwright's own way of waiting evaluate text."""
    async with asyncio.timeout(seconds):
        while not await page.evaluate(expression):
            await asyncio.sleep(0.05)


async def too_wide(page: Page) -> list[str]:
    """What sticks out of the window at its right side."""
    return await page.evaluate(
        """() => [...document.querySelectorAll('body *')].filter((node) => {
             if (node.closest('#film, svg, .unseen') || !node.getClientRects().length) return false;
             return node.getBoundingClientRect().right > innerWidth + 1;
           }).map((node) => node.id || node.className || node.tagName)"""
    )
