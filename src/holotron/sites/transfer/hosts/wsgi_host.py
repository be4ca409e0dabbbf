"""What every host of somebody else's application has in common: one process, many episodes, a header says which.

Runs beside the application in an environment of its own; standard library only.

    main(prepare, load)        # the two commands of a host script: `prepare FOLDER` and `serve FOLDER [PORT]`

`load(folder)` gives `answer(environ, start_response, episode_folder)` and `forget(episode_folder)`. Requests may have
the form that proxies get. The process ends when its input ends, which happens however its parent ends.
"""

import os
import re
import sys
import threading
from collections.abc import Callable
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

Answer = Callable[[dict[str, Any], Any, str], Any]
Forget = Callable[[str], None]


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64  # a page of an application asks for its scripts and pictures at once


class Handler(WSGIRequestHandler):
    def get_environ(self) -> dict[str, Any]:
        parts = urlsplit(self.path)
        self.path = parts.path + (f"?{parts.query}" if parts.query else "")
        environ = super().get_environ()
        if parts.hostname:  # as a proxy is asked
            environ.update(HTTP_HOST=parts.netloc, SERVER_NAME=parts.hostname, SERVER_PORT=str(parts.port or 80))
        return environ

    def address_string(self) -> str:
        return self.client_address[0]  # looking names up takes seconds where there is no network

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def serve(folder: str, port: int, answer: Answer, forget: Forget) -> None:
    only = os.environ.get("HOLOTRON_EPISODE", "")

    def handle(environ: dict[str, Any], start_response: Any) -> Any:
        key = environ.get("HTTP_X_HOLOTRON_EPISODE") or only
        path = os.path.join(folder, key)
        if not re.fullmatch(r"[0-9a-z]+", key) or not os.path.isdir(path):
            start_response("404 Not Found", [("Content-Type", "text/plain")])
            return [b"No such episode."]
        if "HTTP_X_HOLOTRON_CLOSE" in environ:
            forget(path)
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [b""]
        return answer(environ, start_response, path)

    server = Server(("127.0.0.1", port), Handler)
    server.set_app(handle)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()  # nobody needs us any more
    print(f"port {server.server_port}", flush=True)
    server.serve_forever()


def main(prepare: Callable[[str], None], load: Callable[[str], tuple[Answer, Forget]]) -> None:
    command, place = sys.argv[1:3]
    if command == "prepare":
        prepare(place)
    else:
        serve(place, int(sys.argv[3]) if len(sys.argv) > 3 else 0, *load(place))
