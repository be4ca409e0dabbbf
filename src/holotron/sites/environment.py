"""Web apps as an environment: every episode a fresh app with data of its own, success decided from its state.

    pool = SitesPool(sessions=16)
    environment = await pool.acquire()
    observation = await environment.reset(Task("sites", "shop-wish", seed=7))
    environment.task.goal                                    # 'Put the Halden Iris Kettle on my wish list.'
    result = await environment.step(Click(640, 312))

When an episode ends. A task that asks for a change ends by itself as soon as the wanted state is reached and nothing
else has changed: reward 1. It also ends, with reward 0, when it cannot be reached any more (a wrong order has been
placed). Every `Answer` ends the episode and is judged together with the state; a task that asks a question, or cannot
be done, ends in no other way. So nobody is asked to guess what "done" is called, and saying "done" too early fails.

`info` always holds `reason` and `partial` (the share of wanted changes that are there; never the reward).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from holotron.envs import dom
from holotron.envs.effects.question import Approver
from holotron.envs.network import RESOLVE_NOTHING, NetworkPolicy
from holotron.envs.pool import BrowserPool
from holotron.envs.session import SessionOptions
from holotron.envs.web import WebEnvironment
from holotron.errors import ConfigError, EnvironmentFault
from holotron.sites.episode import SiteEpisode
from holotron.sites.server import SitesServer
from holotron.sites.tasks import SUITE, find_template
from holotron.types import Action, Answer, Observation, Restart, StepResult, Task

# A new page in the old page's frame instead of a new frame for every page: a third less work for the browser. This
# replaces Playwright's own flag, which has every screenshot drawn on a surface of its own: a tenth more work, for pages
# in several processes. These are in one, and are looked at when they have been drawn (`envs.settle`).
KEEP_FRAMES = "--enable-features=RenderDocument:level/crashed-frame"

# Pages of one's own need no walls between each other: one process for each context whatever site it shows (a new
# process for every episode was a tenth of all work), and drawing in the browser's own process.
FLAGS = (
    RESOLVE_NOTHING,
    KEEP_FRAMES,
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
    "--in-process-gpu",
)

# Parts of a task's `options`; see `Variation`.
OPTIONS = ("split", "viewport", "language", "density")


class EpisodeServer(Protocol):
    """What serves episodes: `SitesServer`, or the host of somebody else's application (`holotron.sites.transfer`)."""

    @property
    def port(self) -> int: ...

    def open(self, episode: Any) -> str: ...

    def headers(self, key: str) -> dict[str, str]: ...

    def close_episode(self, key: str) -> None: ...

    def close(self) -> None: ...


MakeEpisode = Callable[[Task], Any]  # an episode has a host, a language, a goal, a URL, a size of screen and a verdict


class SitesPool:
    """At most `sessions` apps at a time, all behind one loopback port."""

    def __init__(
        self,
        *,
        sessions: int = 16,
        browsers: int = 2,
        headless: bool = True,
        options: SessionOptions | None = None,
        server: EpisodeServer | None = None,
        make: MakeEpisode | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        """`server` and `make`: what serves episodes and how a task becomes one, for applications by others. `flags`:
        more of them for the browser."""
        self._options = options or SessionOptions()
        alone = self._options.held
        browsers = sessions if alone else max(1, min(browsers, sessions))
        self._browsers = BrowserPool(
            browsers=browsers,
            contexts_per_browser=1 if alone else -(-sessions // browsers) + 1,
            headless=headless,
            flags=[*FLAGS, *self._options.flags, *flags],
        )
        self._places = asyncio.Semaphore(sessions)
        self._free: list[SitesEnvironment] = []  # with browser contexts to go on in
        self.server: EpisodeServer = server or SitesServer()
        self._make = make or make_episode

    async def acquire(self) -> SitesEnvironment:
        await self._places.acquire()
        if self._free:
            return self._free.pop()
        return self.new_environment()

    def new_environment(self) -> SitesEnvironment:
        return SitesEnvironment(self._browsers, self._options, self.server, self._make)

    async def release(self, environment: SitesEnvironment, *, broken: bool = False) -> None:
        if broken:
            await environment.close()
        else:
            environment.end_episode()
            self._free.append(environment)
        self._places.release()

    async def close(self) -> None:
        for environment in self._free:
            await environment.close()
        self._free.clear()
        await self._browsers.close()
        self.server.close()


class SitesEnvironment:
    """A `WebEnvironment` that can reach one app only, and knows from the app's state how the task stands."""

    def __init__(
        self, browsers: BrowserPool, options: SessionOptions, server: EpisodeServer, make: MakeEpisode
    ) -> None:
        self._browsers = browsers
        self._options = options
        self._server = server
        self._make = make
        self._web: WebEnvironment | None = None
        self._episode: SiteEpisode | None = None
        self._key = ""
        self._end: StepResult | None = None
        self._ask: Approver | None = None

    @property
    def task(self) -> Task:
        return self._open.task

    @property
    def episode(self) -> SiteEpisode:
        """What is being played, for solvers and those who look behind the pixels."""
        if self._episode is None:
            raise EnvironmentFault("The environment is not open: call reset() first.")
        return self._episode

    async def reset(self, task: Task) -> Observation:
        episode = await asyncio.to_thread(self._make, task)  # takes a while, and others are at work
        self.end_episode()
        self._episode, self._key, self._end = episode, self._server.open(episode), None
        options = self.session_options(episode)
        if self._web is None:
            self._web = WebEnvironment(self._browsers, options, keep=True)
            if self._ask is not None:
                self._web.ask_first(self._ask)
        self._web.use(options)
        return await self._web.reset(replace(task, goal=episode.goal, start_url=episode.url))

    def session_options(self, episode: Any) -> SessionOptions:
        width, height = episode.variation.size
        display = self._options.display
        # Nothing here depends on the browser's own language: episodes of all languages can use one context.
        return replace(
            self._options,
            display=replace(display, width=width, height=height, scale=display.scale * episode.variation.scale),
            network=NetworkPolicy(allow=(episode.host,), upstream=f"http://127.0.0.1:{self._server.port}"),
            headers=self._server.headers(self._key),
            typed=0,  # these pages do not listen to keys, and drawing every letter is most of what typing costs
        )

    async def observe(self) -> Observation:
        return await self._open.observe()

    async def step(self, action: Action) -> StepResult:
        if self._end is not None:
            observation = replace(self._end.observation, note="The episode is over.")
            return replace(self._end, observation=observation)
        if isinstance(action, Restart):
            return StepResult(await self.reset(self.task))
        result = self.judged(action, await self._open.step(action))
        if result.done:
            self._end = result
        return result

    def judged(self, action: Action, result: StepResult) -> StepResult:
        """What came of an action, with how the task stands."""
        verdict = self.episode.verdict(action.content if isinstance(action, Answer) else None)
        done = verdict.final or result.done
        info = {**result.info, "reason": verdict.reason, "partial": verdict.partial}
        success = verdict.success if done else None
        return replace(result, reward=float(verdict.success), done=done, success=success, info=info)

    def ask_first(self, ask: Approver) -> None:
        """Ask this before anything happens that changes the world; needs `SessionOptions.rules`."""
        self._ask = ask
        if self._web is not None:
            self._web.ask_first(ask)

    async def private_field(self) -> bool:
        return await self._open.private_field()

    async def close(self) -> None:
        web, self._web = self._web, None
        if web is not None:
            await web.close()
        self.end_episode()

    def end_episode(self) -> None:
        """The app is gone; the browser context stays for the next one."""
        if self._key:
            self._server.close_episode(self._key)
        self._episode, self._key = None, ""

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page in front."""
        return await self._open.evaluate(expression)

    async def dom(self) -> list[dom.DomElement]:
        """Every visible element, in the coordinates of actions."""
        return await self._open.dom()

    @property
    def _open(self) -> WebEnvironment:
        if self._web is None or self._episode is None:
            raise EnvironmentFault("The environment is not open: call reset() first.")
        return self._web


def make_episode(task: Task) -> SiteEpisode:
    """The episode that a task describes; the same each time."""
    if task.suite != SUITE:
        raise ConfigError(f"{task.id} is not a task of sites.")
    unknown = set(task.options) - set(OPTIONS)
    if unknown:
        raise ConfigError(f"{task.id} has an unknown option {sorted(unknown)[0]!r}; there are: {', '.join(OPTIONS)}")
    return SiteEpisode(find_template(task.name), task.seed, **task.options)
