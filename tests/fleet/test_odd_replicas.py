"""The entrance, and replicas that do not behave: they hang, answer garbage, stop half-way, or are none at all."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from holotron.fleet import entrance, replicas, router
from tests.fleet.stubs import JSON, KEY, REPLY, Stub, chat, fleet, played, whole

ODD = {
    "nothing": b"",
    "garbage": b"\x00\xff this is not HTTP\r\n\r\n",
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-ty",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-length: 100\r\n\r\n{",
    "half a stream": b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\nda",
}


@pytest.mark.parametrize("reply", ODD.values(), ids=list(ODD))
def test_nobody_hears_of_one_that_answers_nonsense(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: bytes
) -> None:
    monkeypatch.setattr(router, "PAUSE_SECONDS", 0.001)

    async def play() -> None:
        streams = b"event-stream" in reply
        async with fleet(tmp_path, Stub(reply), Stub(whole(REPLY, b"text/event-stream" if streams else JSON))) as (
            _,
            client,
        ):
            for n in range(4):
                assert (await chat(client, session_id=f"s{n}", session_open=True)).content == REPLY
                assert (await chat(client)).content == REPLY
                assert (await chat(client, headers={"x-session-id": f"h{n}"})).content == REPLY
        async with fleet(tmp_path, Stub(reply)) as (_, client):
            answer = await chat(client)
            told = answer.json() if answer.status_code == 503 else json.loads(answer.text.removeprefix("data: "))
            assert told["error"]["code"] == "no_replica"

    played(play)


def test_one_that_hangs_is_left_alone_and_then_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for where, name, seconds in (
        (replicas, "LOOK_SECONDS", 0.2),
        (replicas, "QUIET_SECONDS", 1.2),
        (replicas, "DEAF_SECONDS", 2.5),
        (entrance, "SCRAPE_SECONDS", 0.3),
    ):
        monkeypatch.setattr(where, name, seconds)

    async def play() -> None:
        one, other = stubs = Stub(), Stub()
        async with fleet(tmp_path, *stubs) as (door, client):
            assert (await chat(client, session_id="s", session_open=True)).status_code == 200
            where = door.homes.get("anyone", "session", "s")
            assert where is not None
            if where.replica.name == "1":
                one, other = other, one
            one.hangs = True
            waiting = asyncio.ensure_future(chat(client, session_id="s"))

            while not where.replica.quiet:
                await asyncio.sleep(0.05)
            text = (await client.get("/metrics")).text
            assert f'holotron_x_total{{replica="{1 - int(where.replica.name)}"}} 1.0' in text
            assert f'holotron_router_replica_up{{replica="{where.replica.name}"}} 0.0' in text
            assert [(await chat(client)).status_code for _ in range(3)] == [200] * 3, "nothing new goes there"
            assert not waiting.done()
            assert (await waiting).content == REPLY, "though its connection was never closed"
            assert "/fleet/sessions/revive" in other.asked and "/fleet/sessions/revive" not in one.asked

    played(play)


def test_what_a_silent_one_may_have_is_not_taken_up_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = replicas.Replica.ask

    async def ask(self: replicas.Replica, method: str, target: str, body: Any = None, seconds: float = 60.0) -> Any:
        return await real(self, method, target, body, min(seconds, 0.2))

    monkeypatch.setattr(replicas.Replica, "ask", ask)

    async def play() -> None:
        one, other = Stub(), Stub()
        async with fleet(tmp_path, one, other) as (_, client):
            one.hangs = True
            waiting = asyncio.ensure_future(chat(client, session_id="s"))
            await asyncio.sleep(0.5)
            one.hangs, one.has = False, True  # it was only busy
            assert (await waiting).content == REPLY
            assert "/fleet/sessions/revive" not in [*one.asked, *other.asked]

    played(play)


def test_what_is_no_replica_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        stranger = Stub()
        stranger.status = {"hello": "I am a web site"}
        async with fleet(tmp_path, stranger, Stub()) as (door, client):
            assert (await chat(client)).content == REPLY
            before = door.replicas.get("0")
            while door.replicas.get("0") is before or door.supervisor.restarts < 2:
                await asyncio.sleep(0.05)
            stranger.status = {**Stub().status}
            while len(door.replicas.serving()) < 2:
                await asyncio.sleep(0.05)

    played(play)
    said = [
        record.getMessage() for record in caplog.records if "no replica with this fleet's key" in record.getMessage()
    ]
    assert len(said) == 1


def test_names_of_sessions_are_unique_among_all_replicas(tmp_path: Path) -> None:
    async def play() -> None:
        one, other = Stub(), Stub()
        async with fleet(tmp_path, one, other) as (door, client):
            for name in ("a", "b"):
                assert (await client.post("/v1/sessions", json={"id": name})).status_code == 200
            homes = [door.homes.get("anyone", "session", name) for name in ("a", "b")]
            assert {home.replica.name for home in homes if home is not None} == {"0", "1"}
            (one if homes[1] is not None and homes[1].replica.name == "0" else other).has = True
            for path, body in (
                ("sessions/a/fork", {"ids": ["b"]}),
                ("chat/completions", {"session_id": "a", "fork": "b"}),
            ):
                answer = await client.post(f"/v1/{path}", json=body)
                assert (answer.status_code, answer.json()["error"]["code"]) == (409, "session_exists")
            assert (await client.post("/v1/sessions/a/fork", json={"ids": ["c"]})).status_code == 200
            made = door.homes.get("anyone", "session", "c")
            assert made is not None and homes[0] is not None
            assert (made.replica, made.provisional) == (homes[0].replica, False), "nobody else can take its name"
            one.has = other.has = False  # b has expired
            assert (await client.post("/v1/sessions/a/fork", json={"ids": ["b"]})).status_code == 200
            assert not any(home.visits for home in door.homes.everywhere())

    played(play)


def test_an_entrance_that_comes_later_learns_which_weights_there_are(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path, Stub(version=3), Stub(version=3)) as (door, client):
            assert door.updates.version == 3
            told = {"file": "0" * 32 + ".weights", "changes_version": 0}
            answer = await client.post("/fleet/weights", json=told, headers={"authorization": f"Bearer {KEY}"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "other_version")

    played(play)
