"""Many agents in one machine's browsers: clicks and screenshots of concurrent web sessions on a light page.

    python benchmarks/browser_sessions.py --sessions 100 --think 4 --seconds 60

Each session waits as long as a policy would think (exponential, `--think` seconds on average), then clicks a random
link or button of the page and gets the next screenshot. The time of a step is the whole `step()`: the click, the page
coming to rest, the screenshot.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

from _process_tree import cpu_seconds, memory_gb

from holotron.envs.network import NetworkPolicy
from holotron.envs.session import SessionOptions
from holotron.envs.static import StaticServer
from holotron.envs.tab import Display
from holotron.envs.web import WebEnvironment, WebPool
from holotron.types import Click, Task

CARDS = 30
PAGE = """<!doctype html><title>Shop</title><style>
  body { margin: 0; font: 14px sans-serif; background: #f4f4f6 }
  main { display: flex; flex-wrap: wrap; gap: 12px; padding: 12px }
  article { width: 190px; padding: 10px; background: white; border: 1px solid #ccd; border-radius: 6px }
  .on { outline: 3px solid #26c } </style>
<main>""" + "".join(
    f"<article><h3>Item {n}</h3><p>A short description of item {n} in two lines of text.</p>"
    f"<button onclick=\"this.closest('article').classList.toggle('on')\">Add</button> "
    f'<a href="#item{n}">more</a></article>'
    for n in range(CARDS)
)


async def work(environment: WebEnvironment, think: float, end: float, rng: random.Random, steps: list[float]) -> None:
    while True:
        pause = rng.expovariate(1 / think)
        if time.monotonic() + pause > end:
            return
        await asyncio.sleep(pause)
        began = time.monotonic()
        await environment.step(Click(rng.uniform(0, 1280), rng.uniform(0, 720)))
        steps.append(time.monotonic() - began)


async def measure(arguments: argparse.Namespace) -> dict[str, float | int]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "index.html").write_text(PAGE)
        server = StaticServer(Path(folder))
        address = f"127.0.0.1:{server.port}"
        options = SessionOptions(display=Display(1280, 720), network=NetworkPolicy(allow=(address,)))
        pool = WebPool(sessions=arguments.sessions, browsers=arguments.browsers, options=options)
        environments = [await pool.acquire() for _ in range(arguments.sessions)]
        opening = time.monotonic()
        task = Task("web", "shop", start_url=f"http://{address}/")
        await asyncio.gather(*(environment.reset(task) for environment in environments))
        opened = time.monotonic() - opening
        cpu, began, steps = cpu_seconds(), time.monotonic(), []
        end = began + arguments.seconds
        rngs = [random.Random(index) for index in range(arguments.sessions)]
        await asyncio.gather(
            *(work(e, arguments.think, end, rng, steps) for e, rng in zip(environments, rngs, strict=True))
        )
        seconds = time.monotonic() - began
        cpu = cpu_seconds() - cpu
        result = {
            "sessions": arguments.sessions,
            "think_seconds": arguments.think,
            "steps_per_second": round(len(steps) / seconds, 1),
            "step_p50_ms": round(1000 * statistics.median(steps), 1),
            "step_p95_ms": round(1000 * statistics.quantiles(steps, n=20)[-1], 1),
            "cores_busy": round(cpu / seconds, 2),
            "cpu_ms_per_step": round(1000 * cpu / len(steps), 1),
            "memory_gb": round(memory_gb(), 2),
            "seconds_to_open_all": round(opened, 1),
        }
        await asyncio.gather(*(pool.release(environment) for environment in environments))
        await pool.close()
        server.close()
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--browsers", type=int, default=2)
    parser.add_argument("--think", type=float, default=4.0)
    parser.add_argument("--seconds", type=float, default=60)
    print(json.dumps(asyncio.run(measure(parser.parse_args())), indent=2))


if __name__ == "__main__":
    main()
