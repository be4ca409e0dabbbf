"""The client through which policies and judges speak to OpenAI-compatible servers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from holotron.errors import ConfigError, MissingDependency

if TYPE_CHECKING:
    from openai import AsyncOpenAI


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
    return AsyncOpenAI(base_url=base_url, api_key=key, timeout=seconds, max_retries=retries)


def agents_key() -> str:
    return os.environ.get("HOLOTRON_API_KEY") or os.environ.get("OPENAI_API_KEY") or "none"


def without_credentials(url: str) -> str:
    """The address without user, password and query: what may be stored and shown."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
