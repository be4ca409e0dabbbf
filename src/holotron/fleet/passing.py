"""One client's request while the router has it: what it wants, what its client has heard so far."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Scope, Send

from holotron.fleet.asking import Asks
from holotron.fleet.replicas import Replica
from holotron.fleet.streams import Heard
from holotron.fleet.upstream import Headers
from holotron.server.access import header
from holotron.server.errors import ApiError


@dataclass(eq=False)
class Passing:
    """One client's request while it is being answered."""

    scope: Scope
    send: Send
    body: bytes
    asks: Asks
    owner: str
    reply: str
    heard: Heard
    begun: bool = False  # the client has seen the head of an answer
    tries: int = 0
    repeated: bool = False  # it was asked for before, somewhere
    looked_again: bool = False  # where its conversation was thought to be there was none
    broke: set[Replica] = field(default_factory=set)  # where: another one is better, if there is one

    def headers(self, replica: Replica) -> Headers:
        """For a replica."""
        fields = list(replica.headers(self.owner, self.scope.get("turn", self.owner), self.reply))
        for name in (b"content-type", b"content-encoding", b"accept", b"user-agent"):
            if (value := header(self.scope, name)) is not None:
                fields.append((name, value))
        return [*fields, (b"x-request-id", self.scope.get("request_id", "").encode())]

    @property
    def reply_name(self) -> str:
        return self.reply.partition("-")[0]

    def again(self) -> dict[str, Any]:
        """Told to a replica before it is asked once more: what the client has heard, and where."""
        return {"reply": self.reply_name, "owner": self.owner, "session": self.asks.session, **self.heard.told()}

    @property
    def target(self) -> str:
        query: bytes = self.scope.get("query_string", b"")
        path: str = self.scope.get("raw_path", b"").decode("latin-1").partition("?")[0] or self.scope["path"]
        return f"{path}?{query.decode('latin-1')}" if query else path

    @property
    def until(self) -> float:
        return float(self.scope["begun"] + self.scope["patience"])

    async def say(self, status: int, value: Any) -> None:
        """An answer of the router's own."""
        body = json.dumps(value).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    async def say_deleted(self) -> None:
        kind = "session.deleted" if self.asks.response is None else "response"
        await self.say(200, {"id": self.asks.session or self.asks.response, "object": kind, "deleted": True})

    async def end_stream(self, error: ApiError) -> None:
        """The head was sent: what went wrong since can only be the last event."""
        if self.scope["path"] == "/v1/responses":
            told: dict[str, Any] = {"type": "error", "code": error.code or error.type, "message": error.message}
            data = f"event: error\ndata: {json.dumps(told | {'param': error.param})}\n\n"
        else:
            data = f"data: {json.dumps(error.body())}\n\n"
        await self.send({"type": "http.response.body", "body": data.encode(), "more_body": False})
