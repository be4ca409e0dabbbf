"""An entrance whose memory is not the truth any more: another one has moved a session, a replica that was given up was
only out of reach, the last one that could take sessions is not there yet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from holotron.fleet.entrance import Entrance
from holotron.fleet.homes import Home, Homes
from holotron.fleet.replicas import Replica
from tests.fleet.stubs import REPLY, Stub, chat, fleet, played, refusal, whole


def home_of(door: Entrance, session: str) -> Home:
    found = door.homes.get("anyone", "session", session)
    assert found is not None
    return found


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Entrance, httpx.AsyncClient, Stub, Stub]]:
    """An entrance to two, the first of which has the session "s"."""
    stubs = Stub(), Stub()
    async with fleet(folder, *stubs) as (door, client):
        assert (await chat(client, session_id="s", session_open=True)).status_code == 200
        number = int(home_of(door, "s").replica.name)
        yield door, client, stubs[number], stubs[1 - number]


def test_a_session_that_another_entrance_moved_is_looked_for(tmp_path: Path) -> None:
    async def play() -> None:
        async with opened(tmp_path) as (door, client, one, other):
            one.reply, other.has = refusal(404, "session_not_found"), True
            assert (await chat(client, session_id="s")).content == REPLY
            assert home_of(door, "s").replica.url.endswith(str(other.port))
            other.reply, other.has = refusal(404, "session_not_found"), False
            assert (await chat(client, session_id="s")).status_code == 404, "it was closed"

    played(play)


def test_one_that_another_entrance_just_moves_is_waited_for(tmp_path: Path) -> None:
    async def play() -> None:
        async with opened(tmp_path) as (_, client, one, other):
            one.reply, one.has = refusal(409, "session_moving"), True
            waiting = asyncio.ensure_future(chat(client, session_id="s"))
            while one.asked.count("/v1/chat/completions") < 4:
                await asyncio.sleep(0.01)
            one.reply, one.has, other.has = refusal(404, "session_not_found"), False, True
            assert (await waiting).content == REPLY
            forks = await client.post("/v1/sessions/s/fork", json={})
            assert forks.status_code == 200

    played(play)


def test_a_session_of_a_replica_that_comes_back_is_there() -> None:
    async def run() -> None:
        homes = Homes()
        before, after, other = (Replica(name, "127.0.0.1", 1, "key") for name in ("0", "0", "1"))
        before.stage, after.stage, other.stage = "dead", "ready", "ready"
        kept, taken = homes.settle("me", "session", "kept", before), homes.settle("me", "session", "taken", other)
        homes.seen(after, [("me", "kept"), ("me", "taken")])
        assert (kept.replica, taken.replica) == (after, other), "nothing is computed again, nor had twice"

    asyncio.run(run())


def test_sessions_of_one_that_ends_wait_for_another_that_takes_them(tmp_path: Path) -> None:
    async def play() -> None:
        ends, comes = Stub(), Stub()
        comes.status = {"nothing": "yet"}
        async with fleet(tmp_path, ends, comes) as (door, client):
            assert (await chat(client, headers={"x-session-id": "h"})).status_code == 200
            home = door.homes.get("anyone", "header", "h")
            assert home is not None
            ends.status["stage"] = "draining"
            while home.replica.stage != "draining":
                await asyncio.sleep(0.01)
            comes.status = {**Stub().status}
            while home.replica.url.endswith(str(ends.port)):
                await asyncio.sleep(0.01)
            assert (await chat(client, headers={"x-session-id": "h"})).content == REPLY

    played(play)


def test_what_serves_something_else_than_most_gets_nothing_new(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As in the course of an update, or by mistake: an answer must not depend on whom chance has chosen."""

    async def play() -> None:
        stubs = [Stub(model="m", weights="old") for _ in range(3)]
        async with fleet(tmp_path, *stubs) as (door, client):
            assert (await chat(client, session_id="s", session_open=True)).status_code == 200
            home = home_of(door, "s").replica
            changed = stubs[int(home.name)]
            changed.status["weights"] = "new"
            while home.stage != "other":
                await asyncio.sleep(0.01)
            before = changed.asked.count("/v1/chat/completions")
            assert [(await chat(client)).status_code for _ in range(6)] == [200] * 6
            assert changed.asked.count("/v1/chat/completions") == before
            assert (await chat(client, session_id="s")).content == REPLY, "what it has stays there"
            next(stub for stub in stubs if stub is not changed).status["weights"] = "new"
            while [one.stage for one in door.replicas.all()].count("ready") != 2 or home.stage != "ready":
                await asyncio.sleep(0.01)
            rows = door.about()["replicas"]
            assert sorted((row["stage"], row["weights"]) for row in rows) == [
                ("other", "old"),
                ("ready", "new"),
                ("ready", "new"),
            ]

    played(play)
    said = [record.getMessage() for record in caplog.records if "gets nothing new" in record.getMessage()]
    assert "serves m (new) while most serve m (old)" in said[0]


def test_a_list_names_no_session_twice(tmp_path: Path) -> None:
    async def play() -> None:
        listed = whole(b'{"data": [{"id": "s"}]}')
        async with fleet(tmp_path, Stub(listed), Stub(listed)) as (door, client):
            home = door.homes.settle("anyone", "session", "s", door.replicas.all()[1])
            rows = (await client.get("/v1/sessions")).json()["data"]
            assert [(row["id"], row["replica"]) for row in rows] == [("s", home.replica.name)]

    played(play)
