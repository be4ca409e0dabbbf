"""A real server on a real port inside the test's own process: for settings that need a server of their own, where a
process of its own would cost seconds."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from holotron.server.app import create_app
from holotron.server.layers import from_flags, resolve
from holotron.server.run import listen, load, uvicorn_config
from holotron.server.service import Service


class Inside:
    def __init__(self, service: Service, server: uvicorn.Server, port: int) -> None:
        self.service = service
        self.server = server
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def post(self, path: str, body: Any, key: str | None = None, **options: Any) -> httpx.Response:
        headers = {"content-type": "application/json", **options.pop("headers", {})}
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.post(f"{self.url}{path}", content=content, headers=headers, timeout=120, **options)

    def chat(self, text: str, key: str | None = None, **fields: Any) -> httpx.Response:
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 2, "ignore_eos": True, **fields}
        return self.post("/v1/chat/completions", body, key)

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.settimeout(60)
        return connection


@contextmanager
def inside(*flags: str) -> Iterator[Inside]:
    settings = resolve(from_flags(["--model.source", "tiny", "--memory.sessions", "8", *flags])[0]).settings
    service = Service(settings)
    service.become_ready(load(settings, service))
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn_config(create_app(service), settings))
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]), daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield Inside(service, server, listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(30)
        assert service.loaded is not None
        service.loaded.engine.close()
        service.close()
