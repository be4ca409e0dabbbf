"""Many agents against one small server for minutes: no error, no leak, memory flat.

    python benchmarks/load_server.py [--sessions 100] [--minutes 10] [--model tiny]
    python benchmarks/load_server.py --full                        # device and host hold a third of the sessions
    python benchmarks/load_server.py --full --disk FOLDER          # and files the rest

Starts `holotron serve` as a process of its own. Each client opens a session and, step after step, sends a picture and
some text and gets a reply constrained to JSON; now and then it forks, rewinds, leaves in the middle of a stream, or
closes and starts over, and some requests are stateless: conversations that re-send their last three pictures. Refused
are 429, 503 (each has to say when to try again) and 409 (a turn that was left is being undone); anything else that is
not 200 is an error. Every ten seconds the server's memory, pools and queue are sampled. At the end everything is
closed, and what is still held is a leak.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from holotron.bench.screens import Look, paint

SCHEMA = {
    "type": "object",
    "properties": {"x": {"enum": list(range(10))}, "action": {"enum": ["click", "type", "scroll"]}},
    "required": ["x", "action"],
    "additionalProperties": False,
}
SESSION_BYTES = 100_000  # of the tiny model, after a few steps
FORMAT = {"type": "json_schema", "json_schema": {"name": "step", "schema": SCHEMA}}


LOOK = Look((128, 64))  # two tiles and a thumbnail of the tiny model


def picture(draw: random.Random) -> str:
    data = paint(LOOK, draw.randrange(1 << 30), 0)
    return "data:image/png;base64," + base64.b64encode(data).decode()


@dataclass
class Tally:
    done: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    cached: int = 0
    prompt: int = 0


class Client:
    """One agent. Refusals (429, 503) are waited out; everything else that is not 200 is an error."""

    def __init__(self, http: httpx.AsyncClient, number: int, tally: Tally, until: float) -> None:
        self._http = http
        self._draw = random.Random(number)
        self._tally = tally
        self._until = until
        self._number = number
        self._life = 0
        self._window: list[dict[str, Any]] = []  # a stateless conversation: all texts, and the last three pictures

    async def live(self) -> None:
        while time.monotonic() < self._until:
            self._life += 1
            session = f"load-{self._number}-{self._life}"
            turns = 0
            for _ in range(self._draw.randrange(2, 8)):
                if time.monotonic() > self._until:
                    break
                turns = await self._step(session, turns)
            if turns:
                await self._call("DELETE", f"/v1/sessions/{session}")

    async def _step(self, session: str, turns: int) -> int:
        chance = self._draw.random()
        content = [
            {"type": "image_url", "image_url": {"url": picture(self._draw)}},
            {"type": "text", "text": f"Step {turns}: what now?"},
        ]
        body: dict[str, Any] = {
            "messages": [{"role": "user", "content": content}],
            "max_tokens": 48,
            "temperature": 1.0,
            "response_format": FORMAT,
            "session_id": session,
            "session_open": turns == 0,
        }
        if chance < 0.05:
            await self._leave(body)
            if not turns:  # on a busy machine the reply may have been complete before we left, and the session is there
                await self._call("DELETE", f"/v1/sessions/{session}", missing=True)
            return turns
        if chance < 0.1 and turns:
            fork = f"{session}-fork-{turns}"
            if await self._say(body | {"fork": fork}, "fork") is not None:
                await self._call("DELETE", f"/v1/sessions/{fork}")
            return turns
        if chance < 0.15 and turns:
            answer = await self._say(body | {"rewind": turns - 1}, "rewind")
            return answer["session"]["turns"] if answer else turns
        if chance < 0.25:
            for key in ("session_id", "session_open"):
                del body[key]
            await self._say_anew(body, content)
            return turns
        answer = await self._say(body, "step")
        return answer["session"]["turns"] if answer else turns

    async def _say_anew(self, body: dict[str, Any], content: list[dict[str, Any]]) -> None:
        """The next request of a conversation whose client keeps it."""
        self._window.append({"role": "user", "content": content})
        for message in [message for message in self._window if message["role"] == "user"][:-3]:
            message["content"] = message["content"][-1:]
        answer = await self._say(body | {"messages": self._window}, "stateless")
        if answer is None or len(self._window) > 12:
            self._window = []
            return
        self._window.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"] or ""})

    async def _say(self, body: dict[str, Any], kind: str) -> dict[str, Any] | None:
        started = time.monotonic()
        answer = await self._call("POST", "/v1/chat/completions", body)
        if answer is None:
            return None
        choice = answer["choices"][0]
        if choice["finish_reason"] == "stop":  # and not cut off
            json.loads(choice["message"]["content"])
        self._tally.done[kind] += 1
        self._tally.seconds.append(time.monotonic() - started)
        self._tally.prompt += answer["usage"]["prompt_tokens"]
        self._tally.cached += answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        return answer

    async def _leave(self, body: dict[str, Any]) -> None:
        """Read a little of a long stream and go away."""
        body = {key: value for key, value in body.items() if key != "response_format"}
        body |= {"stream": True, "max_tokens": 500, "ignore_eos": True}
        try:
            async with self._http.stream("POST", "/v1/chat/completions", json=body) as response:
                async for _ in response.aiter_lines():
                    break
        except httpx.HTTPError as error:
            self._tally.errors.append(f"stream: {error!r}")
        self._tally.done["left"] += 1

    async def _call(self, method: str, path: str, body: Any = None, *, missing: bool = False) -> dict[str, Any] | None:
        """`missing`: what is not there is as good as done."""
        for _ in range(200):
            try:
                response = await self._http.request(method, path, json=body)
            except httpx.HTTPError as error:
                self._tally.errors.append(f"{path}: {error!r}")
                return None
            if response.status_code in (409, 429, 503):  # busy undoing a turn that was left, or full
                self._tally.done[f"waited for {response.status_code}"] += 1
                if response.status_code != 409 and "retry-after" not in response.headers:
                    self._tally.errors.append(f"{path}: {response.status_code} without Retry-After")
                await asyncio.sleep(0.1 + 0.2 * self._draw.random())
                continue
            if missing and response.status_code == 404:
                return None
            if response.status_code != 200:
                self._tally.errors.append(f"{path}: {response.status_code} {response.text[:200]}")
                return None
            answer: dict[str, Any] = response.json()
            return answer
        self._tally.errors.append(f"{path}: refused for too long: {response.status_code} {response.text[:200]}")
        return None


class Server:
    def __init__(self, model: str, flags: list[str]) -> None:
        source = Path(__file__).parents[1] / "src"
        command = [sys.executable, "-m", "holotron.cli.main", "serve", model, "--server.port", "0", *flags]
        self.process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            # The network is too small for threads of its own: the second core is for the clients.
            env={"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(source)},
        )
        assert self.process.stderr is not None
        self.url = ""
        for line in self.process.stderr:
            entry = json.loads(line)
            if entry["message"] == "listening":
                self.url = entry["url"].removesuffix("/v1")
            if entry["message"] == "ready":
                break
        else:
            raise SystemExit("the server did not start")
        # A full pipe would stop the server.
        threading.Thread(target=lambda: [None for _ in self.process.stderr or ()], daemon=True).start()

    def resident(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def read_metrics(text: str) -> dict[str, float]:
    rows = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    return {name.removeprefix("holotron_"): float(value) for name, value in rows}


async def watch(server: Server, http: httpx.AsyncClient, until: float) -> list[tuple[float, int]]:
    samples = []
    started = time.monotonic()
    while time.monotonic() < until:
        await asyncio.sleep(min(10.0, max(0.1, until - time.monotonic())))
        m = read_metrics((await http.get("/metrics")).text)
        samples.append((time.monotonic() - started, server.resident()))
        pages, rows = (f"{m[f'{pool}_used']:.0f}/{m[f'{pool}_total']:.0f}" for pool in ("kv_pages", "state_rows"))
        print(
            f"{samples[-1][0]:6.0f} s  {samples[-1][1] / 2**20:7.1f} MiB  running {m['requests_running']:.0f}  "
            f"waiting {m['requests_waiting']:.0f}  sessions {m['sessions_open']:.0f}  pages {pages}  rows {rows}  "
            f"host {m['host_bytes_used'] / 2**20:.1f} MiB  disk {m['disk_bytes_used'] / 2**20:.1f} MiB  "
            f"forgotten {m['forgotten_sessions_total']:.0f}  pixels {m['pixel_bytes'] / 2**20:.1f} MiB",
            flush=True,
        )
    return samples


async def run(server: Server, sessions: int, minutes: float) -> int:
    tally = Tally()
    until = time.monotonic() + 60 * minutes
    limits = httpx.Limits(max_connections=sessions + 10, max_keepalive_connections=sessions + 10)
    async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits) as http:
        clients = [Client(http, n, tally, until).live() for n in range(sessions)]
        samples, *_ = await asyncio.gather(watch(server, http, until), *clients)
        for session in (await http.get("/v1/sessions")).json()["data"]:
            await http.delete(f"/v1/sessions/{session['id']}")
        await asyncio.sleep(1.0)
        end = read_metrics((await http.get("/metrics")).text)
    server.process.send_signal(signal.SIGTERM)
    status = server.process.wait(60)

    early = statistics.mean(size for at, size in samples[: max(1, len(samples) // 3)])
    late = statistics.mean(size for at, size in samples[-max(1, len(samples) // 3) :])
    replies = len(tally.seconds)
    ordered = sorted(tally.seconds)
    print(f"\n{replies} replies in {minutes:g} minutes ({replies / minutes / 60:.1f}/s); {dict(tally.done)}")
    print(f"latency p50 {ordered[len(ordered) // 2]:.2f} s, p95 {ordered[int(len(ordered) * 0.95)]:.2f} s")
    print(f"cached share of prompts {tally.cached / max(1, tally.prompt):.1%}")
    change = f"{early / 2**20:.1f} MiB in the first third, {late / 2**20:.1f} MiB in the last ({late / early - 1:+.1%})"
    print(f"memory {change}; exit status {status}")
    moved = {name: int(end[f"{name}_total"]) for name in ("blocks_to_host", "blocks_to_disk", "forgotten_sessions")}
    print(f"moved and forgotten {moved}")
    print(f"integrity failures {end['integrity_failures_total']:.0f}, sessions left {end['sessions_open']:.0f}")
    for error in tally.errors[:10]:
        print("error:", error)
    good = not tally.errors and end["integrity_failures_total"] == 0 and end["sessions_open"] == 0 and status == 0
    print("no error, no leak" if good else f"FAILED: {len(tally.errors)} errors")
    return 0 if good else 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--full", action="store_true", help="device and host hold a third of the sessions")
    parser.add_argument("--disk", help="a folder for files behind the host")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("flags", nargs="*", help="settings for the server, after --")
    args = parser.parse_args()
    # Small caches, so that they are full, and memory flat, soon.
    sizes = ["--memory.sessions", str(args.sessions // 6 if args.full else args.sessions), "--memory.context", "1024"]
    caches = ["--engine.prefix_cache_bytes", str(4 * 2**20), "--engine.vision_cache_bytes", str(2**20)]
    caches += ["--engine.picture_cache_bytes", str(4 * 2**20)]
    if args.full:  # as much on the host; replies go on while others wait
        sizes += ["--engine.host_bytes", str(args.sessions // 6 * SESSION_BYTES), "--engine.max_running", "16"]
    if args.disk is not None:
        sizes += ["--engine.disk_folder", args.disk]
    flags = args.flags or [*sizes, *caches]
    server = Server(args.model, flags)
    try:
        raise SystemExit(asyncio.run(run(server, args.sessions, args.minutes)))
    finally:
        server.process.kill()


if __name__ == "__main__":
    main()
