"""Where a browser may go: addresses people and policies ask for, and every connection its pages make.

Two layers, because each alone leaks:

* `check_url` refuses what must not be opened at all (`file:`, `view-source:`, `data:`, `javascript:` ...), with a
  sentence the agent can read.
* `Guard` is a proxy on the loopback interface, one per browser session, that every connection of that session has to
  pass: redirects, WebSockets, workers, beacons and popups alike. It applies the allow-list, looks names up itself and
  refuses private addresses, so a public name that points into the local network (DNS rebinding) gets nowhere either.

`RESOLVE_NOTHING` makes the browser unable to connect anywhere but to the guard, so what bypasses a proxy dies there.
WebRTC, which talks UDP past every proxy, is removed from pages (`assets/page.js`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from holotron.addresses import is_public, plain_host
from holotron.envs.connections import Connections
from holotron.errors import ConfigError

RESOLVE_NOTHING = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"

HEAD_LIMIT = 256 * 1024  # bytes of request or response head
CONNECT_TIMEOUT = 15.0
DEFAULT_PORTS = {"http": 80, "https": 443}
_NO_HOST = re.compile(r"""[\s"#%<>\\^`{|}]""")  # a browser would write these in another way, or open nothing


class Blocked(Exception):
    """The policy does not allow this; the message says what and why."""


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """`allow`: hosts that may be reached, everything public when empty. `example.com` covers its subdomains,
    `*.example.com` only those, `example.com:8080` one port. A private address (loopback, local network, cloud
    metadata) is reachable only if listed, or with `private=True`. `upstream`: the proxy to go out through."""

    allow: tuple[str, ...] = ()
    private: bool = False
    upstream: str | None = None

    def __post_init__(self) -> None:
        for pattern in self.allow:
            if "/" in pattern or not pattern.strip("*. "):
                raise ConfigError(f"{pattern!r} is not a host pattern. Use example.com, *.example.com or host:8080.")

    def listed(self, host: str, port: int) -> bool:
        return any(_matches(pattern, plain_host(host), port) for pattern in self.allow)

    def check_host(self, host: str, port: int) -> None:
        """By name alone; addresses are checked after the name is looked up."""
        if self.allow and not self.listed(host, port):
            raise Blocked(f"{host} is not in the list of allowed sites")

    def check_address(self, host: str, port: int, address: str) -> None:
        if not self.private and not self.listed(host, port) and not is_public(address):
            raise Blocked(f"{host} is at a private address")


def check_url(url: str, policy: NetworkPolicy) -> str:
    """The address to open, completed (`example.com` becomes `https://example.com`). `Blocked` if it must not be."""
    url = url.strip()
    if url == "about:blank":
        return url
    name, colon, rest = url.split("/", 1)[0].split("?", 1)[0].partition(":")
    if "://" not in url and (not colon or rest.isdigit()):  # a host, not a scheme
        url = f"{'http' if name == 'localhost' or _is_address(name) else 'https'}://{url}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise Blocked(f"{url!r} is not a valid address: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise Blocked(f"{parts.scheme}: addresses are not opened, only http and https")
    if not host or _NO_HOST.search(plain_host(host)):
        raise Blocked(f"{url!r} is not a valid address")
    policy.check_host(host, port or DEFAULT_PORTS[parts.scheme])
    if not host.isascii():
        login, at, _ = parts.netloc.rpartition("@")
        parts = parts._replace(netloc=f"{login}{at}{plain_host(host)}{f':{port}' if port else ''}")
    return parts.geturl()  # what was checked is what is opened


class Guard:
    """One session's way out. `take_blocked` says what was refused since it was last asked."""

    def __init__(self, policy: NetworkPolicy) -> None:
        self.policy = policy
        self.refuses: Callable[[str], str] = lambda host: ""  # why a name must not even be looked up
        self._server: asyncio.Server | None = None
        self._connections = Connections()
        self._blocked: dict[str, None] = {}
        self._unreachable: dict[tuple[str, int], str] = {}
        self._refused: dict[tuple[str, int], str] = {}

    async def start(self) -> Guard:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_LIMIT)
        return self

    @property
    def proxy(self) -> dict[str, str]:
        """What Playwright's `proxy` context option wants. `<-loopback>`: not even localhost goes around it."""
        assert self._server is not None
        return {"server": f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}", "bypass": "<-loopback>"}

    def take_blocked(self) -> list[str]:
        taken, self._blocked = list(self._blocked), {}
        return taken

    def why_unreachable(self, url: str) -> str:
        """Why no connection could be made to the site of an address when it was last tried; empty: one could."""
        return self._unreachable.get(_site(url), "")

    def why_refused(self, url: str) -> str:
        """Why the policy keeps a session from the site of an address; empty: it does not, or nobody has tried."""
        return self._refused.get(_site(url), "")

    async def close(self) -> None:
        await self._connections.close(self._server)

    # -------------------------------------------------------------------------------------------------- one connection

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._connections.one(writer):
            await self._relay(reader, writer)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, headers = _parse_head(await reader.readuntil(b"\r\n\r\n"))
        method, target, _ = line.split(" ", 2)
        tunnel = method == "CONNECT"
        parts = urlsplit(f"//{target}" if tunnel else target)
        try:
            host, port = parts.hostname or "", parts.port or (443 if tunnel else 80)
            if not tunnel and parts.scheme != "http":
                raise Blocked(f"{parts.scheme} is not relayed")
            there, back = await self._connect(host, port)
            for failures in (self._unreachable, self._refused):
                failures.pop((host, port), None)
        except Blocked as blocked:
            self._blocked[str(blocked)] = None
            self._refused[host, port] = str(blocked)
            return await _answer(writer, "403 Forbidden", str(blocked))
        except (OSError, TimeoutError) as error:
            why = self._unreachable[host, port] = _reason(error)
            return await _answer(writer, "502 Bad Gateway", f"{target} cannot be reached: {why}")
        try:
            if tunnel and not self.policy.upstream:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            elif tunnel:
                back.write(_head(line, headers))
            else:
                path = parts._replace(scheme="", netloc="").geturl() or "/"
                request = line if self.policy.upstream else f"{method} {path} HTTP/1.1"
                back.write(_head(request, headers, close=True))
            if not tunnel:
                # One request per connection: the next one may be for another host and has to be checked as well.
                sending = asyncio.create_task(_pump(reader, back))
                status, answer = _parse_head(await there.readuntil(b"\r\n\r\n"))
                writer.write(_head(status, answer, close=True))
                await _pump(there, writer)
                sending.cancel()
            else:
                await asyncio.gather(_pump(reader, back), _pump(there, writer))
        finally:
            back.close()

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Check, look up, check again, and connect to the very address that was checked."""
        if why := self.refuses(host):
            raise Blocked(f"a name that {why} is not looked up")
        self.policy.check_host(host, port)
        if self.policy.upstream:
            if _is_address(host):
                self.policy.check_address(host, port, host)
            upstream = urlsplit(self.policy.upstream)
            return await _open(upstream.hostname or "", upstream.port or 3128)
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        for address in addresses:
            self.policy.check_address(host, port, address)
        return await _open_any(addresses, port)


def _site(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or DEFAULT_PORTS.get(parts.scheme, 0)


def _reason(error: OSError | TimeoutError) -> str:
    if isinstance(error, socket.gaierror):
        return "there is no site of that name"
    if isinstance(error, TimeoutError):
        return "it does not answer"
    return "it refuses the connection" if isinstance(error, ConnectionRefusedError) else error.strerror or str(error)


async def _open_any(addresses: Sequence[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    for address in addresses[:-1]:
        with contextlib.suppress(OSError, TimeoutError):
            return await _open(address, port)
    return await _open(addresses[-1], port)


async def _open(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(CONNECT_TIMEOUT):
        return await asyncio.open_connection(address, port, limit=HEAD_LIMIT)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(64 * 1024):
            sink.write(data)
            await sink.drain()
    with contextlib.suppress(OSError, RuntimeError):
        if sink.can_write_eof():
            sink.write_eof()


async def _answer(writer: asyncio.StreamWriter, status: str, message: str) -> None:
    body = f"<!doctype html><title>{status}</title><p>{message}.</p>".encode()
    writer.write(f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n".encode())
    writer.write(b"Connection: close\r\n\r\n" + body)
    await writer.drain()


def _parse_head(head: bytes) -> tuple[str, list[str]]:
    first, *headers = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    return first, headers


def _head(first: str, headers: list[str], *, close: bool = False) -> bytes:
    if close:
        hop = ("connection:", "proxy-connection:", "keep-alive:")
        headers = [header for header in headers if not header.lower().startswith(hop)] + ["Connection: close"]
    return "\r\n".join([first, *headers, "", ""]).encode("latin-1")


def _matches(pattern: str, host: str, port: int) -> bool:
    name, colon, wanted = pattern.lower().rpartition(":")
    if not colon or not wanted.isdigit() or (":" in name and not name.startswith("[")):  # a bare IPv6 address
        name, wanted = pattern.lower(), ""
    if wanted and int(wanted) != port:
        return False
    name = plain_host(name.strip("[]"))
    if name.startswith("*."):
        return host.endswith(name[1:])
    return host == name or (host.endswith(f".{name}") and not _is_address(host))


def _is_address(host: str) -> bool:
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return False
