"""Any web page as an environment: a URL and an instruction.

    pool = WebPool(sessions=8, options=SessionOptions(network=NetworkPolicy(allow=("example.com",))))
    environment = await pool.acquire()
    await environment.reset(Task("web", "find-price", goal="Find ...", start_url="https://example.com"))

The episode ends when the agent answers. Nobody here knows whether the answer is right: the reward stays 0 and scoring
is left to the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from PIL import Image

from holotron.addresses import split_login
from holotron.envs import dom
from holotron.envs.arrival import HOW_TO_ALLOW, STILL_LOADING
from holotron.envs.effects.judging import origin_of
from holotron.envs.effects.question import Approver
from holotron.envs.effects.watching import before_dragging, name_of_control
from holotron.envs.focus import focused
from holotron.envs.hands import ActionRefused, perform
from holotron.envs.network import RESOLVE_NOTHING, Blocked, check_url
from holotron.envs.options import Login
from holotron.envs.pool import BrowserPool
from holotron.envs.registry import PoolRequest, environments
from holotron.envs.secrets.typing import check_drag, write_secret
from holotron.envs.session import Session, SessionOptions
from holotron.envs.tab import Display, PageCrash, PageHang
from holotron.errors import ConfigError, EnvironmentFault, HolotronError
from holotron.types import (
    Action,
    Answer,
    Click,
    CloseTab,
    DoubleClick,
    Drag,
    GoBack,
    Goto,
    NewTab,
    Observation,
    PressKeys,
    Refresh,
    Restart,
    StepResult,
    SwitchTab,
    Task,
    Wait,
    Write,
)
from holotron.view import View

ACTION_TIMEOUT = 60.0  # seconds for one action and what follows from it


class WebPool:
    """At most `sessions` web environments at a time. Each reset is a fresh browser context, so nothing is shared."""

    def __init__(
        self,
        *,
        sessions: int = 8,
        browsers: int = 2,
        headless: bool = True,
        options: SessionOptions | None = None,
        attach: str | None = None,
    ) -> None:
        self._options = options or SessionOptions()
        alone = self._options.held
        browsers = sessions if alone else max(1, min(browsers, sessions))
        self.browsers = BrowserPool(
            browsers=browsers,
            contexts_per_browser=1 if alone else -(-sessions // browsers) + 1,
            headless=headless,
            flags=[RESOLVE_NOTHING, *self._options.flags],
            attach=attach,
        )
        self._places = asyncio.Semaphore(sessions)

    async def acquire(self) -> WebEnvironment:
        await self._places.acquire()
        return WebEnvironment(self.browsers, self._options)

    async def release(self, environment: WebEnvironment, *, broken: bool = False) -> None:
        try:
            await environment.close()
        finally:
            self._places.release()

    async def close(self) -> None:
        await self.browsers.close()


def display_of(view: View) -> Display:
    """A browser window as a view asks for it."""
    view.refuse(("crop",), "web pages are shown whole")
    default = Display()
    return Display(
        view.width or default.width, view.height or default.height, view.scale or default.scale,
        view.format or default.format,
    )  # fmt: skip


@environments.register("web")
def open_web(request: PoolRequest) -> WebPool:
    """Options are those of `SessionOptions` (network, secrets, downloads ...), `headless` and `attach`."""
    options = dict(request.options)
    headless, attach = bool(options.pop("headless", True)), options.pop("attach", None)
    if attach is not None and request.sessions > 1:
        raise ConfigError("a browser that runs already serves one session")
    session = SessionOptions(display=display_of(request.view), **options)
    browsers = min(2, request.sessions)
    return WebPool(
        sessions=request.sessions, browsers=browsers, headless=headless, options=session, attach=attach
    )  # fmt: skip


class WebEnvironment:
    def __init__(self, browsers: BrowserPool, options: SessionOptions, *, keep: bool = False) -> None:
        """`keep`: go on in the same browser context after a reset where that is possible (`Session.renew`), which is
        cheaper than a new one. For pages of one's own, which hide nothing in a browser."""
        self._browsers = browsers
        self._options = options
        self._keep = keep
        self._session: Session | None = None
        self._task: Task | None = None
        self._ask: Approver | None = None

    @property
    def task(self) -> Task:
        if self._task is None:
            raise EnvironmentFault("There is no task before reset().")
        return self._task

    # --------------------------------------------------------------------------------------------------- the contract

    async def reset(self, task: Task) -> Observation:
        bare, login = split_login(task.start_url or "")
        url = self._start_url(replace(task, start_url=bare))
        self._task = replace(task, start_url=bare or None)
        if login is not None:
            self._options = replace(self._options, login=Login(origin_of(url), *login))
        with self._untold():
            return await self._opened(url)

    async def _opened(self, url: str) -> Observation:
        if not await self._renewed():
            await self.close()
            self._session = await Session.open(self._browsers, self._options)
        session = self._open_session
        if session.gate is not None:
            session.gate.ask = self._ask
        arrival = await session.goto(url)
        if arrival.refused:
            raise ConfigError(f"The start page {url} is not allowed: {arrival.refused}; {HOW_TO_ALLOW}.")
        if arrival.unreachable:
            raise EnvironmentFault(f"The start page {url} did not open: {arrival.unreachable}.")
        observation = await self.observe()
        empty = observation.url == "about:blank" != url and STILL_LOADING not in observation.note
        if empty or observation.url.startswith("chrome-error:"):
            nothing = "it answered with nothing to show: a download, or an empty page."
            raise EnvironmentFault(f"The start page {url} did not open: {observation.note or nothing}")
        return observation

    async def _renewed(self) -> bool:
        if self._session is None or not self._keep:
            return False
        try:
            return await self._session.renew(self._options)
        except EnvironmentFault:  # it has died in the meantime
            return False

    def use(self, options: SessionOptions) -> None:
        """Other options, from the next reset on."""
        self._options = options

    async def observe(self) -> Observation:
        with self._untold():
            return await self._observed()

    async def _observed(self) -> Observation:
        session = self._open_session
        image = await session.screen.take(session.tab)
        with Image.open(io.BytesIO(image)) as opened:
            size = opened.size
        display, hide = self._options.display, session.secrets.redact
        titles = tuple(map(hide, session.titles))
        return Observation(
            image=image,
            mime=display.mime,
            image_size=size,
            viewport=(display.width, display.height),
            url=hide(split_login(session.tab.page.url)[0]),
            title=titles[session.active],
            tabs=titles if len(titles) > 1 else (),
            active_tab=session.active,
            note=hide(session.take_notes()),
        )

    async def step(self, action: Action) -> StepResult:
        session = self._open_session
        if isinstance(action, Restart):
            return StepResult(await self.reset(self.task))
        with self._untold():
            return await self._stepped(session, action)

    async def _stepped(self, session: Session, action: Action) -> StepResult:
        await self._begin(session, action)
        try:
            async with session.patience.limit(ACTION_TIMEOUT):
                if not isinstance(action, Answer):
                    await self._act(session, action)
                elif session.gate is not None:
                    await session.gate.answered()
                observation = await self.observe()
        except (PageCrash, PageHang, TimeoutError) as fault:
            why = "crashed" if isinstance(fault, PageCrash) else "stopped responding"
            session.note(f"The page {why} and was loaded again.")
            await session.replace_tab()
            observation = await self.observe()
            return StepResult(observation, info=_held(session))
        return StepResult(observation, done=isinstance(action, Answer), info=_held(session))

    async def _begin(self, session: Session, action: Action) -> None:
        """From here on, what leaves is the agent's doing."""
        if session.gate is None:
            return
        session.gate.begin(touches=not isinstance(action, Answer | Wait | SwitchTab))
        point = None
        if isinstance(action, Click | DoubleClick | Write) and action.x is not None and action.y is not None:
            point = (action.x, action.y)
        if point is not None or isinstance(action, PressKeys):
            with contextlib.suppress(EnvironmentFault):  # the name is for the wording, and for links alone
                session.gate.control = await name_of_control(session.tab, point)

    def ask_first(self, ask: Approver) -> None:
        """Ask this before anything happens that changes the world; needs `SessionOptions.rules`."""
        if not self._options.held:
            raise ConfigError(
                "Nothing is held here that could be asked about: open the environments with rules=Rules()."
            )
        self._ask = ask

    async def private_field(self) -> bool:
        """Whether what is typed now goes into a field for passwords or payment data."""
        return (await focused(self._open_session.tab)).kind in ("password", "payment")

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # ------------------------------------------------------------------- behind the pixels: solvers and data labelling

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page in front."""
        with self._untold():
            return await self._open_session.tab.evaluate(expression)

    async def dom(self) -> list[dom.DomElement]:
        """Every visible element, in the coordinates of actions."""
        return dom.parse(await self.evaluate(dom.SCRIPT))

    # ----------------------------------------------------------------------------------------------------- the inside

    @property
    def _open_session(self) -> Session:
        if self._session is None:
            raise EnvironmentFault("The environment is not open: call reset() first.")
        return self._session

    @contextlib.contextmanager
    def _untold(self) -> Iterator[None]:
        """An error tells no secret, nor does what caused it."""
        try:
            yield
        except Exception as error:
            secrets = self._options.keep_secrets() if self._session is None else self._session.secrets
            if not secrets.finder:
                raise
            told = secrets.redact(str(error))
            if isinstance(error, HolotronError):
                raise type(error)(told) from None
            raise EnvironmentFault(f"{type(error).__name__}: {told}") from None

    def _start_url(self, task: Task) -> str:
        if not task.start_url:
            raise ConfigError(f"The task {task.id} has no start_url.")
        try:
            return check_url(task.start_url, self._options.network)
        except Blocked as blocked:
            raise ConfigError(f"The start page of {task.id} cannot be opened: {blocked}.") from None

    async def _act(self, session: Session, action: Action) -> None:
        since = time.monotonic()
        try:
            match action:
                case Goto() | GoBack() | Refresh():
                    await _travel(session, action)
                    return  # it has settled
                case NewTab(url):
                    if url and session.gate is not None:
                        await session.gate.before_going(url)
                    await session.new_tab(url)
                case SwitchTab(index):
                    await session.switch_tab(index)
                case CloseTab():
                    await session.close_tab()
                case Write(content) if session.secrets.asked_for(content):
                    if session.gate is None:
                        raise ActionRefused("There are no secrets here.")
                    await write_secret(session.tab, action, session.secrets, session.gate)
                case _:
                    if isinstance(action, Drag) and session.secrets:
                        await check_drag(session.tab, session.secrets)
                    if isinstance(action, Drag) and session.gate is not None:
                        await before_dragging(session.gate, session.tab, action.x2, action.y2)
                    session.note(await perform(session.tab, action))
        except ActionRefused as refusal:
            session.note(str(refusal))
        await session.settle(since)


async def _travel(session: Session, action: Goto | GoBack | Refresh) -> None:
    match action:
        case Goto(url):
            if session.gate is not None:
                await session.gate.before_going(url)
            await session.goto(url)
        case GoBack():
            await session.back()
        case Refresh():
            await session.refresh()


def _held(session: Session) -> dict[str, Any]:
    """What did not leave because somebody, or a rule, said no."""
    if session.gate is None:
        return {}
    refused, dropped = session.gate.end()
    info: dict[str, Any] = {}
    if refused:
        reasons = [decision.reason for _, decision in refused if decision.reason]
        info |= {"refused": True, "asked": "; ".join(question.summary for question, _ in refused)}
        info |= {"reasons": "; ".join(dict.fromkeys(reasons))} if reasons else {}
    return info | ({"dropped": dropped} if dropped else {})
