"""The page's server as a thread of this process, and the file by which others find it.

    with serving(run) as page:
        print(page.url)                              # http://127.0.0.1:41234/w/TOKEN/
    find_live(Path("runs/web"))                      # that address, from another process of the same user

`.live.json` in the run directory holds the address, token included, so only its owner may read it (0600). It is there
as long as the page is.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holotron.addresses import in_url
from holotron.console.recorded import WatchedRun
from holotron.errors import ConfigError, MissingDependency
from holotron.storage.files import make_folder, read_file, remove_file, replace_file
from holotron.storage.objects import is_remote

LIVE = ".live.json"
LOOPBACK = "127.0.0.1"
START_SECONDS = 15.0
GOODBYE_SECONDS = 1.5  # for viewers to hear how it ended


@dataclass(frozen=True, slots=True)
class Page:
    url: str
    host: str
    port: int

    @property
    def private(self) -> bool:
        """Only this machine can reach it."""
        return self.host in (LOOPBACK, "::1", "localhost")


def parse_place(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `HOST` or `:PORT`; a port of 0 is any that is free."""
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        host, port = text, "0"
    host = host.strip("[]") or LOOPBACK
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{text!r} is no place to listen at; write HOST:PORT, such as 127.0.0.1:8765")
    return host, int(port)


@contextmanager
def serving(run: WatchedRun, host: str = LOOPBACK, port: int = 0) -> Iterator[Page]:
    """Serve the page until the block is left. Where the run has a folder, others find it there."""
    try:
        import uvicorn

        from holotron.console.app import make_app
    except ImportError as error:
        raise MissingDependency.extra(error.name or "uvicorn", "agent") from None
    token = secrets.token_urlsafe(24)
    listening = _listen(host, port)
    number = listening.getsockname()[1]
    config = uvicorn.Config(
        make_app(run, token, host),
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # what fails in the page's own code is logged there, and how connections end is no news
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), name="console", daemon=True)
    thread.start()
    _until_started(server, thread)
    shown = LOOPBACK if host == "0.0.0.0" else in_url(host)
    page = Page(f"http://{shown}:{number}/w/{token}/", host, number)
    # An object store is no place for it: others can read there.
    note = None if run.folder is None or not run.live or is_remote(run.folder) else run.folder / LIVE
    try:
        if note is not None:
            make_folder(note.parent)
            replace_file(note, json.dumps({"url": page.url, "pid": os.getpid()}).encode(), private=True)
        yield page
        if run.viewers:
            time.sleep(GOODBYE_SECONDS)
    finally:
        if note is not None:
            remove_file(note)
        run.closing = True
        server.should_exit = True
        thread.join(5)
        run.closing = False
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        raise ConfigError(f"cannot listen at {host}:{port}: {error.strerror or error}") from None
    return listening


def _until_started(server: object, thread: threading.Thread) -> None:
    end = time.monotonic() + START_SECONDS
    while not getattr(server, "started", False):
        if not thread.is_alive() or time.monotonic() > end:
            raise ConfigError("the page's server did not start")
        time.sleep(0.01)


def find_live(folder: Path) -> str | None:
    """The address of the page of a run that is going on; None if it has none, or it does not answer."""
    if is_remote(folder):
        return None
    try:
        url = str(json.loads(read_file(folder / LIVE))["url"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return url if answers(url) else None


def answers(url: str) -> bool:
    """Whether there is a live page at this address."""
    with contextlib.suppress(OSError, ValueError):
        straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with straight.open(url.rstrip("/") + "/pulse", timeout=5) as reply:
            return "waiting" in json.loads(reply.read(10_000))
    return False
