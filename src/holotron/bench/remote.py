"""The workload against any OpenAI-compatible server, with the standard library alone.

`completions` sends token ids to /v1/completions, the whole prompt every time (vLLM, SGLang and we take them); the
server's prefix cache has to find what it knows. `sessions` uses our session extension and sends only what is new.
`chat` sends texts, and a picture per step if asked for, to /v1/chat/completions: works everywhere, but token counts are
then the server's business.
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import os
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from holotron.bench.report import BenchReport, Step
from holotron.bench.workload import Agent, Workload, system_prompt
from holotron.errors import ConfigError, PolicyError

Api = Literal["completions", "sessions", "chat"]
WORDS = ("button", "window", "search", "field", "page", "menu", "login", "table", "price", "filter", "next", "open")


@dataclass(frozen=True)
class Remote:
    url: str  # ends in /v1
    model: str
    api: Api = "completions"
    vocabulary: range = range(1000, 100_000)  # token ids to draw from, where the server does not say which it has
    picture: tuple[int, int] | None = None  # chat only
    ignore_eos: bool = True
    timeout: float = 600.0

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._call("POST", path, body)

    def get(self, path: str) -> dict[str, Any]:
        return self._call("GET", path, None)

    def _call(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self.timeout)
        key = os.environ.get("HOLOTRON_API_KEY") or os.environ.get("OPENAI_API_KEY")
        headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, parts.path.rstrip("/") + path, payload, headers)
            response = connection.getresponse()
            text = response.read()
        except OSError as error:
            raise PolicyError(f"cannot reach {parts.netloc}: {error.strerror or error}. Is a server running?") from None
        finally:
            connection.close()
        if response.status != 200:
            raise PolicyError(f"{parts.netloc} answered {response.status}: {text[:300].decode(errors='replace')}")
        try:
            answer: dict[str, Any] = json.loads(text)
        except ValueError:
            raise PolicyError(
                f"{parts.netloc} did not answer with JSON; is {self.url} an OpenAI-compatible API?"
            ) from None
        return answer


def connect(
    url: str,
    model: str | None,
    api: Api,
    *,
    vocabulary: range | None = None,
    picture: tuple[int, int] | None = None,
    ignore_eos: bool = True,
) -> Remote:
    """Ask the server what it serves; `vocabulary` is drawn from instead of what it says of its own."""
    if picture is not None and api != "chat":
        raise ConfigError(f"--picture with --url needs --api chat: --api {api} sends token ids, and no pictures")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"--url {url} is not the address of a server; write one such as http://127.0.0.1:8000/v1")
    cards = {str(card.get("id")): card for card in Remote(url, "").get("/models").get("data") or ()}
    if not cards:
        raise ConfigError(f"{url} serves no model")
    name = model or next(iter(cards))
    said = cards.get(name, {}).get("text_tokens")
    drawn = vocabulary or (range(*said) if said else Remote.vocabulary)
    return Remote(url, name, api, drawn, picture, ignore_eos)


class Driver:
    def __init__(self, remote: Remote, workload: Workload) -> None:
        self._remote = remote
        self._workload = workload
        self._system = system_prompt(workload, remote.vocabulary)
        self._lock = threading.Lock()
        self.steps: list[Step] = []
        self.failures: list[str] = []

    def run(self) -> float:
        started = time.perf_counter()
        with ThreadPoolExecutor(self._workload.sessions) as pool:
            list(pool.map(self._live, range(self._workload.sessions)))
        return time.perf_counter() - started

    def first_token(self) -> float:
        started = time.perf_counter()
        agent = self._agent(-1)
        agent.say(max_tokens=1)
        agent.close()
        return time.perf_counter() - started

    def _agent(self, number: int) -> _TokenAgent | _ChatAgent:
        if self._remote.api == "chat":
            return _ChatAgent(self._remote, self._workload, number)
        return _TokenAgent(self._remote, self._workload, number, self._system)

    def _live(self, number: int) -> None:
        agent = self._agent(number)
        try:
            for step in range(self._workload.steps):
                started = time.perf_counter()
                usage = agent.say(self._workload.generate_tokens)
                self._record(number, step, time.perf_counter() - started, usage)
            agent.close()
        except PolicyError as error:
            with self._lock:
                self.failures.append(str(error))

    def _record(self, session: int, number: int, seconds: float, usage: dict[str, Any]) -> None:
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        step = Step(session, number, seconds, usage["prompt_tokens"], cached, usage["completion_tokens"])
        with self._lock:
            self.steps.append(step)


class _TokenAgent:
    """Token ids, whole or in a session. History needs the reply's own ids: asked for where the server gives them,
    stood in for by random ones where not (then the reply is a cache miss, as it is with re-rendered text)."""

    def __init__(self, remote: Remote, workload: Workload, number: int, system: Sequence[int]) -> None:
        self._remote = remote
        self._workload = workload
        self._number = number
        self._system = list(system)
        self._agent = Agent(workload, number, remote.vocabulary)
        self._log = list(system)
        self._session: str | None = None

    def say(self, max_tokens: int) -> dict[str, Any]:
        remote, sent = self._remote, self._agent.next()
        body = {
            "model": remote.model,
            "max_tokens": max_tokens,
            "temperature": self._workload.temperature,
            "seed": self._workload.seed,
            "return_token_ids": True,
            **({"ignore_eos": True} if remote.ignore_eos else {}),
        }
        if sent.anew:
            self._log = list(self._system)
        self._log += sent.tokens
        if remote.api == "sessions" and self._workload.history != "window":
            if sent.anew:
                self.close()
            body |= {"session_id": self._session} if self._session else {"session_open": True}
            body["prompt"] = sent.tokens if self._session else self._log
        else:
            body["prompt"] = self._log
        answer = remote.post("/completions", body)
        if "session" in answer:
            self._session = answer["session"]["id"]
        reply = answer["choices"][0].get("token_ids") or self._guess(answer["usage"]["completion_tokens"])
        self._log += reply
        self._agent.replied(reply)
        usage: dict[str, Any] = answer["usage"]
        return usage

    def close(self) -> None:
        if self._session is not None:
            self._remote._call("DELETE", f"/sessions/{self._session}", None)
            self._session = None

    def _guess(self, count: int) -> list[int]:
        return random.Random(f"{self._number}/{len(self._log)}").choices(self._remote.vocabulary, k=count)


class _ChatAgent:
    def __init__(self, remote: Remote, workload: Workload, number: int) -> None:
        if workload.history == "epoch":
            raise ConfigError("chat knows the histories append and window")
        self._remote = remote
        self._workload = workload
        self._draw = random.Random(f"{workload.seed}/{number}")
        system = random.Random(f"{workload.seed}/system").choices(WORDS, k=workload.system_tokens)
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": " ".join(system)}]

    def say(self, max_tokens: int) -> dict[str, Any]:
        remote = self._remote
        words = " ".join(self._draw.choices(WORDS, k=self._workload.text_tokens))
        self._messages.append({"role": "user", "content": [*self._screen(), {"type": "text", "text": words}]})
        if self._workload.history == "window":
            self._forget_old_screens()
        body = {
            "model": remote.model,
            "messages": self._messages,
            "max_tokens": max_tokens,
            "temperature": self._workload.temperature,
            **({"ignore_eos": True} if remote.ignore_eos else {}),
        }
        answer = remote.post("/chat/completions", body)
        self._messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"] or ""})
        usage: dict[str, Any] = answer["usage"]
        return usage

    def close(self) -> None:
        pass

    def _screen(self) -> list[dict[str, Any]]:
        if self._remote.picture is None:
            words = " ".join(self._draw.choices(WORDS, k=self._workload.screenshot_tokens))
            return [{"type": "text", "text": words + "\n"}]
        return [{"type": "image_url", "image_url": {"url": synthetic_screenshot(self._draw, self._remote.picture)}}]

    def _forget_old_screens(self) -> None:
        users = [message for message in self._messages if message["role"] == "user"]
        for message in users[: -self._workload.window]:
            message["content"] = message["content"][-1:]


def synthetic_screenshot(draw: random.Random, size: tuple[int, int]) -> str:
    """A page-like picture: flat areas, boxes and lines; different every time."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(image)
    for _ in range(60):
        x, y = draw.randrange(size[0]), draw.randrange(size[1])
        colour = (draw.randrange(256), draw.randrange(256), draw.randrange(256))
        pen.rectangle((x, y, x + draw.randrange(20, 400), y + draw.randrange(8, 60)), fill=colour)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def measure(remote: Remote, workload: Workload) -> BenchReport:
    driver = Driver(remote, workload)
    first = driver.first_token()
    seconds = driver.run()
    if not driver.steps:
        raise PolicyError(f"no step succeeded; the first failure was: {driver.failures[0]}")
    return BenchReport(
        remote.url,
        remote.model,
        workload,
        seconds,
        tuple(driver.steps),
        start_to_first_token=first,
        failures=len(driver.failures),
        first_failure=driver.failures[0] if driver.failures else "",
    )
