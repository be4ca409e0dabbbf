"""How much of everything so many agents need, from what a step was measured to cost.

    scale = Scale.of("holotron-12b", "bf16", session_bytes, free_bytes, Assumptions())
    need = scale.need(10_000)
    need.gpus, need.cores, need.gbit, need.cost                 # cost: of a million steps, by what it is for
    scale.limits()                                              # what breaks first, and at how many agents

Agents wait for their model, then act in their browser, then ask again: a closed loop. A GPU that always has N sessions
to work on does X(N) steps a second, so with E seconds in the browser it keeps N + X * E agents busy, and each of them
makes a step in (N + X * E) / X seconds. X was measured at a few N; the one with most steps a second is taken.

What is not measured is in `Assumptions`, each with its reason, and can be said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from holotron.bench import measured
from holotron.bench.measured import RATES, Measured, Rate
from holotron.errors import ConfigError
from holotron.registry import did_you_mean


def _assumed(default: float, why: str, least: float = 0.0) -> Any:
    return field(default=default, metadata={"why": why, "least": least})


@dataclass(frozen=True)
class Assumptions:
    """What nobody measured here."""

    task_steps: float = _assumed(0, "steps of a task; 0: 12 where that was measured, else the longest that was")
    steps_per_second: float = _assumed(0, "of one GPU, if you have measured your own; 0: from the ledger")
    sessions_per_gpu: float = _assumed(
        0, "that one GPU works on at once; 0: the measured number with most steps a second"
    )
    tower: float = _assumed(1, "1: screenshots go through the vision tower; 0: they do not")
    environment_seconds: float = _assumed(
        1.0, "of each step in the browser: the action, the page settling, the screenshot"
    )
    page_weight: float = _assumed(
        3.0, "processor time and memory of real pages, as multiples of the light page measured", 0.01
    )
    utilisation: float = _assumed(0.7, "of cores and entrances: beyond it queues grow", 0.01)
    spare: float = _assumed(0.1, "more GPUs than are busy, for updates and failures")
    engine_cores: float = _assumed(1.0, "for each GPU: the thread that launches its work")
    server_gib: float = _assumed(16.0, "of host memory for each GPU, before sessions that its own memory cannot hold")
    gpus_per_machine: float = _assumed(8, "", 1)
    cores_per_machine: float = _assumed(64, "of machines for browsers", 1)
    machine_gbit: float = _assumed(25.0, "of one machine's network, in each direction", 0.001)
    gpu_failure_hours: float = _assumed(
        50_000, "of one GPU between unexpected stops: 419 in 54 days on 16,384 GPUs (the Llama 3 report, table 5)"
    )
    gpu_hour: float = _assumed(3.50, "price, USD")
    core_hour: float = _assumed(0.04, "price, USD")
    gib_hour: float = _assumed(0.005, "price of host memory, USD")
    tb_month: float = _assumed(20.0, "price of keeping what was recorded, USD; for one month")

    def but(self, said: Mapping[str, str]) -> Assumptions:
        """With some of them said otherwise."""
        least = {one.name: one.metadata["least"] for one in fields(self)}
        values: dict[str, float] = {}
        for name, text in said.items():
            if name not in least:
                raise ConfigError(f"--assume {name}: there is no such assumption: {did_you_mean(name, least)}")
            try:
                values[name] = float(text)
            except ValueError:
                values[name] = math.nan
            most = 1.0 if name == "utilisation" else 1e12
            if not least[name] <= values[name] <= most:
                raise ConfigError(f"--assume {name}={text}: say a number from {least[name]:g} to {most:g}")
        return replace(self, **values)

    def listed(self) -> list[tuple[str, float, str]]:
        return [(one.name, getattr(self, one.name), one.metadata["why"]) for one in fields(self)]


@dataclass(frozen=True)
class Need:
    agents: int
    steps_per_second: float
    step_seconds: float  # of an agent: from one action to the next
    gpus: int
    gpu_machines: int
    browser_cores: float
    server_cores: float
    entrance_cores: float
    browser_machines: int
    browser_gib: float
    server_gib: float
    device_gib: float  # of sessions, at the end of their tasks
    entrances: int
    gbit: float  # of screenshots, into the entrances; as much goes out to the replicas
    tb_per_day: float  # of recorded screenshots
    stops_per_day: float  # of GPUs, unexpected
    cost: Mapping[str, float]  # USD for a million steps

    @property
    def cores(self) -> float:
        return self.browser_cores + self.server_cores + self.entrance_cores

    @property
    def host_gib(self) -> float:
        return self.browser_gib + self.server_gib


@dataclass(frozen=True)
class Limit:
    """Something that there is one of, and how many agents it can bear."""

    what: str
    agents: int
    why: str
    then: str


def _per_second(rate: float, tower: float) -> float:
    """Steps of one GPU that runs the vision tower as well, one after the other."""
    return 1.0 / (1.0 / rate + tower * measured.TOWER.value / 1e3)


def choose_rate(model: str, weights: str, given: Assumptions) -> Rate:
    """Of those measured the one with most steps a second, for tasks at least as long; or what the user measured."""
    if given.steps_per_second:
        own = Measured(given.steps_per_second, "steps/s", "your own figure", "--assume steps_per_second", "", "", "")
        return Rate(max(1, int(given.sessions_per_gpu or 100)), max(1, int(given.task_steps or 12)), own)
    known = RATES.get((model, weights))
    if known is None:
        there_are = ", ".join(f"{name} in {kind}" for name, kind in RATES)
        raise ConfigError(
            f"nobody has measured what a step of {model} in {weights} costs; there are {there_are}. Measure yours with "
            "`holotron bench sessions MODEL` and say --assume steps_per_second=..."
        )
    lengths = sorted({rate.steps for rate in known})
    wanted = int(given.task_steps) or (12 if 12 in lengths else lengths[-1])
    steps = next((length for length in lengths if length >= wanted), None)
    if steps is None:
        raise ConfigError(
            f"tasks of {wanted} steps: {model} in {weights} was measured up to {lengths[-1]}, and longer contexts are "
            "slower; say --assume steps_per_second=... from a measurement of your own"
        )
    fitting = [rate for rate in known if rate.steps == steps]
    if given.sessions_per_gpu:
        fitting = [rate for rate in fitting if rate.sessions == int(given.sessions_per_gpu)]
        if not fitting:
            counts = " or ".join(str(rate.sessions) for rate in known if rate.steps == steps)
            asked = f"sessions_per_gpu={given.sessions_per_gpu:g}"
            raise ConfigError(f"{asked} was not measured with tasks of {steps} steps; {counts} was")
    return max(fitting, key=lambda rate: rate.measured.value)


@dataclass(frozen=True)
class Scale:
    rate: Rate
    given: Assumptions
    session_bytes: int  # of one agent at the end of its task
    free_bytes: int  # of a GPU, for sessions

    @classmethod
    def of(
        cls, model: str, weights: str, session_bytes: Callable[[int], int], free_bytes: int, given: Assumptions
    ) -> Scale:
        """`session_bytes`: of a session of so many tokens (`engine.plan.Planner`)."""
        rate = choose_rate(model, weights, given)
        return cls(rate, given, session_bytes(context_of(rate.steps)), free_bytes)

    # ----------------------------------------------------------------------------------------------------- of one GPU

    @property
    def steps_per_second(self) -> float:
        return _per_second(self.rate.measured.value, self.given.tower)

    @property
    def agents_per_gpu(self) -> float:
        return self.rate.sessions + self.steps_per_second * self.given.environment_seconds

    @property
    def step_seconds(self) -> float:
        return self.agents_per_gpu / self.steps_per_second

    @property
    def overflow_bytes(self) -> float:
        """Of sessions that a GPU's own memory does not hold at the end of their tasks: they wait on the host."""
        return max(0.0, self.agents_per_gpu * self.session_bytes - self.free_bytes)

    # ------------------------------------------------------------------------------------------------------- of a step

    @property
    def request_mb(self) -> float:
        return measured.PICTURE_SIZE.value * 4 / 3  # base64

    @property
    def browser_seconds(self) -> float:
        return measured.BROWSER.value / 1e3 * self.given.page_weight

    @property
    def server_seconds(self) -> float:
        return (measured.PICTURE.value + measured.REQUEST.value) / 1e3

    @property
    def entrance_steps(self) -> float:
        """A second, of one entrance: it is bound by the bytes it reads and hands on."""
        most = measured.ENTRANCE.value * measured.ENTRANCE_MB / self.request_mb
        return most * self.given.utilisation

    # ---------------------------------------------------------------------------------------------------- of all agents

    def need(self, agents: int) -> Need:
        given, steps = self.given, agents / self.step_seconds
        gpus = math.ceil(agents / self.agents_per_gpu * (1 + given.spare))
        browser_cores = steps * self.browser_seconds / given.utilisation
        server_cores = gpus * given.engine_cores + steps * self.server_seconds / given.utilisation
        entrances = math.ceil(steps / self.entrance_steps)
        overflow = self.overflow_bytes / 2**30 * agents / self.agents_per_gpu
        browser_gib = agents * measured.BROWSERS.value * 1e9 / 100 * given.page_weight / 2**30
        server_gib = gpus * given.server_gib + overflow
        hours = 1e6 / steps / 3600  # that a million steps take
        cores = browser_cores + server_cores + steps / self.entrance_steps
        cost = {
            "GPUs": hours * gpus * given.gpu_hour,
            "cores": hours * cores * given.core_hour,
            "host memory": hours * (browser_gib + server_gib) * given.gib_hour,
            "recordings, a month": measured.PICTURE_SIZE.value * given.tb_month,  # MB a step are TB a million steps
        }
        return Need(
            agents=agents,
            steps_per_second=steps,
            step_seconds=self.step_seconds,
            gpus=gpus,
            gpu_machines=math.ceil(gpus / given.gpus_per_machine),
            browser_cores=browser_cores,
            server_cores=server_cores,
            entrance_cores=steps / self.entrance_steps,
            browser_machines=math.ceil(browser_cores / given.cores_per_machine),
            browser_gib=browser_gib,
            server_gib=server_gib,
            device_gib=agents * self.session_bytes / 2**30,
            entrances=entrances,
            gbit=steps * self.request_mb * 8 / 1e3,
            tb_per_day=steps * measured.PICTURE_SIZE.value * 86400 / 1e6,
            stops_per_day=gpus * 24 / given.gpu_failure_hours if given.gpu_failure_hours else 0.0,
            cost=cost,
        )

    def limits(self) -> list[Limit]:
        """From the first that breaks to the last."""
        given, per_gpu, each = self.given, self.agents_per_gpu, self.step_seconds
        wire = given.machine_gbit * 1e3 / 8 / self.request_mb  # steps a second
        browsers = given.cores_per_machine * given.utilisation / self.browser_seconds
        moving = per_gpu * self.session_bytes / (given.machine_gbit * 1e9 / 8)
        hours = given.gpu_failure_hours
        found = [
            Limit(
                "one GPU",
                int(per_gpu),
                f"{self.steps_per_second:.2f} steps/s; an agent's step takes {each:.1f} s",
                f"--replicas: one engine per GPU. Moving all sessions of one takes {moving:.0f} s",
            ),
            Limit(
                "one machine of GPUs",
                int(per_gpu * given.gpus_per_machine),
                f"{given.gpus_per_machine:g} GPUs",
                "--ray, or replicas by address (Kubernetes)",
            ),
            Limit(
                "one machine of browsers",
                int(browsers * each),
                f"{given.cores_per_machine:g} cores, {self.browser_seconds * 1e3:.0f} ms of one for each step",
                "browsers on as many machines as it takes: rollouts with workers",
            ),
            Limit(
                "one entrance",
                int(self.entrance_steps * each),
                f"{self.entrance_steps:.0f} steps/s of {self.request_mb:.2f} MB in one process",
                "several entrances, each with replicas of its own: cells",
            ),
            Limit(
                "one machine's network",
                int(wire * each),
                f"{given.machine_gbit:g} Gbit/s of screenshots",
                "JPEG instead of PNG, entrances on several machines",
            ),
        ]
        if hours:
            daily = Limit(
                "a day without a lost GPU",
                int(hours / 24 * per_gpu),
                f"one unexpected stop in {hours:,.0f} hours of a GPU",
                "journals on disks that others see, so that another machine computes the sessions again",
            )
            found.append(daily)
        return sorted(found, key=lambda limit: limit.agents)


def context_of(steps: int) -> int:
    """Tokens of a session at the end of a task."""
    return measured.SYSTEM_TOKENS + steps * measured.STEP_TOKENS
