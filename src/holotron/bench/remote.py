"""The workload against any OpenAI-compatible server.

`completions` sends token ids to /v1/completions, the whole prompt every time (vLLM, SGLang and we take them); the
server's prefix cache has to find what it knows. `sessions` uses our session extension and sends only what is new. Both
need the standard library alone. `chat` and `chat-sessions` are the same with messages, and a picture per step if asked
for, through the official client (`chat`).

Before the clock starts, every session makes a step that nobody counts: servers compile and capture as they go.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from holotron.bench.chat import Chat, ChatAgent
from holotron.bench.report import BenchReport, Step
from holotron.bench.screens import Look, Screens
from holotron.bench.workload import Agent, Workload, system_prompt
from holotron.errors import ConfigError, PolicyError

Api = Literal["completions", "sessions", "chat", "chat-sessions"]


@dataclass(frozen=True)
class Remote:
    url: str  # ends in /v1
    model: str
    api: Api = "completions"
    vocabulary: range = range(1000, 100_000)  # token ids to draw from, where the server does not say which it has
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
    ignore_eos: bool = True,
) -> Remote:
    """Ask the server what it serves; `vocabulary` is drawn from instead of what it says of its own."""
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
    return Remote(url, name, api, drawn, ignore_eos)


class RemoteAgent(Protocol):
    def say(self, max_tokens: int) -> dict[str, Any]: ...

    def close(self) -> None: ...


class Driver:
    def __init__(self, remote: Remote, workload: Workload, screens: Path | None = None) -> None:
        self._remote = remote
        self._workload = workload
        self._system = system_prompt(workload, remote.vocabulary)
        self._lock = threading.Lock()
        self._chat: Chat | None = None
        self._screens: Screens | None = None
        self._words_per_token = 1.0
        if remote.api.startswith("chat"):
            self._chat = Chat(remote.url, remote.model, ignore_eos=remote.ignore_eos, timeout=remote.timeout)
        if workload.picture is not None:
            self._screens = Screens(Look(workload.picture, workload.seed, workload.unchanged), screens)
        self.steps: list[Step] = []
        self.failures: list[str] = []

    def prepare(self) -> float:
        """Everything that is not counted; seconds until the first token came."""
        sessions = self._workload.sessions
        if self._screens is not None:  # those of the rehearsal, too
            self._screens.prepare(range(sessions), self._workload.steps)
            self._screens.prepare(range(sessions, 2 * sessions), 1)
        started = time.perf_counter()
        if self._chat is not None:
            self._words_per_token = self._chat.words_per_token()
        else:
            self._rehearse(sessions, 1)
        first = time.perf_counter() - started
        with ThreadPoolExecutor(sessions) as pool:
            list(pool.map(self._rehearse, range(sessions, 2 * sessions), [self._workload.generate_tokens] * sessions))
        return first

    def run(self) -> float:
        started = time.perf_counter()
        with ThreadPoolExecutor(self._workload.sessions) as pool:
            list(pool.map(self._live, range(self._workload.sessions)))
        return time.perf_counter() - started

    def _rehearse(self, number: int, max_tokens: int) -> None:
        agent = self._agent(number)
        with suppress(PolicyError):  # it will be told when it counts
            agent.say(max_tokens)
            agent.close()

    def _agent(self, number: int) -> RemoteAgent:
        remote, work = self._remote, self._workload
        if self._chat is None:
            return _TokenAgent(remote, work, number, self._system)
        named, ratio = remote.api == "chat-sessions", self._words_per_token
        return ChatAgent(self._chat, work, number, self._screens, session=named, words_per_token=ratio)

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


def measure(remote: Remote, workload: Workload, screens: Path | None = None) -> BenchReport:
    """`screens`: a folder to keep pictures in."""
    driver = Driver(remote, workload, screens)
    first = driver.prepare()
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
