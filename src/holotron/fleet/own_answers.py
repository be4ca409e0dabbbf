"""What the router answers itself: which sessions there are, moving one, the end of one that is only a header."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from holotron.fleet.homes import Home, Homes
from holotron.fleet.moving import Mover
from holotron.fleet.passing import Passing
from holotron.fleet.replicas import Replica, Replicas, least_loaded
from holotron.fleet.upstream import Broken, Refused
from holotron.server.errors import ApiError, unavailable


class OwnAnswers:
    def __init__(self, replicas: Replicas, homes: Homes, mover: Mover) -> None:
        self._replicas, self._homes, self._mover = replicas, homes, mover

    async def list_sessions(self, passing: Passing) -> None:
        for home in self._homes.sessions(passing.owner):
            if not home.replica.alive:
                async with home.lock:
                    await self._mover.revive(home)
        data: dict[str, Any] = {}
        for replica in [one for one in self._replicas.all() if one.alive]:
            headers = passing.headers(replica)
            try:
                listed = await replica.upstream.json("GET", "/v1/sessions", headers=headers)
            except (Broken, Refused):
                continue
            for row in listed["data"]:
                known = self._homes.get(passing.owner, "session", row["id"])
                if row["id"] not in data or (known is not None and known.replica is replica):
                    data[row["id"]] = row | {"replica": replica.name}
        await passing.say(200, {"object": "list", "data": list(data.values())})

    async def move(self, passing: Passing) -> None:
        """POST /v1/sessions/{id}/move {"replica"?}: to the one with least to do, or a certain one."""
        assert passing.asks.session is not None
        home = self._homes.get(passing.owner, "session", passing.asks.session)
        home = home or await self._mover.find(passing.owner, "session", passing.asks.session)
        if home is None:
            raise ApiError(404, f"there is no session {passing.asks.session!r}", code="session_not_found")
        to = self._destination(passing.body, home)
        if home.replica is not to and not await self._mover.move(home, to, "asked"):
            raise ApiError(409, "the session could not be moved now; try again", code="session_busy")
        path, headers = f"/v1/sessions/{passing.asks.session}", passing.headers(home.replica)
        try:
            about = await home.replica.upstream.json("GET", path, headers=headers)
        except Refused as error:  # it was closed, or moved once more, by somebody else
            raise ApiError(error.status, error.message, code=error.code) from None
        except Broken as error:
            raise unavailable(f"a replica did not answer: {error}", "no_replica") from None
        await passing.say(200, about | {"replica": home.replica.name})

    def _destination(self, body: bytes, home: Home) -> Replica:
        try:
            told = from_json(body) if body else {}
        except ValueError:
            told = None
        if not isinstance(told, dict) or set(told) - {"replica"}:
            raise ApiError(400, 'send nothing, or {"replica": NAME}')
        if (wanted := told.get("replica")) is not None:
            found = self._replicas.get(str(wanted))
            if found is None or found.stage != "ready":
                names = ", ".join(one.name for one in self._replicas.serving())
                message = f"there is no replica {wanted!r} that takes sessions; there are {names}"
                raise ApiError(400, message, param="replica")
            return found
        others = [one for one in self._replicas.serving() if one is not home.replica]
        if not others:
            raise ApiError(409, "there is no other replica to move it to", code="no_other_replica")
        return least_loaded(others, self._homes.recent)

    async def end_header(self, passing: Passing) -> bool:
        """DELETE /v1/sessions/{id} of what a client has only named in x-session-id: it is not bound any more."""
        name = passing.asks.session or ""
        home = self._homes.get(passing.owner, "header", name)
        if home is None:
            return False
        self._homes.forget(home)
        if self._homes.get(passing.owner, "session", name) is not None:
            return False
        await passing.say_deleted()
        return True
