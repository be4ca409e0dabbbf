"""MiniWoB++: small web tasks with an exact reward, from the pages of Farama's `miniwob` wheel.

    pool = MiniWobPool(sessions=16, scale=3)
    environment = await pool.acquire()
    observation = await environment.reset(Task("miniwob", "click-button", seed=7))
    environment.task.goal                                    # 'Click on the "ok" button.'
    result = await environment.step(Click(80, 120))          # result.reward is 1.0 when that was right

The task area is 160x210 CSS pixels, drawn `scale` times larger. With `crop` the observation is
only the 160x160 below the yellow instruction bar, since the goal is given as text anyway, and coordinates
count from there.

The same task and seed give the same page to the pixel: chance is seeded before the page loads and again for
the episode, animations are off, the caret does not blink, and a step is over when the short timers it started
have fired. Rewards are raw (no decay over time) and there is no time limit unless `time_limit` asks for one.
Episodes are reset inside the loaded page; the page is loaded anew when the task changes or something went
wrong.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import io
import json
import os
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from holotron.envs import dom
from holotron.envs.hands import ActionRefused, perform, waiting_time
from holotron.envs.pool import OPEN_TIMEOUT, BrowserLease, BrowserPool, bounded
from holotron.envs.registry import PoolRequest, environments
from holotron.envs.session import prepare
from holotron.envs.static import StaticServer
from holotron.envs.tab import Area, Clipboard, Display, Tab
from holotron.errors import ConfigError, EnvironmentFault, MissingDependency
from holotron.types import Action, Answer, Drag, Hover, Observation, Restart, StepResult, Task, Wait

SUITE = "miniwob"
WIDTH, HEIGHT, INSTRUCTION = 160, 210, 50  # CSS pixels; the instruction bar is the upper part
SUCCESS = 0.9  # raw reward; some pages grade how exact a click is, and give 1 only to an impossible half pixel
NO_LIMIT = 1_000_000_000  # milliseconds; from 2**31 on, a browser's timer fires at once
LOADS_PER_CONTEXT = 300  # then a fresh one: a page's process grows a little with every load
ARRIVAL_TIME = 50, 50  # milliseconds of the page's time between the pointer's arrival and the start of a drag
ACTION_TIME = 100, 1000  # milliseconds of the page's time an action takes: at least, and at most while things move

# Pages of the wheel that nobody registers as tasks: they move by themselves or reward the passing of time.
UNREGISTERED = frozenset({"moving-items", "simon-says", "chase-circle", "hover-shape", "button-delay"})

# Pages that carry something from one episode into the next (an open tab, a scrolled list): always loaded
# anew.
CARRIES_OVER = frozenset({
    "book-flight", "book-flight-nodelay", "choose-date", "choose-date-easy", "choose-date-medium",
    "choose-date-nodelay", "drag-cube", "scroll-text", "scroll-text-2", "simon-says", "use-colorwheel",
    "use-colorwheel-2",
})  # fmt: skip

_ASSETS = files(__package__) / "assets"
_EPISODES = (_ASSETS / "miniwob.js").read_text()
_STANDING_CLOCK = (_ASSETS / "clock.js").read_text()


@functools.cache
def pages() -> Path:
    """The wheel's folder of pages, found without importing it (that would pull in gymnasium and selenium)."""
    spec = find_spec("miniwob")
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependency.extra("miniwob", "agent")
    return Path(spec.submodule_search_locations[0]) / "html"


def task_names(*, unregistered: bool = False) -> list[str]:
    """The 125 registered tasks; with `unregistered` also the five other pages."""
    names = sorted(path.stem for path in (pages() / "miniwob").glob("*.html"))
    return names if unregistered else [name for name in names if name not in UNREGISTERED]


@dataclasses.dataclass(frozen=True, slots=True)
class MiniWobOptions:
    scale: float = 3.0
    crop: bool = False
    format: Literal["jpeg", "png"] = "jpeg"
    time_limit: float | None = None  # seconds; None for no time pressure


class MiniWobPool:
    """`sessions` MiniWoB++ environments at most, over a few browsers that can reach nothing but the task pages."""

    def __init__(
        self,
        *,
        sessions: int = 16,
        browsers: int | None = None,
        scale: float = 3.0,
        crop: bool = False,
        format: Literal["jpeg", "png"] = "jpeg",
        time_limit: float | None = None,
        headless: bool = True,
    ) -> None:
        self.options = MiniWobOptions(scale, crop, format, time_limit)
        self._server = StaticServer(pages())
        browsers = browsers or max(2, (os.cpu_count() or 2) // 4)  # a browser's main thread serves all of its pages
        rules = f"MAP {SUITE} 127.0.0.1:{self._server.port}, MAP * ~NOTFOUND"
        self._browsers = BrowserPool(
            browsers=min(browsers, sessions),
            contexts_per_browser=sessions,
            headless=headless,
            flags=[
                f"--host-resolver-rules={rules}",
                "--disable-partial-raster",  # redrawing only what changed leaves faint traces of what was there before
                f"--window-size={WIDTH},{HEIGHT}",
                f"--force-device-scale-factor={scale:g}",
            ],
        )
        self._free: list[MiniWobEnvironment] = []
        self._places = asyncio.Semaphore(sessions)

    async def acquire(self) -> MiniWobEnvironment:
        await self._places.acquire()
        return self._free.pop() if self._free else MiniWobEnvironment(self._browsers, self.options)

    async def release(self, environment: MiniWobEnvironment, *, broken: bool = False) -> None:
        try:
            if broken:
                await environment.close()
            else:
                self._free.append(environment)
        finally:
            self._places.release()

    async def close(self) -> None:
        for environment in self._free:
            await environment.close()
        self._free.clear()
        await self._browsers.close()
        self._server.close()


@environments.register(SUITE)
def open_miniwob(request: PoolRequest) -> MiniWobPool:
    view = request.view
    return MiniWobPool(
        sessions=request.sessions, scale=view.scale or 3.0, crop=bool(view.crop), format=view.format or "jpeg"
    )


class MiniWobEnvironment:
    """One episode at a time in one page. Opens its browser context at the first reset."""

    def __init__(self, browsers: BrowserPool, options: MiniWobOptions) -> None:
        self._browsers = browsers
        self._options = options
        self._display = Display(WIDTH, HEIGHT, options.scale, options.format)
        top = INSTRUCTION if options.crop else 0
        self._view = Area(0, top, WIDTH, HEIGHT - top)  # the part of the viewport that is observed
        self._lease: BrowserLease | None = None
        self._tab: Tab | None = None
        self._loads = 0
        self._loaded: str | None = None  # the task whose page is open and sound
        self._task: Task | None = None
        self._end: StepResult | None = None
        self._scroll = (0.0, 0.0)
        self._notes: list[str] = []

    @property
    def task(self) -> Task:
        if self._task is None:
            raise EnvironmentFault("There is no task before reset().")
        return self._task

    # ------------------------------------------------------------------------------------------- the contract

    async def reset(self, task: Task) -> Observation:
        page = self._page_of(task)
        self._task, self._end = None, None
        try:
            goal = await self._start(task, page)
        except EnvironmentFault:  # a dead page, or one left in a bad state by the last episode: once more from nothing
            await self.close()
            goal = await self._start(task, page)
        self._task = dataclasses.replace(task, goal=goal)
        self._scroll = (0.0, 0.0)
        return await self._look()

    async def observe(self) -> Observation:
        await self._read()
        return await self._look()

    async def step(self, action: Action) -> StepResult:
        if self._end is not None:
            observation = dataclasses.replace(self._end.observation, note="The episode is over.")
            return dataclasses.replace(self._end, observation=observation)
        if isinstance(action, Restart):
            return StepResult(await self.reset(self.task))
        standing = self._options.time_limit is None  # then waiting is for the page's clock, see `_page_time`
        if not isinstance(action, Answer) and not (isinstance(action, Wait) and standing):
            try:
                if isinstance(action, Drag):  # the hand arrives before it presses: no jump for pages to see
                    await perform(self._open_tab, Hover(action.x1, action.y1), self._view)
                    await self._read(*ARRIVAL_TIME)
                self._notes.append(await perform(self._open_tab, action, self._view))
            except ActionRefused as refusal:
                self._notes.append(str(refusal))
        state = await self._read(*_page_time(action))
        done = state["done"] or isinstance(action, Answer)
        observation = await self._look()
        info = {"reason": state["reason"], "timed_reward": state["reward"]}
        success = state["raw"] >= SUCCESS if done else None
        result = StepResult(observation, float(state["raw"]), done, success, info)
        if done:
            self._end = result
        return result

    async def close(self) -> None:
        lease, self._lease, self._tab, self._loaded, self._end = self._lease, None, None, None, None
        if lease is not None:
            await lease.close()

    # ---------------------------------------------------------- behind the pixels: solvers and data labelling

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the task's page. Coordinates it returns are those of the viewport."""
        return await self._open_tab.evaluate(expression)

    async def dom(self) -> list[dom.DomElement]:
        """Every visible element, in the coordinates of actions."""
        return dom.parse(await self._open_tab.evaluate(dom.SCRIPT), top=self._view.y)

    # --------------------------------------------------------------------------------------------- the inside

    @property
    def _open_tab(self) -> Tab:
        if self._tab is None:
            raise EnvironmentFault("The environment has no open page: call reset() first.")
        return self._tab

    def _page_of(self, task: Task) -> str:
        if task.suite != SUITE or not (pages() / "miniwob" / f"{task.name}.html").is_file():
            raise ConfigError(f"There is no MiniWoB++ task {task.suite}/{task.name}; see task_names().")
        return f"http://{SUITE}/miniwob/{task.name}.html"

    async def _start(self, task: Task, page: str) -> str:
        """Load the page if another one is open, start the episode, return the goal."""
        if self._lease is None or not self._lease.alive or self._loads >= LOADS_PER_CONTEXT:
            await self._open()
        limit = int(self._options.time_limit * 1000) if self._options.time_limit else NO_LIMIT
        # The pages' generator repeats its key, so that without a mark at the end 2 and 222222 would be the same seed.
        arguments = json.dumps([f"{task.seed}/", limit, task.options.get("mode"), *ACTION_TIME])
        in_place = self._loaded == task.name and task.name not in CARRIES_OVER
        self._loaded = None  # until the start has gone well
        await self._open_tab.move(0, 0)  # nothing is hovered at the start
        goal = await self._open_tab.evaluate(f"__holotron.start(...{arguments})") if in_place else None
        if goal is None:
            self._loads += 1
            async with bounded(f"loading {page}", OPEN_TIMEOUT):
                await self._open_tab.page.goto(page, wait_until="load")
            goal = await self._open_tab.evaluate(f"__holotron.start(...{arguments})")
        if not goal:
            raise EnvironmentFault(f"The task {task.name} did not start.")
        self._loaded = task.name
        return str(goal)

    async def _open(self) -> None:
        await self.close()
        self._loads = 0
        self._lease = await self._browsers.lease(
            no_viewport=True,  # windows have the right size by themselves
            locale="en-US",
            timezone_id="UTC",
            reduced_motion="reduce",
            service_workers="block",
        )
        async with self._lease.opening("opening a page"):
            clipboard = Clipboard(self._lease.clipboard)
            await prepare(self._lease.context, clipboard, self._notes.append)
            if self._options.time_limit is None:
                await self._lease.context.add_init_script(_STANDING_CLOCK)
            await self._lease.context.add_init_script(_EPISODES)
            self._tab = await Tab.open(await self._lease.context.new_page(), self._display, clipboard, native=True)

    async def _read(self, least: float = 0, most: float = 0) -> dict[str, Any]:
        state = json.loads(await self._open_tab.evaluate(f"window.__holotron?.read({least}, {most}) ?? '{{}}'"))
        if not state.get("running"):  # the agent has made the page leave or load itself again
            self._loaded = None
            state = {"done": True, "raw": -1.0, "reward": -1.0, "reason": "the page was left", "x": 0.0, "y": 0.0}
        self._scroll = (state["x"], state["y"])
        return state

    async def _look(self) -> Observation:
        view, (x, y) = self._view, self._scroll
        clip = Area(x + view.x, y + view.y, view.width, view.height) if view.y else None
        image = await self._open_tab.screenshot(clip)
        notes, self._notes[:] = " ".join(filter(None, self._notes)), []
        with Image.open(io.BytesIO(image)) as opened:
            size = opened.size
        return Observation(
            image=image,
            mime=self._display.mime,
            image_size=size,
            viewport=(int(view.width), int(view.height)),
            url=f"http://{SUITE}/miniwob/{self.task.name}.html",
            title=self.task.name,
            note=notes,
        )


def _page_time(action: Action) -> tuple[float, float]:
    """How long an action takes on the page's clock, in milliseconds: at least, at most."""
    least, most = ACTION_TIME
    waited = waiting_time(action) * 1000 if isinstance(action, Wait) else 0
    return max(least, waited), max(most, waited)
