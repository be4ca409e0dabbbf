"""Clients that want the server to stop answering: each does its worst, again and again, until it is told to stop.

    with attack(port) as attackers:
        ...                       # twenty of them at work

Everything they send is made beforehand and sent through plain sockets, so that they cost the server more than whoever
measures it.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from PIL import Image

HELLO = [{"role": "user", "content": "Hello"}]
PATIENCE = 3.0  # seconds, then they leave


def post(body: Any, path: str = "/v1/chat/completions") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(data)}"
    return f"{head}\r\n\r\n".encode() + data


def _bomb(width: int, height: int) -> str:
    buffer = io.BytesIO()
    Image.new("1", (width, height)).save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


class Attackers:
    def __init__(self, port: int) -> None:
        self.over = threading.Event()
        self.sent: dict[str, int] = {}
        self._port = port
        words = {"messages": [{"role": "user", "content": "the quick brown fox " * 1_000_000}]}  # 20 MB
        spaces = {"messages": [{"role": "user", "content": " " * 200_000 + "x y" * 100_000}] * 4}
        part = {"type": "image_url", "image_url": {"url": _bomb(8192, 4096)}}
        bombs = {"messages": [{"role": "user", "content": [part] * 4}]}  # 134 megapixels: all that is allowed
        self._texts = [post(words), post({"prompt": "a" * 30_000_000}, "/v1/completions"), post(spaces)]
        self._json = [
            post(b'{"messages":[' + b",".join([b"[]"] * 5_000_000) + b"]}"),
            post(b'{"messages":[' + b",".join([b'{"role":"user","content":""}'] * 15_000) + b"]}"),
            post(b'{"prompt":[' + b",".join([b"1"] * 450_000) + b',"x"]}', "/v1/completions"),
        ]
        self._pictures = [post(bombs)]
        patterns = ["(a{1,1000}){1,1000}", "(x+x+)+y", "([a-z]{1,200} ){1,200}", "(.*a){40}"]
        formats = [{"type": "regex", "regex": f"{pattern}{n}"} for n in range(6) for pattern in patterns]
        schema = {"anyOf": [{"type": "string", "const": f"{n}" * 20} for n in range(2000)]}
        formats.append({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
        self._grammars = [post({"messages": HELLO, "max_tokens": 8, "response_format": one}) for one in formats]
        self._stream = post(
            {"messages": HELLO, "max_tokens": 30_000, "ignore_eos": True, "stream": True, "logprobs": True}
        )

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE)
        connection.settimeout(PATIENCE)
        return connection

    def _send(self, kind: str, request: bytes) -> None:
        with self.connect() as connection:
            connection.sendall(request)
            self.sent[kind] = self.sent.get(kind, 0) + 1
            while connection.recv(65536) and not self.over.is_set():
                return  # an answer: the next one, please

    def texts(self, draw: random.Random) -> None:
        self._send("large text", draw.choice(self._texts))

    def json(self, draw: random.Random) -> None:
        self._send("JSON of many values", draw.choice(self._json))

    def pictures(self, draw: random.Random) -> None:
        self._send("picture bombs", draw.choice(self._pictures))

    def grammars(self, draw: random.Random) -> None:
        self._send("hostile grammar", draw.choice(self._grammars))

    def silence(self, draw: random.Random) -> None:
        """Thirty connections that say nothing, or something and then nothing."""
        with contextlib.ExitStack() as stack:
            for n in range(30):
                connection = stack.enter_context(self.connect())
                connection.sendall((b"", b"GET /", self._stream[:200])[n % 3])
            self.sent["silent connections"] = self.sent.get("silent connections", 0) + 30
            self.over.wait(PATIENCE)

    def unread(self, draw: random.Random) -> None:
        """A long reply that nobody reads."""
        with self.connect() as connection:
            connection.sendall(self._stream)
            self.sent["unread streams"] = self.sent.get("unread streams", 0) + 1
            self.over.wait(PATIENCE)

    def all(self) -> list[Callable[[random.Random], None]]:
        kinds = [
            (self.texts, 4),
            (self.json, 4),
            (self.pictures, 4),
            (self.grammars, 4),
            (self.silence, 2),
            (self.unread, 2),
        ]
        return [attacker for attacker, count in kinds for _ in range(count)]

    def run(self, attacker: Callable[[random.Random], None], seed: int) -> None:
        draw = random.Random(seed)
        while not self.over.is_set():
            with contextlib.suppress(OSError):  # refused, cut off, out of patience: all as they like it
                attacker(draw)
            time.sleep(0.01)


@contextlib.contextmanager
def attack(port: int) -> Iterator[Attackers]:
    attackers = Attackers(port)
    threads = [threading.Thread(target=attackers.run, args=(one, n)) for n, one in enumerate(attackers.all())]
    for thread in threads:
        thread.start()
    try:
        yield attackers
    finally:
        attackers.over.set()
        for thread in threads:
            thread.join()


def health_times(port: int, seconds: float, every: float = 0.05) -> list[float]:
    """How long /health/live took, on one connection that is kept."""
    times = []
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            started = time.perf_counter()
            connection.sendall(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
            answer = b""
            while b'"alive"}' not in answer:
                piece = connection.recv(4096)
                assert piece, "the server closed the connection"
                answer += piece
            times.append(time.perf_counter() - started)
            time.sleep(every)
    return times
