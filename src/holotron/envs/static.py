"""A small web server for pages that ship with a package, on the loopback interface only.

It runs in a thread of its own, so that a page loads also while the event loop is busy.
"""

from __future__ import annotations

import functools
import http.server
import os
import threading
from pathlib import Path


class StaticServer:
    """Serves one folder, read-only, at `http://127.0.0.1:port/`."""

    def __init__(self, folder: Path) -> None:
        handler = functools.partial(_Handler, directory=str(folder))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="static-pages", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


class _Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # one connection for a page and all it needs

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "max-age=86400")  # the files of an installed package do not change
        super().end_headers()

    def guess_type(self, path: str | os.PathLike[str]) -> str:
        kind = super().guess_type(path)
        return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind  # browsers would take it for Latin-1

    def log_message(self, format: str, *args: object) -> None:
        pass
