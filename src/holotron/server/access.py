"""Who may talk to the server, decided before anything is read: by the names it is called by, by what a browser says
about the page that asks, and by key.

A server without keys on 127.0.0.1 is private only until its user's browser opens a hostile page. Such a page can have
its own name resolve to 127.0.0.1 (DNS rebinding): then the `Host` header names a site that is not ours. Or it can post
a form to us: then `Origin` or `Sec-Fetch-Site` says so.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holotron.callers import HostCheck, from_another_site
from holotron.server import routed
from holotron.server.errors import ApiError
from holotron.server.keys import ANYONE, Keys
from holotron.server.quotas import Quotas
from holotron.server.settings import ServerSettings

TABLE = "/sessions"  # looked at by people, with a browser, see `table`
GUARDED = ("/v1", "/tokenize", "/detokenize", TABLE)
OPERATOR = "operator"  # who has the key of server.metrics_key and looks at the table
_SAFE = ("GET", "HEAD", "OPTIONS")


def header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for key, value in scope["headers"] if key == name), None)


class Access:
    """Everything that asks the model for something needs a key, if there are any. What a key opened belongs to it."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        keys: Sequence[str],
        quotas: Quotas,
        fleet_key: str | None = None,
    ) -> None:
        """`fleet_key`: of a router that has seen to all this already, see `routed`."""
        self._app = app
        self._fleet_key = fleet_key.encode() if fleet_key is not None else None
        self._keys = Keys(keys)
        self._quotas = quotas
        self._hosts = HostCheck(settings.host, settings.allowed_hosts)
        self._metrics_key = settings.metrics_key.get_secret_value().encode() if settings.metrics_key else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if (from_router := routed.Routed.of(scope, self._fleet_key)) is not None:
            scope["routed"] = from_router
            routed.current.set(from_router)  # of this request alone: each has a task of its own
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
            if message["type"] == "http.response.start" and message["status"] == 429:
                self._quotas.count_refusal(owner)
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
        secret = self._metrics_key if path == "/metrics" else None
        if secret is not None and not routed.bears(header(scope, b"authorization"), secret):
            raise ApiError(401, "metrics want the key of server.metrics_key", code="invalid_api_key")
        told_to_all = path == "/metrics" and secret is None  # also to a page whose name was made to resolve to us
        if not (path.startswith(GUARDED) or told_to_all):
            return
        if not self._keys and not self._hosts.allows(header(scope, b"host")):
            raise ApiError(
                403,
                "this server has no keys and does not answer to that host name; "
                "name it in server.allowed_hosts if it is yours",
                code="host_not_allowed",
            )
        if told_to_all:
            return
        if scope["method"] not in _SAFE:
            refuse_other_sites(scope)
        authorization = header(scope, b"authorization")
        if path.startswith(TABLE):
            authorization = _as_bearer(authorization)
            if self._metrics_key is not None and routed.bears(authorization, self._metrics_key):
                scope["owner"] = OPERATOR
                return
        owner = self._keys.owner(authorization)
        if owner is None and path.startswith(TABLE):
            raise KeyWanted()
        if owner is None:
            message = "the API key is missing or wrong; send it as Authorization: Bearer <key>"
            raise ApiError(401, message, code="invalid_api_key")
        scope["owner"] = owner
        # Where all are one owner, at least those at different addresses take turns.
        scope["turn"] = (scope.get("client") or ("",))[0] if owner == ANYONE else owner


class KeyWanted(ApiError):
    """A browser asks its user for it: whatever name, the key as the password."""

    def __init__(self) -> None:
        super().__init__(401, "the table of sessions wants an API key, as the password", code="invalid_api_key")

    def headers(self) -> dict[str, str]:
        return {"www-authenticate": 'Basic realm="holotron", charset="UTF-8"'}


def _as_bearer(authorization: bytes | None) -> bytes | None:
    """What a browser sends is a name and a password; the password is the key."""
    kind, _, given = (authorization or b"").partition(b" ")
    if kind.lower() != b"basic":
        return authorization
    with contextlib.suppress(binascii.Error, ValueError):
        return b"Bearer " + base64.b64decode(given.strip(), validate=True).partition(b":")[2]
    return None


def refuse_other_sites(scope: Scope) -> None:
    """No page of another site may have its reader's browser change something here."""
    if from_another_site(*(header(scope, name) for name in (b"host", b"origin", b"sec-fetch-site"))):
        raise ApiError(403, "requests from pages of other sites are refused", code="cross_site_request")


async def answer(error: ApiError, send: Send) -> None:
    body = json.dumps(error.body()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(key.encode(), value.encode()) for key, value in error.headers().items()]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
