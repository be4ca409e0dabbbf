"""The client through which policies and judges speak to OpenAI-compatible servers.

server = client("http://localhost:8000/v1", key, seconds=300.0, retries=10)
with one_request():  # attempts at it that fail are told to whoever hears of lost time
    await server.chat.completions.create(...)
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from holotron.agent.policies.base import lose
from holotron.errors import ConfigError, MissingDependency

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_SENT: ContextVar[list[float] | None] = ContextVar("sent", default=None)  # when there were attempts at this request


def client(base_url: str, key: str, seconds: float, retries: int) -> AsyncOpenAI:
    """`seconds`: for one attempt at a request."""
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port of 99999
        usable = False
    if not usable:
        raise ConfigError(f"{base_url!r} is not the address of a server; write one such as http://localhost:8000/v1")
    try:
        from openai import AsyncOpenAI
    except ImportError:
        raise MissingDependency.extra("openai", "agent") from None

    class Client(AsyncOpenAI):
        async def _prepare_request(self, request: Any) -> None:
            """The library's hook before each attempt. What lies behind a second one was refused or broken off; but a
            server that was silent until its time was up may as well have been thinking."""
            now, sent = time.monotonic(), _SENT.get()
            if sent is None:
                return
            if sent and now - sent[-1] < seconds:
                lose(now - sent[-1])
            sent.append(now)

    return Client(base_url=base_url, api_key=key, timeout=seconds, max_retries=retries)


@contextmanager
def one_request() -> Iterator[None]:
    token = _SENT.set([])
    try:
        yield
    finally:
        _SENT.reset(token)


def agents_key() -> str:
    return os.environ.get("HOLOTRON_API_KEY") or os.environ.get("OPENAI_API_KEY") or "none"


def without_credentials(url: str) -> str:
    """The address without user, password and query: what may be stored and shown."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
