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


def _bomb(mode: str, form: str) -> Any:
    """Four pictures, 134 megapixels: all that is allowed."""
    buffer = io.BytesIO()
    Image.new(mode, (8192, 4096)).save(buffer, form)
    url = f"data:image/{form.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"
    return {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}] * 4}]}


def _said(text: str, role: str = "user") -> Any:
    return {"messages": [{"role": role, "content": text}]}


def _json(start: bytes, piece: bytes, count: int, path: str = "/v1/chat/completions") -> bytes:
    """A body of many values; `%d` in a piece is its number."""
    pieces = [piece.replace(b"%d", str(n).encode()) for n in range(count)] if b"%d" in piece else [piece] * count
    return post(start + b",".join(pieces) + (b"}" if b"%d" in piece else b"]}"), path)


class Attackers:
    def __init__(self, port: int) -> None:
        self.over = threading.Event()
        self.sent: dict[str, int] = {}
        self._port = port
        words = "the quick brown fox " * 1_000_000  # 20 MB
        self._texts = [
            post(_said(words)),
            post({"input": words}, "/v1/responses"),
            post({"prompt": "a" * 30_000_000}, "/v1/completions"),
            post({"messages": [{"role": "user", "content": " " * 200_000 + "x y" * 100_000}] * 4}),
            post(_said(",[{:" * 8_000_000)),  # signs that have to be looked at, because they might be values
            post(_said('"\\' * 6_000_000)),
            post(_said("\u4e2d" * 5_000_000)),
            post(_said("</think>" * 4_000_000, "assistant")),
            post(_said("<think>" + "<" * 30_000_000, "assistant")),
        ]
        self._json = [
            _json(b'{"messages":[', b"[]", 5_000_000),
            _json(b'{"messages":[', b'{"role":"user","content":""}', 9_000),
            _json(b'{"prompt":[', b"1", 450_000, "/v1/completions"),
            _json(b'{"prompt":[', b"1.5", 450_000, "/v1/completions"),
            _json(b'{"messages":[],', b'"k%d":1', 450_000),
            _json(b'{"messages":[],', b'"k%d":1', 45_000),
            _json(b'{"tokens":[', b"1", 450_000, "/detokenize"),
            _json(b'{"input":[', b'{"role":"user","content":"a"}', 4_000, "/v1/responses"),
        ]
        kinds = [("1", "PNG"), ("RGBA", "PNG"), ("P", "GIF"), ("RGB", "WEBP"), ("RGB", "JPEG")]
        self._pictures = [post(_bomb(mode, form)) for mode, form in kinds]
        patterns = ["(a{1,1000}){1,1000}", "(x+x+)+y", "([a-z]{1,200} ){1,200}", "(.*a){40}"]
        formats = [{"type": "regex", "regex": f"{pattern}{n}"} for n in range(6) for pattern in patterns]
        schema = {"anyOf": [{"type": "string", "const": f"{n}" * 20} for n in range(2000)]}
        formats.append({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
        self._grammars = [post({"messages": HELLO, "max_tokens": 8, "response_format": one}) for one in formats]
        many = {"messages": HELLO, "max_tokens": 1000, "ignore_eos": True, "logprobs": True, "top_logprobs": 20, "n": 8}
        self._answers = [post(many), post(many | {"stream": True})]
        self._stream = post(
            {"messages": HELLO, "max_tokens": 30_000, "ignore_eos": True, "stream": True, "logprobs": True}
        )
        self._chunks = (
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"transfer-encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 500_000
        )

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE)
        connection.settimeout(PATIENCE)
        return connection

    def _send(self, kind: str, request: bytes) -> None:
        with self.connect() as connection:
            self.sent[kind] = self.sent.get(kind, 0) + 1
            connection.sendall(request)
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

    def answers(self, draw: random.Random) -> None:
        """Replies that are long to write, each read to its end."""
        with self.connect() as connection:
            connection.settimeout(20)
            connection.sendall(draw.choice(self._answers).replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))
            self.sent["long answers"] = self.sent.get("long answers", 0) + 1
            while connection.recv(1 << 20) and not self.over.is_set():
                pass

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

    def chunks(self, draw: random.Random) -> None:
        """A body in chunks of one byte: reading it is work, byte by byte, before anybody is asked for a key."""
        self._send("small chunks", self._chunks)

    def all(self) -> list[Callable[[random.Random], None]]:
        kinds = [
            (self.texts, 4),
            (self.json, 3),
            (self.chunks, 1),
            (self.pictures, 4),
            (self.grammars, 3),
            (self.answers, 1),
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
