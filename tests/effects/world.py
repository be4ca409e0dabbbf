"""A site that can be changed, and that says when it was: every request that changes something, and every message."""

from __future__ import annotations

import base64
import hashlib
import http.server
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

_KINDS = {"js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}


class World:
    """`pages` by path. A change is any request but GET, HEAD and OPTIONS, anything below /effect, a WebSocket message,
    and what is said when a WebSocket is closed."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.pages: dict[str, str] = {}
        self.headers: dict[str, dict[str, str]] = {}  # of answers, by path; and their status
        self.logins: dict[str, str] = {}  # who may look at pages; nobody in it: everybody
        self.changes: list[str] = []
        self.seen: list[str] = []
        self.received: list[str] = []  # everything, word for word
        world = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                world.seen.append(parts.path)
                self._note("")
                if parts.path.startswith("/effect"):
                    world.changes.append(f"{self.command} {self.path}")
                if world.logins and self.headers.get("Authorization") not in map(_basic, world.logins.items()):
                    return self._answer(401, b"", **{"WWW-Authenticate": "Basic realm=x"})
                if self.headers.get("Upgrade", "").lower() == "websocket":
                    return self._listen()
                if parts.path == "/file.zip":
                    return self._answer(200, b"zip", **{"Content-Disposition": 'attachment; filename="a.zip"'})
                if parts.path == "/redirect":
                    return self._answer(302, b"", Location=parse_qs(parts.query)["to"][0])
                path = parts.path if parts.path in world.pages else f"{parts.path}.svg"
                page = world.pages.get(path, "<title>nothing</title>")
                kind = _KINDS.get(path.rpartition(".")[2], "text/html; charset=utf-8")
                said = {"Status": "200", "Content-Type": kind, **world.headers.get(path, {})}
                return self._answer(int(said.pop("Status")), page.encode(), **said)

            def _note(self, body: str) -> None:
                world.received.append(f"{self.requestline}\n{self.headers}\n{body}")

            do_HEAD = do_GET

            def do_OPTIONS(self) -> None:
                if self.path.startswith("/effect?"):  # which tells something, before anything is done
                    world.changes.append(f"OPTIONS {self.path}")
                self._answer(204, b"")

            def _change(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self._note(body.decode("latin-1"))
                world.changes.append(f"{self.command} {self.path}")
                to = dict(pair.split("=", 1) for pair in urlsplit(self.path).query.split("&") if "=" in pair).get("to")
                if to:
                    return self._answer(307, b"", Location=base64.b64decode(to).decode())
                return self._answer(200, b"<title>changed</title>" + body)

            do_POST = do_PUT = do_DELETE = do_PATCH = _change

            def _answer(self, status: int, body: bytes, **headers: str) -> None:
                self.send_response(status)
                headers = {"Content-Type": "text/html; charset=utf-8", **headers}
                for name in ("Origin", "Methods", "Headers"):
                    headers[f"Access-Control-Allow-{name}"] = "*"
                for name, value in headers.items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if status != 204 and self.command != "HEAD":
                    self.wfile.write(body)

            def _listen(self) -> None:
                key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
                self.send_response(101)
                accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
                for name, value in (
                    ("Upgrade", "websocket"),
                    ("Connection", "Upgrade"),
                    ("Sec-WebSocket-Accept", accept),
                ):
                    self.send_header(name, value)
                self.end_headers()
                self.close_connection = True
                while head := self.rfile.read(2):
                    length = head[1] & 127
                    length = struct.unpack(">H", self.rfile.read(2))[0] if length == 126 else length
                    mask, data = self.rfile.read(4), self.rfile.read(length)
                    if head[0] & 15 in (1, 2):
                        text = bytes(byte ^ mask[n % 4] for n, byte in enumerate(data))
                        world.changes.append(f"MESSAGE {text.decode('latin-1')}")
                        world.received.append(world.changes[-1])
                    elif head[0] & 15 == 8:
                        said = bytes(byte ^ mask[n % 4] for n, byte in enumerate(data))
                        if said and said != b"\x03\xe9":  # which browsers say when a page goes
                            world.changes.append(f"CLOSED {said!r}")
                        return

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self._server.daemon_threads = True
        self.host = f"{address}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def url(self, path: str = "/") -> str:
        return f"http://{self.host}{path}"

    def forget(self) -> None:
        self.pages, self.headers, self.changes, self.seen, self.received = {}, {}, [], [], []

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _basic(login: tuple[str, str]) -> str:
    return f"Basic {base64.b64encode(':'.join(login).encode()).decode()}"


@contextmanager
def worlds() -> Iterator[tuple[World, World]]:
    """One site, and another one."""
    here, there = World(), World("127.0.0.2")
    try:
        yield here, there
    finally:
        here.close()
        there.close()


def fill(text: str, here: World, there: World) -> str:
    text = text.replace("THERE", there.url("")).replace("HERE", here.url(""))
    return text.replace("SOCKET", f"ws://{here.host}/socket")
