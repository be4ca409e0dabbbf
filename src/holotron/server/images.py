"""Images by address: fetched only where the operator allows it, and never from inside the operator's own network.

A request may name any host, so every connection is checked where it is made: the name is resolved once, each address
it has is judged, and the connection goes to the address that was judged. A redirect makes a new connection and is
judged again; a name that changes its address in between (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpcore

from holotron import __version__
from holotron.addresses import is_public
from holotron.errors import InputError
from holotron.server.settings import ImageSettings

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

REDIRECTS = 3
_HEADERS = [(b"user-agent", f"holotron/{__version__}".encode()), (b"accept", b"image/*")]


async def look_up(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects only to public addresses, and to the networks that were named as exceptions."""

    def __init__(self, exceptions: Sequence[Network], resolve: Resolver = look_up) -> None:
        self._exceptions = exceptions
        self._resolve = resolve
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        address = await self._checked(host, port)
        return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)

    async def _checked(self, host: str, port: int) -> str:
        try:
            addresses = await self._resolve(host, port)
        except OSError as error:
            raise InputError(f"the image's host {host!r} cannot be found: {error.strerror or error}") from None
        except UnicodeError:  # from turning it into what the DNS understands
            raise InputError(f"the image's host {host!r} is not a name") from None
        if not addresses or not all(self._allowed(address) for address in addresses):
            # Not even which address: the network behind this server is nobody's business.
            raise InputError(f"the image's host {host!r} is not a public one; such addresses are not fetched")
        return addresses[0]

    def _allowed(self, text: str) -> bool:
        address = ipaddress.ip_address(text.partition("%")[0])
        return is_public(text) or any(address in network for network in self._exceptions)


class ImageFetcher:
    def __init__(self, settings: ImageSettings, resolve: Resolver = look_up) -> None:
        self._settings = settings
        self._pool = httpcore.AsyncConnectionPool(
            network_backend=GuardedBackend(settings.allowed_networks, resolve), max_connections=32
        )

    async def fetch(self, url: str) -> bytes:
        """The bytes behind an address; whatever goes wrong is an `InputError` that names the host."""
        if not self._settings.allow_remote:
            raise InputError("this server does not fetch images; send them as data: URLs")
        host = _host(url)
        try:
            async with asyncio.timeout(self._settings.fetch_seconds):
                return await self._follow(url)
        except TimeoutError:
            raise InputError(f"the image at {host} did not arrive within {self._settings.fetch_seconds:g} s") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            raise InputError(f"the image at {host} cannot be fetched: {type(error).__name__}") from None

    async def _follow(self, url: str) -> bytes:
        for _ in range(REDIRECTS + 1):
            host = _host(url)
            async with self._pool.stream("GET", url, headers=[(b"host", _netloc(url)), *_HEADERS]) as response:
                location = next((value for name, value in response.headers if name.lower() == b"location"), None)
                if response.status in (301, 302, 303, 307, 308) and location is not None:
                    url = _joined(url, location.decode("latin-1"))
                    continue
                if response.status != 200:
                    raise InputError(f"the image at {host} cannot be fetched: status {response.status}")
                return await self._body(response, host)
        raise InputError(f"the image's address was redirected more than {REDIRECTS} times")

    async def _body(self, response: httpcore.Response, host: str) -> bytes:
        data = bytearray()
        async for piece in response.aiter_stream():
            data += piece
            if len(data) > self._settings.max_bytes:
                raise InputError(f"the image at {host} has more than {self._settings.max_bytes:,} bytes")
        return bytes(data)

    async def close(self) -> None:
        await self._pool.aclose()


def _joined(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError as error:
        raise InputError(f"the image's address was redirected to a malformed one: {error}") from None


def _netloc(url: str) -> bytes:
    return urlsplit(url).netloc.encode("ascii")


def _host(url: str) -> str:
    try:
        url.encode("ascii")
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InputError(f"the image's address is malformed: {error}") from None
    if parts.scheme not in ("http", "https") or not host or parts.username or parts.password:
        raise InputError("images are taken from data: URLs and plain http(s) addresses")
    return host
