"""Where the time of a sites step goes: CPU milliseconds by kind of process, one session, one thing at a time.

    python benchmarks/sites_cpu.py --app mail --times 25

CPU time is what a busy machine leaves comparable. A reset also ends one page's process and starts another: what those
used is counted as long as they can be seen.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import psutil
from _process_tree import processes

from holotron.sites.environment import SitesEnvironment, SitesPool, make_episode
from holotron.sites.solver.view import SCRIPT
from holotron.sites.tasks import sites_tasks
from holotron.types import Click, Goto, Task

PAGES = {
    "shop": ("shop-wish", ("/", "/products?category=kitchen", "/product/3", "/cart")),
    "mail": ("mail-star", ("/", "/thread/3", "/compose", "/contacts")),
    "calendar": ("calendar-plan", ("/week", "/agenda", "/new", "/month")),
}


def kind(process: psutil.Process) -> str:
    command = process.cmdline()
    kinds = [part.removeprefix("--type=") for part in command if part.startswith("--type=")]
    if kinds:
        return kinds[0]
    program = command[0].rsplit("/", 1)[-1] if command else ""
    return {"node": "driver"}.get(program, "python" if "python" in program else "browser")


class Meter:
    """CPU seconds of every process that was ever seen, so that those which have ended still count."""

    def __init__(self) -> None:
        self.used: dict[int, tuple[str, float]] = {}

    def read(self) -> Counter[str]:
        for process in processes():
            try:
                times = process.cpu_times()
                self.used[process.pid] = (kind(process), times.user + times.system)
            except psutil.NoSuchProcess:
                continue
        total: Counter[str] = Counter()
        for name, seconds in self.used.values():
            total[name] += seconds
        return total


async def measure(
    meter: Meter, what: str, times: int, do: Callable[[int], Awaitable[object]], *, ends: bool = False
) -> None:
    """`ends`: processes end on the way and have to be read before they do, which costs time of our own."""
    before, began = meter.read(), time.monotonic()
    for index in range(times):
        await do(index)
        if ends:
            meter.read()
    after, wall = meter.read(), time.monotonic() - began
    parts = {name: 1000 * (after[name] - before[name]) / times for name in after}
    listed = "  ".join(f"{name} {ms:.0f}" for name, ms in parts.items() if ms >= 1)
    print(f"{what:16} {sum(parts.values()):5.0f} ms CPU, {1000 * wall / times:5.0f} ms wall   {listed}", flush=True)


async def run(app: str, times: int) -> None:
    name, paths = PAGES[app]

    def task(index: int) -> Task:
        return sites_tasks(name, [index], viewport="laptop")[0]

    pool, meter = SitesPool(sessions=1, browsers=1), Meter()
    environment: SitesEnvironment = await pool.acquire()
    await environment.reset(task(0))

    async def make(index: int) -> None:
        make_episode(task(index)).close()

    await measure(meter, "make an episode", times, make)
    await measure(meter, "reset", times, lambda index: environment.reset(task(index)), ends=True)
    site = f"http://{environment.episode.host}"
    await measure(meter, "open a page", times, lambda index: environment.step(Goto(site + paths[index % 4])))
    await measure(meter, "screenshot", times, lambda _: environment.observe())
    await measure(meter, "click on nothing", times, lambda index: environment.step(Click(5, 400 + index % 9)))
    await measure(meter, "solver's look", times, lambda _: environment.evaluate(SCRIPT))
    await pool.release(environment)
    await pool.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--app", choices=list(PAGES), default="shop")
    parser.add_argument("--times", type=int, default=25)
    arguments = parser.parse_args()
    asyncio.run(run(arguments.app, arguments.times))


if __name__ == "__main__":
    main()
