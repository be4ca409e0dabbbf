"""One episode behind loopback HTTP, for agents that share a container with it.

    python -m holotron.exchange.episode_server sites shop-wish 3 --state /var/lib/holotron --port 8750

    GET  /look          {"goal", "step", "steps_left", "over", "note", "url", "width", "height"}
    GET  /screenshot    the picture, as taken
    POST /act           an action as JSON (`holotron.actions`), coordinates in pixels of that width and height
    GET  /verdict       {"reward", "success", "steps"}; needs the token in the state folder, which only its owner reads

An agent that runs as another user can look and act, and cannot ask how it did. An action that is none changes nothing
and says why. Where the environment itself fails there is no verdict: a broken episode is no failure of the agent.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import json
import os
import secrets
import threading
from collections.abc import Coroutine
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

from holotron.actions import action_from_json
from holotron.errors import EnvironmentFault, HolotronError, InputError
from holotron.suites.base import find_suite
from holotron.types import Answer, Observation, StepResult

T = TypeVar("T")
LARGEST = 1 << 20  # bytes of an action


class ServedEpisode:
    """The episode, and how it stands. Calls come from the server's threads; the environment lives in one loop."""

    def __init__(self, spec: str, task: str, seed: int) -> None:
        self._suite = find_suite(spec, tasks=[task], seeds=range(seed, seed + 1))
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._turn = threading.Lock()
        self.steps = 0
        self.over = False
        self.fault = ""
        self._result: StepResult | None = None
        self._run(self._open())

    async def _open(self) -> None:
        self._pool = self._suite.open(1)
        self._environment = await self._pool.acquire()
        self.seen: Observation = await self._environment.reset(self._suite.tasks[0])
        self.goal = self._environment.task.goal

    def act(self, written: Any) -> str:
        """What there is to say about it; empty if nothing."""
        with self._turn:
            if self.over or self.fault:
                return self.fault or "The episode is over."
            action = action_from_json(written, self._suite.actions)
            try:
                self._result = self._run(self._environment.step(action))
            except EnvironmentFault as error:
                self.fault = f"the environment failed: {error}"
                return self.fault
            self.steps += 1
            self.seen = self._result.observation
            done = self._result.done or isinstance(action, Answer)
            self.over = done or self.steps >= self._suite.limits.steps
            return self.seen.note

    def look(self, note: str = "") -> dict[str, Any]:
        width, height = self.seen.viewport
        return {
            "goal": self.goal, "step": self.steps, "steps_left": max(0, self._suite.limits.steps - self.steps),
            "over": self.over, "note": note or self.seen.note, "url": self.seen.url, "width": width, "height": height,
        }  # fmt: skip

    def verdict(self) -> dict[str, float]:
        if self.fault:
            raise EnvironmentFault(self.fault)
        result = self._result
        ended = result is not None and self.over
        success = bool(ended and result is not None and result.success)
        reward = float(result.reward) if ended and result is not None else 0.0
        return {"reward": reward, "success": float(success), "steps": float(self.steps)}

    def close(self) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _close(self) -> None:
        await self._pool.release(self._environment)
        await self._pool.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def make_server(episode: ServedEpisode, token: str, port: int = 0) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/look":
                self._send(200, episode.look())
            elif self.path == "/screenshot":
                self._send(200, episode.seen.image, episode.seen.mime)
            elif self.path == "/verdict":
                if not hmac.compare_digest(self.headers.get("X-Token", ""), token):
                    return self._send(403, {"error": "the verdict is for the verifier"})
                try:
                    self._send(200, episode.verdict())
                except EnvironmentFault as error:
                    self._send(503, {"error": str(error)})
            else:
                self._send(404, {"error": "there are /look, /screenshot, /act and /verdict"})
            return None

        def do_POST(self) -> None:
            if self.path != "/act":
                return self._send(404, {"error": "actions go to /act"})
            try:
                size = int(self.headers.get("Content-Length") or 0)
                if not 0 < size <= LARGEST:
                    raise InputError(f"an action has at most {LARGEST} bytes")
                note = episode.act(json.loads(self.rfile.read(size)))
            except (ValueError, InputError) as error:
                return self._send(400, {"error": str(error), **episode.look()})
            return self._send(200, episode.look(note))

        def _send(self, status: int, body: dict[str, Any] | bytes, mime: str = "application/json") -> None:
            data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
            self.send_response(status)
            self.send_header("Content-Type", mime)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve one episode of a suite on loopback.")
    parser.add_argument("suite")
    parser.add_argument("task")
    parser.add_argument("seed", type=int)
    parser.add_argument("--port", type=int, default=8750)
    parser.add_argument("--state", type=Path, required=True, help="A folder of its own, for the token and the port.")
    wanted = parser.parse_args()
    wanted.state.mkdir(parents=True, exist_ok=True)
    wanted.state.chmod(0o700)
    token = secrets.token_hex(16)
    try:
        episode = ServedEpisode(wanted.suite, wanted.task, wanted.seed)
    except HolotronError as error:
        raise SystemExit(f"holotron: {error}") from None
    server = make_server(episode, token, wanted.port)
    with open(os.open(wanted.state / "token", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(token)
    print(f"port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
