"""An OpenAI-compatible endpoint for judges: real HTTP, every request kept, answers as a test wants them.

    with judge_server(lambda request: "SUCCESS") as server:
        server.url, server.requests

The function gets the request's JSON and returns a reply's text, a whole choice (`Full`), an HTTP error (`Trouble`),
bytes that are no completion, a number (seconds without an answer), or None: it breaks off.
"""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Trouble:
    status: int
    body: dict[str, Any] = field(default_factory=lambda: {"message": "in trouble"})


@dataclass(frozen=True)
class Full:
    """A whole choice."""

    message: dict[str, Any]
    finish_reason: str = "stop"


Reply = str | float | Trouble | Full | bytes | None


class JudgeServer:
    def __init__(self, reply: Callable[[dict[str, Any]], Reply]) -> None:
        self.reply = reply
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.models = ["looker"]
        self.busy = self.most_busy = 0
        self._lock = threading.Lock()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.keys.append(self.headers.get("Authorization", ""))
                models = [{"id": name, "object": "model", "created": 0, "owned_by": "test"} for name in server.models]
                self._send(200, {"object": "list", "data": models})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server._lock:
                    server.requests.append(body)
                    server.keys.append(self.headers.get("Authorization", ""))
                    server.busy += 1
                    server.most_busy = max(server.most_busy, server.busy)
                try:
                    self._answer(server.reply(body))
                finally:
                    with server._lock:
                        server.busy -= 1

            def _answer(self, reply: Reply) -> None:
                if reply is None:
                    self.close_connection = True
                    return
                if isinstance(reply, float):
                    time.sleep(reply)
                    reply = "too late: SUCCESS"
                if isinstance(reply, Trouble):
                    self._send(reply.status, {"error": reply.body}, **{"retry-after-ms": "5"})
                    return
                if isinstance(reply, bytes):
                    self._send(200, reply)
                    return
                full = Full({"content": reply}) if isinstance(reply, str) else reply
                message = {"role": "assistant", "content": None, **full.message}
                choice = {"index": 0, "finish_reason": full.finish_reason, "message": message}
                usage = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
                head = {"id": "1", "object": "chat.completion", "created": 0, "model": "looker"}
                self._send(200, {**head, "choices": [choice], "usage": usage})

            def _send(self, status: int, body: Any, **headers: str) -> None:
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                try:
                    self.send_response(status)
                    for name, value in {"Content-Type": "application/json", **headers}.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except (BrokenPipeError, ConnectionResetError):  # the client waited long enough
                    self.close_connection = True

            def log_message(self, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def judge_server(reply: Callable[[dict[str, Any]], Reply]) -> Iterator[JudgeServer]:
    server = JudgeServer(reply)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def text_of(request: dict[str, Any]) -> str:
    """All text of a request."""
    parts = []
    for message in request["messages"]:
        content = message["content"]
        parts += [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    return "\n".join(parts)


def images_of(request: dict[str, Any]) -> list[str]:
    """The data URLs of a request."""
    contents = [message["content"] for message in request["messages"] if isinstance(message["content"], list)]
    return [part["image_url"]["url"] for content in contents for part in content if part["type"] == "image_url"]
