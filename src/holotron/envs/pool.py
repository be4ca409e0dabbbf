"""A few browsers, many isolated contexts.

    pool = BrowserPool(browsers=4)
    lease = await pool.lease(viewport=..., device_scale_factor=2)
    ... lease.context ...                  # a fresh Playwright context: own cookies, storage, tabs
    await lease.close()
    await pool.close()

Browsers start when first needed and are replaced when they die, open no page or have served `recycle_after` leases.
Contexts are opened a few at a time, because opening many at once starves the ones already working. The blast
radius of a dying browser is its own contexts: their next call raises `EnvironmentFault`, and the next lease
starts a new browser.

Nothing outlives us: Playwright's driver and the browsers hold pipes to this process and exit when those
close, also when this process is killed with SIGKILL.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holotron.envs.chromium import FLAGS, find_chromium
from holotron.envs.isolation import Shelter
from holotron.errors import ConfigError, EnvironmentFault, MissingDependency

try:
    from playwright.async_api import Browser, BrowserContext, Playwright, async_playwright
    from playwright.async_api import Error as PlaywrightError
except ModuleNotFoundError as error:
    raise MissingDependency.extra("playwright", "agent") from error

log = logging.getLogger(__name__)

CLOSE_TIMEOUT = 10.0
OPEN_TIMEOUT = 30.0


class BrowserPool:
    def __init__(
        self,
        *,
        browsers: int = 2,
        contexts_per_browser: int = 50,
        recycle_after: int = 1000,
        headless: bool = True,
        executable: Path | None = None,
        flags: Sequence[str] = (),
        opening_at_once: int = 4,
        attach: str | None = None,
    ) -> None:
        """`attach`: the protocol address of a browser that runs already. Its own first context is leased out, log-ins
        and all, and it is left running."""
        self._attach = attach
        self._headless = headless
        self._executable = executable
        self._flags = [*FLAGS, *flags]
        self._recycle_after = recycle_after
        self._slots = [_Slot() for _ in range(browsers)]
        self._capacity = asyncio.Semaphore(browsers * contexts_per_browser)
        self._opening = asyncio.Semaphore(opening_at_once)
        self._driver: Playwright | None = None
        self._driver_lock = asyncio.Lock()
        self._shelter: Shelter | None = None
        self._retired: set[asyncio.Task[None]] = set()
        self._closed = False

    async def lease(self, **context_options: Any) -> BrowserLease:
        """A fresh context in the least busy browser; waits while every browser is full."""
        await self._capacity.acquire()
        slot = min(self._slots, key=lambda slot: slot.leases)
        slot.leases += 1
        try:
            async with self._opening:
                return await self._open(slot, context_options)
        except BaseException:
            self._give_back(slot)
            raise

    async def _open(self, slot: _Slot, context_options: dict[str, Any]) -> BrowserLease:
        async with bounded("opening a browser context", OPEN_TIMEOUT):
            browser = await self._browser_of(slot)
            if self._attach is not None and browser.contexts:
                return BrowserLease(browser.contexts[0], browser, slot.clipboard, self, slot, owned=False)
            try:
                context = await browser.new_context(**context_options)
            except PlaywrightError:  # the browser has died and we had not noticed: once more, with a new one
                self._retire(slot, browser)
                browser = await self._browser_of(slot)
                context = await browser.new_context(**context_options)
            return BrowserLease(context, browser, slot.clipboard, self, slot)

    async def _browser_of(self, slot: _Slot) -> Browser:
        """The slot's browser, started or replaced if need be, with one more lease on its account."""
        async with slot.lock:
            if self._closed:
                raise EnvironmentFault("The browser pool is closed.")
            if slot.browser is not None and slot.served >= self._recycle_after:
                self._retire(slot, slot.browser)
            if slot.browser is None or not slot.browser.is_connected():
                slot.browser, slot.user = await self._launch()
                slot.served = 0
            slot.served += 1
            return slot.browser

    async def _connect(self, address: str) -> Browser:
        driver = await self._start_driver()
        try:
            return await driver.chromium.connect_over_cdp(address, timeout=OPEN_TIMEOUT * 1000)
        except PlaywrightError as error:
            raise ConfigError(
                f"There is no browser to attach to at {address}: {first_line(error)}. "
                "Start one with --remote-debugging-port=9222."
            ) from None

    async def _launch(self) -> tuple[Browser, int | None]:
        """A browser, and the user that it runs as; None: as ourselves."""
        if self._attach is not None:
            return await self._connect(self._attach), None
        if not self._headless and sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
            raise ConfigError("A visible browser needs a display, and there is none (DISPLAY is not set).")
        shelter = await self._find_shelter()
        driver = await self._start_driver()
        options, user = shelter.options()
        try:
            browser = await driver.chromium.launch(
                headless=self._headless,
                args=self._flags,
                handle_sigint=False,  # Ctrl-C is ours: the rollout finishes its records first
                handle_sigterm=False,
                handle_sighup=False,
                **options,
            )
            return browser, user
        except PlaywrightError as error:
            if not shelter.no_sandbox and "sandbox" in str(error).lower():  # many containers refuse it to everybody
                shelter.refuse_sandbox("this machine forbids what it needs, namespaces of users")
            elif not await _works(driver):
                self._driver = None if self._driver is driver else self._driver
            else:
                raise
            return await self._launch()

    @property
    def shelter(self) -> Shelter:
        """How browsers are kept apart from the machine; known once one was started."""
        if self._shelter is None:
            raise EnvironmentFault("No browser was started yet.")
        return self._shelter

    async def _find_shelter(self) -> Shelter:
        if self._shelter is None:
            executable = self._executable or find_chromium(headless=self._headless)
            self._shelter = await asyncio.to_thread(Shelter, executable, headless=self._headless)
        return self._shelter

    async def _start_driver(self) -> Playwright:
        async with self._driver_lock:
            if self._driver is None:
                try:
                    self._driver = await async_playwright().start()
                except Exception as error:  # it has no error of its own for a driver that dies while it starts
                    raise EnvironmentFault(f"Playwright's driver did not start: {first_line(error)}") from error
            return self._driver

    def _retire(self, slot: _Slot, browser: Browser) -> None:
        """Take a browser out of service; it is closed when its last context is gone."""
        if slot.browser is browser:
            slot.browser = None
            task = asyncio.create_task(_close_when_empty(browser))
            self._retired.add(task)
            task.add_done_callback(self._retired.discard)

    def _give_back(self, slot: _Slot) -> None:
        slot.leases -= 1
        self._capacity.release()

    async def close(self) -> None:
        """Close everything. Never raises."""
        self._closed = True
        for task in self._retired:
            task.cancel()
        for slot in self._slots:
            if slot.browser is not None:
                await quietly(slot.browser.close())
        if self._driver is not None:
            await quietly(self._driver.stop())
            self._driver = None
        if self._shelter is not None:
            self._shelter.close()


@dataclass(slots=True)
class BrowserLease:
    """One context. `close` gives its place in the pool back."""

    context: BrowserContext
    browser: Browser
    clipboard: asyncio.Lock  # a browser has one clipboard for all its contexts; whoever uses it holds this
    _pool: BrowserPool
    _slot: _Slot
    _open: bool = True
    owned: bool = True  # ours alone; False: the context of a browser that was there before us

    @property
    def user(self) -> int | None:
        """The number of the user as whom the browser runs; None: it runs as ourselves."""
        return self._slot.user

    @asynccontextmanager
    async def opening(self, what: str) -> AsyncIterator[None]:
        """For the first page. A browser in which it cannot be opened is replaced: one that has lost its zygotes, say,
        lives on, and every new page in it crashes."""
        try:
            async with bounded(what, OPEN_TIMEOUT):
                yield
        except EnvironmentFault:
            if self.owned:
                self._pool._retire(self._slot, self.browser)
            raise

    @property
    def alive(self) -> bool:
        return self._open and self.browser.is_connected()

    async def close(self) -> None:
        if not self._open:
            return
        self._open = False
        try:
            if self.browser.is_connected() and self.owned:
                await quietly(self.context.close())
        finally:
            self._pool._give_back(self._slot)


class _Slot:
    """One of the pool's browsers, whichever program currently fills it."""

    def __init__(self) -> None:
        self.browser: Browser | None = None
        self.user: int | None = None
        self.served = 0
        self.leases = 0
        self.lock = asyncio.Lock()
        self.clipboard = asyncio.Lock()


@asynccontextmanager
async def bounded(what: str, seconds: float) -> AsyncIterator[None]:
    """Playwright's errors, those of the system (a full disk), and taking too long, become `EnvironmentFault`: the
    browser failed, not the agent."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise EnvironmentFault(f"The browser did not answer in {seconds:g} s while {what}.") from error
    except (PlaywrightError, OSError) as error:
        raise EnvironmentFault(f"The browser failed while {what}: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


async def _works(driver: Playwright) -> bool:
    """Whether Playwright's own process is still there, asked with the smallest thing it can do."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT):
            await (await driver.request.new_context()).dispose()
        return True
    except (PlaywrightError, TimeoutError):
        return False


async def _close_when_empty(browser: Browser) -> None:
    while browser.is_connected() and browser.contexts:
        await asyncio.sleep(1.0)
    await quietly(browser.close())


async def quietly(closing: Any) -> None:
    """Closing something that may be dead already: wait a bounded time, and let nothing but cancellation through."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT):
            await closing
    except (PlaywrightError, TimeoutError) as error:
        log.debug("ignored while closing: %s", first_line(error))
