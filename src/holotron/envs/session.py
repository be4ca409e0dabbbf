"""One agent's browser: a context with its tabs, and everything a page can do to get in the way.

Dialogs are answered, new tabs followed, file choosers cancelled, downloads refused or stored, crashed and hanging pages
replaced. None of it is silent: each leaves a sentence in the notes, which the next observation carries to the agent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from playwright.async_api import Dialog, Download, FileChooser, Page, Response
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeout

from holotron.addresses import split_login
from holotron.envs.arrival import STILL_LOADING, Arrival, why_no_page
from holotron.envs.attached import OtherTabs, leave, opened_by, screen
from holotron.envs.dialogs import answer_dialog
from holotron.envs.downloads import Downloads
from holotron.envs.effects.gate import Gate
from holotron.envs.effects.sockets import ASIDE
from holotron.envs.effects.watching import adopt, open_gate
from holotron.envs.hands import ActionRefused
from holotron.envs.network import Blocked, Guard, check_url
from holotron.envs.options import SessionOptions as SessionOptions
from holotron.envs.patience import Patience
from holotron.envs.pool import OPEN_TIMEOUT, BrowserLease, BrowserPool, bounded, first_line, quietly
from holotron.envs.preparing import prepare
from holotron.envs.profile import save_state, saved_state
from holotron.envs.secrets.screen import Screen
from holotron.envs.secrets.typing import guard_paste
from holotron.envs.settle import CAP, Activity, settle
from holotron.envs.tab import Clipboard, PageCrash, Tab
from holotron.errors import EnvironmentFault

log = logging.getLogger(__name__)

MOST_TABS = 20
MOST_RENEWALS = 40  # of one context, then a new one: what a browser piles up behind a page is gone with its context
NAVIGATION_TIMEOUT = 15.0  # seconds
NEW_TAB_TIMEOUT = 5.0
LOAD_CAP = 10.0  # seconds to wait for a new page to settle


@dataclass(slots=True, eq=False)
class _Open:
    """An open tab with what the session knows about it."""

    tab: Tab
    activity: Activity
    title: str = ""


class Session:
    def __init__(self, lease: BrowserLease, guard: Guard, options: SessionOptions) -> None:
        self._lease = lease
        self._guard = guard
        self._options = options
        self.secrets = options.keep_secrets()
        self.screen = Screen(self.secrets)
        self.patience = Patience()
        self.gate = Gate(options.rules, self.patience, self.secrets) if options.held else None
        self._clipboard = Clipboard(lease.clipboard)
        self._open: list[_Open] = []
        self._active = 0
        self._notes: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._downloads = Downloads(options.downloads, self.note, self.gate)
        self._arrived: list[Page] | None = None  # pages that came while we were opening one ourselves
        self._announced = 0  # tabs that pages have asked for and that are not there yet
        self._renewals = 0

    @classmethod
    async def open(cls, browsers: BrowserPool, options: SessionOptions) -> Session:
        guard = await Guard(options.network).start()
        try:
            lease = await browsers.lease(
                viewport={"width": options.display.width, "height": options.display.height},
                device_scale_factor=options.display.scale,
                locale=options.locale,
                timezone_id=options.timezone,
                user_agent=options.user_agent,
                extra_http_headers=dict(options.headers),
                accept_downloads=options.downloads is not None,
                service_workers="block",
                proxy=guard.proxy,
                storage_state=saved_state(options.profile),
                http_credentials=None if options.login is None else options.login.credentials,
            )
        except BaseException:
            await guard.close()
            raise
        session = cls(lease, guard, options)
        if session.gate is not None:
            guard.refuses = session.gate.why_not_looked_up
        try:
            async with lease.opening("opening a session"):
                if not lease.owned:
                    await screen(lease.context, options.network, session.note)
                await prepare(lease.context, session._clipboard, session.note, secrets=session.secrets)
                if session.gate is not None:
                    session.gate.page = session._address
                    if not lease.owned:
                        session.gate.ours = OtherTabs(lease.context, session._pages).is_ours
                    await open_gate(session.gate, lease.browser, lease.context)
                lease.context.on("page", session._on_page)
                lease.context.on("dialog", session._on_dialog)
                await session._add_tab()
                if options.downloads is not None:
                    await session._downloads.open(lease, session.tab, session._spawn)
        except BaseException:
            await session.close()
            raise
        return session

    async def renew(self, options: SessionOptions) -> bool:
        """Go on in the same context as if it were new: one empty tab, no cookies, no storage of the page in front, no
        history, the pointer nowhere. Only for pages of one's own that keep nothing anywhere else. False, and nothing
        done, where the options differ in more than size, network and headers, or where the context has had its time."""
        kept = self._options
        display = options.display
        size = replace(kept.display, width=display.width, height=display.height, scale=display.scale)
        same = replace(kept, display=size, network=options.network, headers=options.headers) == options
        good = self._lease.alive and self._open and not any(entry.tab.crashed for entry in self._open)
        if not (same and good) or self._renewals >= MOST_RENEWALS:
            return False
        self._renewals += 1
        for task in self._tasks:
            task.cancel()
        if self.gate is not None:
            self.gate.close()  # what the pages of before still want to send
        async with bounded("renewing a session", OPEN_TIMEOUT):
            tab, context = self.tab, self._lease.context
            for page in context.pages:
                if page is not tab.page:
                    await page.close()
            self._options = options
            await tab.evaluate("try { sessionStorage.clear(); localStorage.clear() } catch {}")
            await tab.move(-1, -1)  # or what lies under it would look hovered
            await tab.page.goto("about:blank")
            await context.clear_cookies()
            await context.set_extra_http_headers(dict(options.headers))
            self._guard.policy = options.network
            await tab.resize(options.display)
        self.secrets = options.keep_secrets()
        self.screen = Screen(self.secrets)
        if self.gate is not None:
            self.gate.forget()
            self.gate.secrets = self.secrets
        self._downloads.forget()
        self._clipboard.text, self._announced = "", 0
        self.take_notes()
        return True

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self.gate is not None:
            self.gate.close()
        if self._lease.alive:
            if self._options.profile is not None:
                await save_state(self._lease.context, self._options.profile)
            if not self._lease.owned:  # somebody else's browser: leave it as it was found
                await leave(self._lease.context, self._pages())
        await self._lease.close()
        if self.gate is not None:
            await quietly(self.gate.detach())
        self._downloads.close()
        await self._guard.close()

    # --------------------------------------------------------------------------------------------------- what there is

    @property
    def tab(self) -> Tab:
        """The tab in front."""
        if not self._open:
            raise EnvironmentFault("The browser is gone." if not self._lease.alive else "The session has no tab.")
        return self._open[self._active].tab

    @property
    def titles(self) -> tuple[str, ...]:
        return tuple(entry.title or split_login(entry.tab.page.url)[0] for entry in self._open)

    @property
    def active(self) -> int:
        return self._active

    def _pages(self) -> list[Page]:
        return [entry.tab.page for entry in self._open]

    def _address(self) -> str:
        return self._open[self._active].tab.page.url if self._open else ""

    def note(self, text: str) -> None:
        if text and text not in self._notes:
            self._notes.append(text)

    def take_notes(self) -> str:
        for blocked in self._guard.take_blocked():
            self.note(f"Blocked: {blocked}.")
        taken, self._notes = self._notes, []
        return " ".join(taken)

    async def settle(self, since: float, cap: float = CAP) -> None:
        """Wait until the page in front has come to rest, and until the tabs it has asked for are there; a while for its
        downloads, too."""
        late = False
        while True:
            if not self._open and self._lease.alive:
                self.note("The last tab was closed; a new one was opened.")
                await self._add_tab()
            tab = self.tab
            front = self._open[self._active]
            front.title = await settle(tab, front.activity, since=since, cap=cap)
            if self.gate is not None and await self.gate.answered():
                since = time.monotonic()  # what was held goes on now
                continue
            waiting = self._announced or (self._tasks and not late)
            if not waiting and self._open[self._active : self._active + 1] == [front]:
                return  # and no other tab has come to the front meanwhile
            deadline = time.monotonic() + NEW_TAB_TIMEOUT
            while (self._announced or self._tasks) and time.monotonic() < deadline:
                await asyncio.sleep(0.02)
            self._announced, late = 0, True

    # ------------------------------------------------------------------------------------------------ going somewhere

    async def goto(self, url: str) -> Arrival:
        try:
            url = check_url(url, self._options.network)
        except Blocked as blocked:
            raise ActionRefused(f"Not opened: {blocked}.") from None
        blank = self.tab.page.url == "about:blank"
        why, landed = await self._navigate(f"{url} could not be opened", lambda page: page.goto(url, **self._loading))
        if blank:  # the empty page before the first one is nothing to go back to
            await self.tab.send("Page.resetNavigationHistory")
        arrival = Arrival.of(url, landed, why, self._guard)
        self.note(arrival.note)
        return arrival

    @property
    def _loading(self) -> dict[str, Any]:
        """How long Playwright waits for a page; where a person may be asked meanwhile, the limit is ours."""
        limit = NAVIGATION_TIMEOUT * 1000 if self.gate is None else 0
        return {"wait_until": "domcontentloaded", "timeout": limit}

    async def back(self) -> None:
        async def go_back(page: Page) -> Response | None:
            before = page.url
            if (answer := await page.go_back(**self._loading)) is None and page.url == before:
                raise ActionRefused("There is no page to go back to.")
            return answer

        await self._navigate("Going back failed", go_back)

    async def refresh(self) -> None:
        await self._navigate("Reloading failed", lambda page: page.reload(**self._loading))

    async def _navigate(self, failure: str, go: Callable[[Page], Awaitable[Response | None]]) -> tuple[str, str]:
        """Why the browser shows no page, if it shows none; and which address has answered."""
        since, why, landed = time.monotonic(), "", ""
        try:
            async with self.patience.limit(None if self.gate is None else NAVIGATION_TIMEOUT):
                answer = await go(self.tab.page)
                landed = answer.url if answer is not None else ""
        except (PlaywrightTimeout, TimeoutError):
            self.note(STILL_LOADING)
        except PlaywrightError as error:
            if not self._lease.alive:
                raise EnvironmentFault("The browser is gone.") from error
            if self.tab.crashed:
                raise PageCrash("The page's process died while it was loading.") from error
            if why := why_no_page(error):
                self.note(f"{failure}: {why}.")
        await self.settle(since, LOAD_CAP)
        return why, landed

    # ------------------------------------------------------------------------------------------------------------ tabs

    async def new_tab(self, url: str = "") -> None:
        if len(self._open) >= MOST_TABS:
            raise ActionRefused(f"There are {len(self._open)} tabs already; close one first.")
        if url:
            try:
                check_url(url, self._options.network)
            except Blocked as blocked:
                raise ActionRefused(f"Not opened: {blocked}.") from None
        await self._add_tab()
        if url:
            await self.goto(url)

    async def switch_tab(self, index: int) -> None:
        if not 0 <= index < len(self._open):
            raise ActionRefused(f"There is no tab {index}; tabs are 0 to {len(self._open) - 1}.")
        self._active = index
        await self._to_front()

    async def close_tab(self) -> None:
        if len(self._open) == 1:
            raise ActionRefused("This is the only tab.")
        page = self.tab.page
        self._forget(page)
        await quietly(page.close())
        await self._to_front()

    async def replace_tab(self) -> None:
        """A new page in place of one that crashed or hangs, at the same address."""
        broken = self._open[self._active]
        url = broken.tab.page.url
        async with bounded("replacing a broken page", OPEN_TIMEOUT):
            await self._add_tab()
            self._open.remove(broken)
            self._active = len(self._open) - 1
            await quietly(broken.tab.page.close())
        if url.startswith(("http:", "https:")):
            await self.goto(url)

    async def _to_front(self) -> None:
        async with bounded("switching tabs", OPEN_TIMEOUT):
            await self.tab.page.bring_to_front()

    async def _add_tab(self) -> None:
        async with bounded("opening a tab", OPEN_TIMEOUT):
            arrived = self._arrived = []
            try:
                page = await self._lease.context.new_page()
            finally:
                self._arrived = None
            await self._adopt(page)
            for other in (one for one in arrived if one is not page):
                self._spawn(self._follow(other))

    async def _adopt(self, page: Page) -> None:
        tab = await Tab.open(page, self._options.display, self._clipboard, patience=self.patience)
        tab.typed = self._options.typed
        if self.gate is not None:
            await adopt(self.gate, tab)
            guard_paste(tab, self.gate)
        self._open.append(_Open(tab, Activity(page, "" if self.gate is None else ASIDE)))
        self._active = len(self._open) - 1
        await tab.on_event("Page", "windowOpen", self._on_announced)
        page.on("close", self._forget)
        page.on("download", self._on_download)
        page.on("filechooser", self._on_file_chooser)

    def _forget(self, page: Page) -> None:
        for index in [index for index, entry in enumerate(self._open) if entry.tab.page is page]:
            del self._open[index]
            if self._active >= index:
                self._active = max(0, self._active - 1)

    # ------------------------------------------------------------------------------------------------- what pages do

    def _spawn(self, work: Any) -> None:
        """Work that a page's event asks for; `settle` waits for it."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("Following a page failed: %s", self.secrets.redact(first_line(error)))

    def _on_announced(self, _: Any) -> None:
        self._announced += 1

    def _on_page(self, page: Page) -> None:
        if self._arrived is not None:
            self._arrived.append(page)
        else:
            self._spawn(self._follow(page))

    async def _follow(self, page: Page) -> None:
        """A page has opened another one: it is in front now, as it would be for a person."""
        if not self._lease.owned and not await opened_by(page, self._pages()):
            return None
        self._announced = max(0, self._announced - 1)
        if len(self._open) >= MOST_TABS:
            self.note("The page tried to open too many tabs.")
            return await quietly(page.close())
        try:
            await self._adopt(page)
            self.note("A new tab was opened.")
        except (PlaywrightError, EnvironmentFault):  # closed again before we got to it
            pass

    async def _on_dialog(self, dialog: Dialog) -> None:
        await answer_dialog(dialog, self.note, self.secrets.redact, self.gate)

    def _on_file_chooser(self, _: FileChooser) -> None:
        self.note("The page asked for a file; uploads are not possible here.")

    def _on_download(self, download: Download) -> None:
        self._downloads.refuse(download.suggested_filename)
