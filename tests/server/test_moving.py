"""A session that is moved from one server to another: its client does not notice, and only the router can do it."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from safetensors import SafetensorError

from holotron.engine import ExportedSession
from tests.server.inside import Inside, inside
from tests.server.pictures import data_url, with_image

SYSTEM = {"role": "system", "content": "You look at screens."}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fleet") / "sessions"


@pytest.fixture(scope="module")
def pair(folder: Path) -> Iterator[tuple[Inside, Inside]]:
    flags = ("--server.api_keys", "alice,bob", "--fleet.key", "secret", "--fleet.folder", str(folder))
    with inside(*flags) as here, inside(*flags) as there:
        yield here, there


def fleet(server: Inside, path: str, body: Any = None, key: str = "secret") -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"}
    if body is None:
        return httpx.get(f"{server.url}/fleet/{path}", headers=headers, timeout=60)
    return httpx.post(f"{server.url}/fleet/{path}", json=body, headers=headers, timeout=60)


def say(server: Inside, session: str, *messages: dict[str, Any], key: str = "alice", **more: Any) -> dict[str, Any]:
    body = {
        "messages": list(messages),
        "max_tokens": 6,
        "temperature": 0,
        "ignore_eos": True,
        "session_id": session,
        "return_token_ids": True,
        **more,
    }
    answer = server.post("/v1/chat/completions", body, key)
    assert answer.status_code == 200, answer.text
    return answer.json()


def begin(server: Inside, session: str) -> list[Any]:
    said = [say(server, session, SYSTEM, with_image("first", data_url("red")), session_open=True, mark=True)]
    return [*said, say(server, session, with_image("and now?", data_url("blue")))]


def named(server: Inside, session: str) -> dict[str, str]:
    (found,) = [one for one in fleet(server, "sessions").json()["data"] if one["id"] == session]
    return {"owner": found["owner"], "id": session}


def move(here: Inside, there: Inside, session: str) -> dict[str, Any]:
    name = named(here, session)
    left = fleet(here, "sessions/leave", name)
    assert left.status_code == 200, left.text
    arrived = fleet(there, "sessions/arrive", {"file": left.json()["file"]})
    assert arrived.status_code == 200, arrived.text
    assert fleet(here, "sessions/left", name).status_code == 200
    return arrived.json()


def essence(answer: dict[str, Any]) -> Any:
    return answer["choices"][0]["token_ids"], answer["prompt_token_ids"], answer["session"]["turns"]


def test_a_client_does_not_notice(pair: tuple[Inside, Inside], folder: Path) -> None:
    here, there = pair
    begin(here, "moves")
    begin(here, "stays")
    assert move(here, there, "moves")["turns"] == 2
    assert not list(folder.iterdir())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert here.post("/v1/sessions/moves/rewind", {"to": 1}, "alice").status_code == 404
    for step in ({"text": "go on"}, {"rewind": "prompt"}, {"text": "again"}, {"rewind": 1, "text": "from the first"}):
        messages = [{"role": "user", "content": step["text"]}] if "text" in step else []
        more = {"rewind": step["rewind"]} if "rewind" in step else {}
        moved, stayed = say(there, "moves", *messages, **more), say(here, "stays", *messages, **more)
        assert essence(moved) == essence(stayed)
        assert moved["usage"] == stayed["usage"], "nothing is computed again"
    for server, session in ((there, "moves"), (here, "stays")):
        assert server.post(f"/v1/sessions/{session}/fork", {"ids": [f"{session}-fork"]}, "alice").status_code == 200


def test_while_it_moves_it_is_busy_and_afterwards_free(pair: tuple[Inside, Inside], folder: Path) -> None:
    here, _ = pair
    begin(here, "thinks-twice")
    name = named(here, "thinks-twice")
    left = fleet(here, "sessions/leave", name)
    body = {"messages": [{"role": "user", "content": "x"}], "session_id": "thinks-twice", "max_tokens": 1}
    busy = here.post("/v1/chat/completions", body, "alice")
    assert (busy.status_code, busy.json()["error"]["code"]) == (409, "session_moving")
    assert fleet(here, "sessions/leave", name).status_code == 409
    assert fleet(here, "sessions/stays", name).status_code == 200
    assert say(here, "thinks-twice", {"role": "user", "content": "x"})["session"]["turns"] == 3
    (folder / left.json()["file"]).unlink()


def test_a_folder_without_room_is_said_and_the_session_goes_on(
    pair: tuple[Inside, Inside], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container has 64 MB of shared memory by default."""
    here, _ = pair
    begin(here, "too-large")

    def full(self: ExportedSession, path: Path) -> None:
        path.touch()
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as patched:
        patched.setattr(ExportedSession, "write", full)
        left = fleet(here, "sessions/leave", named(here, "too-large"))
    assert (left.status_code, left.json()["error"]["code"]) == (503, "not_written")
    assert "fleet.folder" in left.json()["error"]["message"] and "No space left" in left.json()["error"]["message"]
    assert say(here, "too-large", {"role": "user", "content": "x"})["session"]["turns"] == 3


def test_it_stays_its_owners(pair: tuple[Inside, Inside]) -> None:
    here, there = pair
    begin(here, "private")
    move(here, there, "private")
    body = {"messages": [{"role": "user", "content": "what did she say?"}], "session_id": "private", "max_tokens": 1}
    assert there.post("/v1/chat/completions", body, "bob").status_code == 404
    assert say(there, "private", {"role": "user", "content": "x"})["session"]["turns"] == 3


def test_who_may_move_sessions(pair: tuple[Inside, Inside]) -> None:
    here, _ = pair
    begin(here, "mine")
    for key in ("alice", "secre", "secret2"):
        assert fleet(here, "sessions", key=key).status_code == 401
        assert fleet(here, "sessions/leave", {"owner": "x", "id": "mine"}, key=key).status_code == 401
    assert fleet(here, "sessions/leave", {"owner": "x", "id": "mine"}).status_code == 404
    with inside() as plain:
        assert fleet(plain, "sessions").status_code == 404


@pytest.mark.parametrize("file", ["", "../../etc/passwd", "0" * 32 + ".session", "0" * 32 + ".session/..", "a.session"])
def test_only_files_of_sessions_arrive(pair: tuple[Inside, Inside], file: str) -> None:
    _, there = pair
    answer = fleet(there, "sessions/arrive", {"file": file})
    assert answer.status_code == 400, answer.text


def test_a_name_that_is_taken(pair: tuple[Inside, Inside]) -> None:
    here, there = pair
    begin(here, "twice")
    begin(there, "twice")
    left = fleet(here, "sessions/leave", named(here, "twice")).json()
    refused = fleet(there, "sessions/arrive", {"file": left["file"]})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "session_exists")
    assert fleet(here, "sessions/stays", named(here, "twice")).status_code == 200
