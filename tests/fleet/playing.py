"""A fleet, as a user starts it, and sessions with pictures through the official client. Benchmarks use it too."""

from __future__ import annotations

import asyncio
import base64
import functools
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
from PIL import Image, ImageDraw

KEY = "the-fleet's-own"


def wait_until_answers(url: str, seconds: float, process: subprocess.Popen[Any] | None = None) -> None:
    """Until this address says 200; `process`: whoever is behind it, and must be alive."""
    until = time.monotonic() + seconds
    while True:
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        assert time.monotonic() < until and (process is None or process.poll() is None), f"{url} did not come up"
        time.sleep(0.1)


class Serving:
    """`holotron serve`, with replicas or without."""

    def __init__(self, *flags: str, replicas: int = 0, threads: int = 1, folder: str = "") -> None:
        several = ["--replicas", str(replicas), "--fleet.key", KEY] if replicas else []
        here = str(Path(__file__).parents[2] / "src")
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "XDG_STATE_HOME": folder, "PYTHONPATH": here}
        command = [sys.executable, "-m", "holotron.cli.main", "serve", "--server.port", "0", *several, *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        self.lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        self.replicas = replicas
        self.port = 0
        until = time.monotonic() + 120
        while not self.port or not self._ready():
            if self.process.poll() is not None or time.monotonic() > until:
                self.process.kill()
                raise RuntimeError("the server did not come up:\n" + "".join(self.lines[-20:]))
            time.sleep(0.05)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if not self.port and '"listening"' in line and not line.startswith('{"replica"'):
                self.port = json.loads(line)["port"]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _ready(self) -> bool:
        try:
            health = httpx.get(f"{self.url}/health", timeout=5)
        except httpx.HTTPError:
            return False
        stages = health.json().get("replicas", {})
        return health.status_code == 200 and list(stages.values()).count("ready") == self.replicas

    def wait_until_whole(self, seconds: float = 120.0) -> None:
        until = time.monotonic() + seconds
        while not self._ready():
            assert time.monotonic() < until, "a replica did not come back"
            time.sleep(0.1)

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Bearer {KEY}"}
        answer = httpx.request(method, f"{self.url}{path}", json=body, headers=headers, timeout=120)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def metrics(self) -> dict[str, float]:
        text = httpx.get(f"{self.url}/metrics", timeout=60).text
        rows = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in rows}

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def serving(*flags: str, replicas: int = 0, threads: int = 1) -> Iterator[Serving]:
    with tempfile.TemporaryDirectory() as folder:
        server = Serving(*flags, replicas=replicas, threads=threads, folder=folder)
        try:
            yield server
        finally:
            server.stop()


@functools.cache
def screenshot(session: int, step: int, size: tuple[int, int] = (320, 200)) -> str:
    """A page of its own, the same each time."""
    draw = random.Random(session * 1000 + step)
    image = Image.new("RGB", size, (draw.randrange(256), draw.randrange(256), draw.randrange(256)))
    pen = ImageDraw.Draw(image)
    for _ in range(12):
        x, y = draw.randrange(size[0]), draw.randrange(size[1])
        pen.rectangle((x, y, x + draw.randrange(80), y + draw.randrange(40)), fill=draw.randrange(2**24))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


async def step(
    client: openai.AsyncOpenAI, session: int, number: int, *, tokens: int, stream: bool, temperature: float
) -> list[int]:
    """One turn of a session: a screenshot, and the tokens of the reply."""
    content = [
        {"type": "image_url", "image_url": {"url": screenshot(session, number)}},
        {"type": "text", "text": f"Step {number} of task {session}: what now?"},
    ]
    extra: dict[str, Any] = {"session_id": f"task-{session}", "ignore_eos": True, "return_token_ids": True}
    if number == 0:
        extra["session_open"] = True
    answer = await client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": content}],  # type: ignore[list-item,misc]
        max_tokens=tokens,
        temperature=temperature,
        seed=7 + session * 100 + number,  # none of these meets a near tie, which fp32 may round either way
        stream=stream,
        extra_body=extra,
    )
    if not stream:
        return list(answer.choices[0].token_ids)  # type: ignore[union-attr]
    said: list[int] = []
    async for chunk in answer:  # type: ignore[union-attr]
        if chunk.choices:
            said += getattr(chunk.choices[0], "token_ids", None) or []
    return said


async def play(
    url: str,
    sessions: range,
    steps: int,
    *,
    at_once: int = 64,
    tokens: int = 8,
    close: bool = True,
    key: str = "none",
    patience: float = 120.0,
) -> dict[int, list[list[int]]]:
    """All sessions to their end, some at a time: the tokens of each step of each. Half of the replies are streams, a
    third is sampled, by seed."""
    said: dict[int, list[list[int]]] = {}
    gate = asyncio.Semaphore(at_once)
    limits = httpx.Limits(max_connections=at_once + 8)
    async with (
        httpx.AsyncClient(limits=limits, timeout=patience) as http,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, http_client=http) as client,
    ):

        async def one(session: int) -> None:
            async with gate:
                said[session] = []
                for number in range(steps):
                    streamed, warm = (session + number) % 2 == 0, 1.0 if session % 3 == 0 else 0.0
                    reply = await step(client, session, number, tokens=tokens, stream=streamed, temperature=warm)
                    said[session].append(reply)
                if close:
                    headers = {"authorization": f"Bearer {key}"}
                    answer = await http.delete(f"{url}/v1/sessions/task-{session}", headers=headers)
                    assert answer.status_code == 200, answer.text

        await asyncio.gather(*map(one, sessions))
    return said


def commit() -> str:
    told = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    return told.stdout.strip() or "unknown"
