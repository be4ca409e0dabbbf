"""A small web site on the loopback interface for tests: pages by path, a log of every request, and some tricks."""

from __future__ import annotations

import base64
import hashlib
import http.server
import threading
import time
from urllib.parse import parse_qs, urlsplit


class Site:
    """`site.pages["/x"] = "<html>"` serves it at `site.url("/x")`. Built in: /redirect?to=, /slow?seconds=,
    /halves?seconds= (its second half comes later), /file.zip, and WebSockets at /socket. Listens on `address`, so that
    two sites are two hosts."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.pages: dict[str, str] = {}
        self.seen: list[str] = []
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                site.seen.append(parts.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                if self.headers.get("Upgrade", "").lower() == "websocket":
                    self._websocket()
                elif parts.path == "/redirect":
                    self._send(302, b"", Location=query["to"])
                elif parts.path == "/slow":
                    time.sleep(float(query["seconds"]))
                    self._send(200, b"<title>slow</title>slow")
                elif parts.path == "/halves":
                    first, second = b"<!doctype html><p>first</p>" + b" " * 2000, b"<title>whole</title>"
                    self._begin(200, len(first + second))
                    self.wfile.write(first)
                    self.wfile.flush()
                    time.sleep(float(query["seconds"]))
                    self.wfile.write(second)
                elif parts.path == "/file.zip":
                    self._send(200, b"zip" * 100, **{"Content-Disposition": 'attachment; filename="a b.zip"'})
                elif parts.path in site.pages:
                    self._send(200, site.pages[parts.path].encode())
                else:
                    self._send(404, b"not here")

            def do_POST(self) -> None:
                site.seen.append(urlsplit(self.path).path)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self._send(200, b"<title>posted</title>" + body)

            def _send(self, status: int, body: bytes, **headers: str) -> None:
                self._begin(status, len(body), **headers)
                self.wfile.write(body)

            def _begin(self, status: int, length: int, **headers: str) -> None:
                self.send_response(status)
                for name, value in {"Content-Type": "text/html; charset=utf-8", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(length))
                self.end_headers()

            def _websocket(self) -> None:
                key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
                self.send_response(101)
                self.send_header("Upgrade", "websocket")
                self.send_header("Connection", "Upgrade")
                accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
                self.send_header("Sec-WebSocket-Accept", accept)
                self.end_headers()
                self.wfile.write(b"\x81\x05hello")
                time.sleep(0.2)
                self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self._server.daemon_threads = True
        self.host = f"{address}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, path: str) -> str:
        return f"http://{self.host}{path}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
