"""Who may talk to the server, decided before anything is read: by the names it is called by, by what a browser says
about the page that asks, and by key.

A server without keys on 127.0.0.1 is private only until its user's browser opens a hostile page. Such a page can have
its own name resolve to 127.0.0.1 (DNS rebinding): then the `Host` header names a site that is not ours. Or it can post
a form to us: then `Origin` or `Sec-Fetch-Site` says so.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import socket
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holotron.server.errors import ApiError
from holotron.server.keys import ANYONE, Keys
from holotron.server.quotas import Quotas
from holotron.server.settings import ServerSettings

GUARDED = ("/v1", "/tokenize", "/detokenize")
_SAFE = ("GET", "HEAD", "OPTIONS")


def header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for key, value in scope["headers"] if key == name), None)


class Access:
    """Everything that asks the model for something needs a key, if there are any. What a key opened belongs to it."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, keys: Sequence[str], quotas: Quotas) -> None:
        self._app = app
        self._keys = Keys(keys)
        self._quotas = quotas
        self._hosts = HostCheck(settings.host, settings.allowed_hosts)
        self._metrics_key = settings.metrics_key.get_secret_value().encode() if settings.metrics_key else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check(scope)
        except ApiError as error:
            await answer(error, send)
            return
        if (owner := scope.get("owner")) is None:
            await self._app(scope, receive, send)
            return

        async def send_with_quota(message: Message) -> None:
            if message["type"] == "http.response.start" and (left := self._quotas.headers(owner)):
                encoded = [(name.encode(), value.encode()) for name, value in left.items()]
                message["headers"] = [*message.get("headers", []), *encoded]
            await send(message)

        try:
            self._quotas.count_request(owner)
        except ApiError as error:
            await answer(error, send_with_quota)
            return
        await self._app(scope, receive, send_with_quota)

    def _check(self, scope: Scope) -> None:
        path: str = scope["path"]
        if path == "/metrics" and self._metrics_key is not None:
            kind, _, given = (header(scope, b"authorization") or b"").partition(b" ")
            if kind.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._metrics_key):
                raise ApiError(401, "metrics want the key of server.metrics_key", code="invalid_api_key")
        if not path.startswith(GUARDED):
            return
        if not self._keys and not self._hosts.allows(header(scope, b"host")):
            raise ApiError(
                403,
                "this server has no keys and does not answer to that host name; "
                "name it in server.allowed_hosts if it is yours",
                code="host_not_allowed",
            )
        if scope["method"] not in _SAFE:
            refuse_other_sites(scope)
        owner = self._keys.owner(header(scope, b"authorization"))
        if owner is None:
            message = "the API key is missing or wrong; send it as Authorization: Bearer <key>"
            raise ApiError(401, message, code="invalid_api_key")
        scope["owner"] = owner
        # Where all are one owner, at least those at different addresses take turns.
        scope["turn"] = (scope.get("client") or ("",))[0] if owner == ANYONE else owner


class HostCheck:
    """Addresses cannot be had by rebinding, and neither can names without a dot, which the public DNS does not have."""

    def __init__(self, listening: str, allowed: Sequence[str]) -> None:
        self._allowed = [name.lower().rstrip(".") for name in (listening, socket.gethostname(), *allowed)]

    def allows(self, host: bytes | None) -> bool:
        if host is None:  # HTTP/1.0: no browser
            return True
        name = host.decode("latin-1").strip().lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        name = name.rstrip(".")
        if name.endswith(".localhost") or "." not in name:
            return bool(name)
        if any(name == one or (one.startswith("*.") and name.endswith(one[1:])) for one in self._allowed):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def refuse_other_sites(scope: Scope) -> None:
    """No page of another site may have its reader's browser change something here."""
    site, origin = header(scope, b"sec-fetch-site"), header(scope, b"origin")
    same = origin is None or origin.partition(b"://")[2].lower() == (header(scope, b"host") or b"").lower()
    if not same or site not in (None, b"same-origin", b"none"):
        raise ApiError(403, "requests from pages of other sites are refused", code="cross_site_request")


async def answer(error: ApiError, send: Send) -> None:
    body = json.dumps(error.body()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(key.encode(), value.encode()) for key, value in error.headers().items()]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
