"""What looking on costs: steps per second of many sessions without the live page, with it, and with viewers.

    python benchmarks/console_viewers.py --sessions 40 --viewers 10

The same episodes (same tasks, seeds and random clicks, in real browsers, with no time to think, so that every core is
busy with them) are played in turns in three ways: plain; with the page and nobody looking; with the page and viewers.
Viewers are a process of their own on the same machine and do what the page does: follow the stream, fetch each small
picture of the overview when it is named; every fifth looks at one session and fetches its screens. What they use of the
machine is therefore part of the cost, which it would not be for people who sit elsewhere; drawing is not.

Prints one JSON object: steps per second of each round, and the cost of each way as a share of the plain rate (the
median of the rounds' ratios).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from _process_tree import cpu_seconds

from holotron.agent.policies.registry import PolicyRequest, make_policy
from holotron.console.live import LiveRun
from holotron.console.serving import serving
from holotron.rollouts.runner import RolloutSettings, rollout
from holotron.suites.base import Suite, find_suite

# ------------------------------------------------------------------------------------------------------------- viewers


class Browser:
    """As much of one as the page needs: a few connections that are kept, and a cache of pictures."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._places = asyncio.Semaphore(5)
        self._have: set[str] = set()
        self.pictures = self.bytes = self.messages = 0

    async def get(self, path: str) -> bytes:
        async with self._places:
            reader, writer = self._free.pop() if self._free else await asyncio.open_connection(self._host, self._port)
            writer.write(f"GET {self._path}{path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            body = await reader.readexactly(length)
            self._free.append((reader, writer))
            return body if head.startswith(b"HTTP/1.1 200") else b""

    async def picture(self, name: str) -> None:
        if name and name not in self._have:
            self._have.add(name)
            self.bytes += len(await self.get(f"frames/{name}"))
            self.pictures += 1

    async def follow(self, position: str, session: str = "") -> Any:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        query = f"events?since={position}" + (f"&session={quote(session, safe='')}" if session else "")
        writer.write(f"GET {self._path}{query} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())
        try:
            async for line in reader:
                if line.startswith(b"data: {"):
                    self.messages += 1
                    yield json.loads(line[6:])
        finally:
            writer.close()


async def watch_all(browser: Browser) -> None:
    state = json.loads(await browser.get("state"))
    async for changes in browser.follow(state["position"]):
        for session in changes["sessions"]:
            if session.get("thumb"):
                await browser.picture(f"{session['thumb']}?small")


async def watch_one(browser: Browser, number: int) -> None:
    while True:
        state = json.loads(await browser.get("state"))
        running = [one["id"] for one in state["changes"]["sessions"] if one.get("state") != "ended"]
        if not running:
            await asyncio.sleep(0.5)
            continue
        id = running[number % len(running)]
        await browser.get(f"session?id={quote(id, safe='')}")
        async for changes in browser.follow(state["position"], id):
            mine = next((one for one in changes["sessions"] if one["id"] == id), None)
            if mine is not None:
                await browser.picture(mine["frame"])
            for card in changes["cards"]:
                await browser.picture(f"{card['frame']}?small")
            if mine is not None and mine.get("state") == "ended":
                break


async def look_on(url: str, viewers: int) -> None:
    browsers = [Browser(url) for _ in range(viewers)]
    works = [watch_one(one, n) if n % 5 == 4 else watch_all(one) for n, one in enumerate(browsers)]
    looking = [asyncio.ensure_future(work) for work in works]
    print("looking", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for one in looking:
        one.cancel()
    await asyncio.gather(*looking, return_exceptions=True)
    totals = {name: sum(getattr(one, name) for one in browsers) for name in ("messages", "pictures", "bytes")}
    print(json.dumps(totals | {"cpu_seconds": round(time.process_time(), 2)}), flush=True)


# ------------------------------------------------------------------------------------------------------------- playing


async def play(suite: Suite, pool: Any, policy: Any, sessions: int, way: str, viewers: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        out, looking = Path(folder) / "run", None
        live = None if way == "plain" else LiveRun(out, title="benchmark")
        if live is not None:
            live.describe(policy.describe(), suite.name)
            page = stack.enter_context(serving(live))
            if way == "viewers":
                words = [sys.executable, __file__, "--look-at", page.url, "--viewers", str(viewers)]
                looking = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                assert looking.stdout is not None and looking.stdin is not None
                await asyncio.to_thread(looking.stdout.readline)
        cpu = cpu_seconds()
        progress = await rollout(
            suite.tasks, policy, pool, out, settings=RolloutSettings(sessions=sessions), limits=suite.limits,
            listeners=() if live is None else (live.hear,), steer=None if live is None else live.steer,
            on_progress=None if live is None else live.progress,
        )  # fmt: skip
        result = {
            "way": way,
            "steps": progress.steps,
            "steps_per_second": round(progress.steps_per_second, 2),
            "cpu_ms_per_step": round(1000 * (cpu_seconds() - cpu) / progress.steps, 2),
        }
        if looking is not None and looking.stdin is not None and looking.stdout is not None:
            looking.stdin.write("\n")
            looking.stdin.flush()
            result["viewers"] = json.loads(await asyncio.to_thread(looking.stdout.readline))
            looking.wait(10)
        return result


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    suite = find_suite(arguments.suite, tasks=arguments.tasks, seeds=range(arguments.seeds)).limited(arguments.steps)
    policy = await make_policy(PolicyRequest("random:7", actions=suite.actions))
    pool = suite.open(arguments.sessions)
    ways = ("plain", "page", "viewers")
    rounds: list[dict[str, Any]] = []
    try:
        for way in ("plain", "viewers"):  # browsers start, pages load, modules are imported
            await play(suite, pool, policy, arguments.sessions, way, arguments.viewers)
        for number in range(arguments.rounds):
            for way in (*ways[number % 3 :], *ways[: number % 3]):
                made = await play(suite, pool, policy, arguments.sessions, way, arguments.viewers)
                rounds.append({"round": number, **made})
                print(json.dumps(rounds[-1]), file=sys.stderr, flush=True)
    finally:
        await pool.close()

    def rate(number: int, way: str) -> float:
        found = next(one for one in rounds if (one["round"], one["way"]) == (number, way))
        return float(found["steps_per_second"])

    def cost(way: str) -> float:
        ratios = [rate(number, way) / rate(number, "plain") for number in range(arguments.rounds)]
        return round(1 - statistics.median(ratios), 4)

    medians = {
        way: round(statistics.median(rate(number, way) for number in range(arguments.rounds)), 2) for way in ways
    }  # fmt: skip
    return {
        "suite": arguments.suite, "sessions": arguments.sessions, "viewers": arguments.viewers, "rounds": rounds,
        "steps_per_second": medians, "cost_of_the_page": cost("page"), "cost_with_viewers": cost("viewers"),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="miniwob")
    parser.add_argument("--tasks", default="click-button,click-tab,enter-text,click-checkboxes")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--viewers", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--look-at", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.look_at:
        asyncio.run(look_on(arguments.look_at, arguments.viewers))
        return
    print(json.dumps(asyncio.run(measure(arguments)), indent=2))


if __name__ == "__main__":
    main()
