"""Conversations that end while they are to be moved."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from holotron.fleet.homes import Homes
from holotron.fleet.moving import Mover
from holotron.fleet.replicas import Replica, Replicas


@pytest.mark.parametrize("kind", ["session", "response"])
def test_one_that_is_closed_before_its_turn_keeps_nobody_from_leaving(
    monkeypatch: pytest.MonkeyPatch, kind: Literal["session", "response"]
) -> None:
    asked: list[tuple[str, str, Any]] = []

    async def ask(self: Replica, method: str, target: str, body: Any = None, seconds: float = 60.0) -> Any:
        asked.append((self.name, target, body))
        rows = [{"owner": "me", "id": "goes on", "root": "goes on"}]
        return {"file": "f", "sessions": []} if target.endswith("leave") else {"data": rows}

    async def run() -> None:
        replicas, homes = Replicas(), Homes()
        ends, stays = (Replica(name, "127.0.0.1", 1, "key") for name in ("ends", "stays"))
        for one in (ends, stays):
            one.stage = "ready"
            replicas.put(one)
        closed, goes_on = (homes.settle("me", kind, name, ends) for name in ("closed", "goes on"))
        mover = Mover(replicas, homes)
        visit = closed.enter()
        draining = asyncio.ensure_future(mover.drain(ends))
        await asyncio.sleep(0.05)  # it waits for the request that closes the first one
        homes.forget(closed)
        closed.leave(visit)
        assert await draining == 1
        assert goes_on.replica is stays and homes.of(ends) == []
        assert mover.moves == {"drained": 1}
        assert not [one for one in asked if "closed" in str(one[2])]

    monkeypatch.setattr(Replica, "ask", ask)
    asyncio.run(run())
