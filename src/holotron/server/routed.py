r"""A request that comes through the fleet's router (`holotron.fleet`): whose it is, and which reply it is.

The router alone has the fleet's key. It has asked the client for his own, and says in headers who he is:

    authorization: Bearer <fleet.key>
    x-fleet-owner: 6f1c...            whose sessions these are; x-fleet-turn: who waits for his turn
    x-fleet-reply: <32 hex>-<time>    one reply, wherever it is computed

Should this process die, the router sends the request to another one, as the same reply: ids, times and random choices
follow from its name, so the client cannot tell. Of a stream it also says which tokens the client has (`Said`): they are
said again without being sent again. To know them, the router is told after which bytes of a stream a token is complete:

    data: {...}\n\n
    : 0 1234\n\n                      the first choice's token 1234 is told by what came so far
    : spent 57\n\n                    tokens that the request cost, at the end

These comments, and all headers of this kind, end at the router.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import blake2b

from starlette.types import Scope

OWNER, TURN, REPLY = b"x-fleet-owner", b"x-fleet-turn", b"x-fleet-reply"
SESSION, RESPONSE, SPENT = "x-fleet-session", "x-fleet-response", "x-fleet-spent"  # in answers
PREFIX = b"x-fleet-"
AUTHORIZATION = b"authorization"

_OWNER = re.compile(rb"[0-9a-z]{1,64}")
_REPLY = re.compile(rb"([0-9a-f]{32})-(\d{1,12})")


@dataclass(frozen=True)
class Said:
    """How much of a stream its client has: whether it has begun, and the tokens told, by the number of their choice."""

    begun: bool = False
    tokens: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


NOTHING = Said()


@dataclass(frozen=True)
class Told:
    """A place in a stream: the events before it tell this token, or (without one) its beginning."""

    index: int = -1
    token: int = -1

    def comment(self) -> bytes:
        return b": begun\n\n" if self.index < 0 else b": %d %d\n\n" % (self.index, self.token)


@dataclass(frozen=True)
class Spent:
    tokens: int

    def comment(self) -> bytes:
        return b": spent %d\n\n" % self.tokens


class Routed:
    def __init__(self, reply: str, created: int) -> None:
        self.reply = reply
        self.created = created
        self.said = NOTHING
        self._made = 0  # ids so far

    @staticmethod
    def of(scope: Scope, key: bytes | None) -> Routed | None:
        """None: it comes from somebody else. Says in the scope whose request it is."""
        if key is None:
            return None
        headers = {name: value for name, value in scope["headers"] if name.startswith(PREFIX) or name == AUTHORIZATION}
        owner, reply = headers.get(OWNER, b""), _REPLY.fullmatch(headers.get(REPLY, b""))
        if not bears(headers.get(AUTHORIZATION), key) or reply is None or not _OWNER.fullmatch(owner):
            return None
        scope["owner"] = owner.decode()
        scope["turn"] = headers.get(TURN, owner).decode("latin-1")
        return Routed(reply[1].decode(), int(reply[2]))

    @property
    def seed(self) -> int:
        """For requests without one."""
        return int.from_bytes(self._digest("seed")[:8], "big") >> 1

    def hex(self, count: int) -> str:
        self._made += 1
        return self._digest(str(self._made)).hex()[: 2 * count]

    def _digest(self, what: str) -> bytes:
        return blake2b(f"{self.reply}/{what}".encode(), digest_size=32).digest()


current: ContextVar[Routed | None] = ContextVar("routed", default=None)


def bears(authorization: bytes | None, key: bytes) -> bool:
    kind, _, given = (authorization or b"").partition(b" ")
    return kind.lower() == b"bearer" and hmac.compare_digest(given.strip(), key)


def new_hex(count: int) -> str:
    """`count` bytes for an id: random, or those that belong to the reply."""
    routed = current.get()
    return secrets.token_hex(count) if routed is None else routed.hex(count)
