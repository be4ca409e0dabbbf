"""Logs of sessions on disk: another server goes on with them; who may read them, when they go."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from safetensors import SafetensorError

from holotron.errors import ConfigError
from holotron.model.weights import save_checkpoint
from holotron.server.journal import Journal
from holotron.server.moving import Harbour
from holotron.server.private import private_folder
from holotron.server.run import tidy
from holotron.server.workers import Workers
from tests.engine.support import page, sparse_tiny
from tests.server.inside import Inside, inside
from tests.server.pictures import data_url, png_url, with_image

ALICE = "2bd806c97f0e"  # as the server calls the key "alice"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("journal")


@pytest.fixture(scope="module")
def pair(folder: Path) -> Iterator[tuple[Inside, Inside]]:
    """Two servers that see one journal, as two replicas on a machine do."""
    flags = ("--server.api_keys", "alice,bob", "--fleet.key", "secret", "--fleet.journal", str(folder / "logs"))
    shared = (*flags, "--fleet.folder", str(folder / "moving"))
    with inside(*shared) as here, inside(*shared, "--fleet.journal_bytes", "9000") as there:
        yield here, there


def say(server: Inside, session: str, text: str, look: str | None = None, **more: Any) -> Any:
    """`look`: a colour, or a picture as a data URL."""
    message: dict[str, Any] = {"role": "user", "content": text}
    if look is not None:
        message = with_image(text, look if look.startswith("data:") else data_url(look))
    body = {"messages": [message], "max_tokens": 6, "temperature": 0, "ignore_eos": True, "session_id": session}
    answer = server.post("/v1/chat/completions", {**body, "return_token_ids": True, **more}, "alice")
    assert answer.status_code == 200, answer.text
    return answer.json()


def revive(server: Inside, session: str, owner: str = ALICE, **more: Any) -> httpx.Response:
    headers = {"authorization": "Bearer secret"}
    body = {"owner": owner, "id": session, **more}
    return httpx.post(f"{server.url}/fleet/sessions/revive", json=body, headers=headers, timeout=60)


def essence(answer: Any) -> Any:
    return answer["choices"][0]["token_ids"], answer["prompt_token_ids"], answer["session"]["turns"]


def logs(folder: Path) -> list[Path]:
    return sorted((folder / "logs").glob("*/*/log"))


def forget(server: Inside, session: str) -> None:
    """As if the process had been killed: the log stays."""
    assert server.service.loaded is not None and server.service.journal is not None
    server.service.journal.forget(ALICE, session)
    sessions = server.service.loaded.sessions
    asyncio.run(sessions.close(ALICE, sessions.get(ALICE, session), moved=True))


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def sessions_of(server: Inside) -> list[str]:
    listed = httpx.get(f"{server.url}/v1/sessions", headers=bearer("alice"))
    return [row["id"] for row in listed.json()["data"]]


def twin(server: Inside, session: str) -> str:
    """That says what the session itself would say next."""
    if "twin" not in sessions_of(server):
        assert server.post(f"/v1/sessions/{session}/fork", {"ids": ["twin"]}, "alice").status_code == 200
    return "twin"


def test_another_server_goes_on(pair: tuple[Inside, Inside], folder: Path) -> None:
    here, there = pair
    say(here, "lives", "first", "red", session_open=True)
    say(here, "lives", "second", "blue")
    say(here, "lives", "third")
    (log,) = logs(folder)
    for path in (log.parents[2], *log.parents[2].rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    pictures = [path for path in log.parent.iterdir() if path.suffix == ".picture"]
    assert len(pictures) == 2, "as they were sent"
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in pictures)
    steps: list[tuple[str, str | None, dict[str, Any]]]
    steps = [("go on", None, {}), ("again", None, {"rewind": 1}), ("and look", "green", {})]
    wanted = [essence(say(here, twin(here, "lives"), text, colour, **more)) for text, colour, more in steps]
    forget(here, "twin")
    shutil.rmtree(next(path.parent for path in logs(folder) if path != log))
    assert revive(there, "lives", owner="000000000000").status_code == 404, "another key's"
    told = revive(there, "lives")
    assert (told.status_code, told.json()["turns"]) == (200, 3)
    assert [essence(say(there, "lives", text, colour, **more)) for text, colour, more in steps] == wanted
    forget(here, "lives")
    assert there.post("/v1/sessions/lives", b"", "alice").status_code == 405
    closed = httpx.delete(f"{there.url}/v1/sessions/lives", headers={"authorization": "Bearer alice"})
    assert closed.status_code == 200
    assert not logs(folder), "a session that is closed leaves nothing behind"


def test_sparse_pictures_are_kept_as_they_were_sent_too(folder: Path) -> None:
    """Of each tile another part is read at every turn; one file of the client's serves them all."""
    model, processor = sparse_tiny()
    save_checkpoint(model, folder / "sparse")
    processor.save(folder / "sparse")
    shared = ["--server.api_keys", "alice", "--fleet.key", "secret", "--fleet.folder", str(folder / "moving")]
    shared += ["--model.source", str(folder / "sparse"), "--sessions.deltas", "0", "--fleet.journal"]
    with inside(*shared, str(folder / "sparse-logs")) as here, inside(*shared, str(folder / "sparse-logs")) as there:
        for n, boxes in enumerate([[(10, 10, 50, 20)], [(10, 10, 50, 20), (90, 70, 99, 80)], []]):
            say(here, "sparse", f"turn {n}", png_url(page(*boxes)), session_open=n == 0)
        (log,) = (folder / "sparse-logs").glob("*/*/log")
        kept = [path for path in log.parent.iterdir() if path.name not in ("log", "keeper")]
        assert len(kept) == 3 and all(path.read_bytes()[:4] == b"\x89PNG" for path in kept)
        last = png_url(page((10, 10, 50, 20)))
        wanted = essence(say(here, twin(here, "sparse"), "go on", last)), essence(say(here, "twin", "and"))
        assert revive(there, "sparse").json()["turns"] == 3
        assert (essence(say(there, "sparse", "go on", last)), essence(say(there, "sparse", "and"))) == wanted
        for server in (here, there):
            assert server.service.loaded is not None
            server.service.loaded.engine.check_integrity()


def routed(server: Inside, body: dict[str, Any], reply: str) -> httpx.Response:
    """As the router sends it."""
    headers = {"authorization": "Bearer secret", "x-fleet-owner": ALICE, "x-fleet-reply": f"{reply}-1700000000"}
    return httpx.post(f"{server.url}/v1/chat/completions", json=body, headers=headers, timeout=60)


def announce(server: Inside, reply: str, session: str | None, begun: bool = False, said: Any = ()) -> None:
    """What the router tells before it asks once more."""
    told = {"reply": reply, "owner": ALICE, "session": session, "begun": begun, "said": dict(said)}
    answer = httpx.post(f"{server.url}/fleet/replies", json=told, headers={"authorization": "Bearer secret"})
    assert answer.status_code == 200, answer.text


def test_a_reply_nobody_heard_is_taken_back_and_given_again(pair: tuple[Inside, Inside], folder: Path) -> None:
    here, there = pair
    say(here, "unheard", "first", "red", session_open=True)
    for rewind in (None, "prompt"):
        reply = ("a" if rewind is None else "b") * 32
        messages = [] if rewind else [{"role": "user", "content": "second"}]
        body = {"messages": messages, "session_id": "unheard", "max_tokens": 9, "ignore_eos": True}
        body |= {"return_token_ids": True} | ({"rewind": rewind} if rewind else {})
        first = routed(here, body, reply).json()  # sampled, without a seed of the client's
        forget(here, "unheard")  # ... and the server dies before the client has it
        assert revive(there, "unheard").json()["turns"] == 2
        announce(there, reply, "unheard")
        second = routed(there, body, reply).json()
        for field in ("session", "choices", "prompt_token_ids", "id", "created"):
            assert second[field] == first[field], field
        forget(there, "unheard")
        assert revive(here, "unheard").json()["turns"] == 2
    forget(here, "unheard")
    body = {"messages": [{"role": "user", "content": "x"}], "session_open": True, "max_tokens": 2, "ignore_eos": True}
    opened = routed(here, body, "c" * 32).json()["session"]["id"]
    forget(here, opened)
    assert revive(there, opened).status_code == 200
    announce(there, "c" * 32, opened)
    assert routed(there, body, "c" * 32).json()["session"]["id"] == opened
    forget(there, opened)
    shutil.rmtree(folder / "logs" / ALICE)


def test_a_stream_goes_on_after_what_was_heard(pair: tuple[Inside, Inside]) -> None:
    here, there = pair
    messages = [{"role": "user", "content": "count"}]
    body = {
        "messages": messages,
        "max_tokens": 12,
        "ignore_eos": True,
        "stream": True,
        "return_token_ids": True,
        "n": 2,
    }
    whole = routed(here, body, "d" * 32).text
    blocks = whole.split("\n\n")
    marks = [n for n, block in enumerate(blocks) if block.startswith(": ") and "spent" not in block]
    for cut in (marks[0], marks[5], marks[-1]):
        heard = {0: [], 1: []}
        for n in marks[1:]:
            if n <= cut:
                index, token = blocks[n][2:].split()
                heard[int(index)].append(int(token))
        announce(there, "d" * 32, None, begun=True, said=heard)
        rest = routed(there, body, "d" * 32).text
        events = [block for block in rest.split("\n\n") if block.startswith("data:")]
        expected = [block for block in blocks[cut + 1 :] if block.startswith("data:")]
        for choice in (0, 1):  # two replies may take turns in another order
            mine = f'"choices":[{{"index":{choice}'
            assert [e for e in events if mine in e] == [e for e in expected if mine in e]


def test_only_so_many_bytes_and_for_so_long(pair: tuple[Inside, Inside], folder: Path) -> None:
    _, there = pair
    journal = there.service.journal
    assert journal is not None
    for n in range(6):
        say(there, f"large-{n}", "look", f"#{n}0{n}0{n}0", session_open=True)
    assert journal.held <= 9_000
    assert journal.dropped > 0
    kept = {path.parent.name for path in logs(folder)}
    assert 0 < len(kept) < 6, "the oldest have gone"
    say(there, "large-0", "a session whose log went lives on")

    left = folder / "logs" / ALICE / ("0" * 32)
    left.mkdir()
    os.utime(left, (time.time() - 86_400,) * 2)
    assert there.service.loaded is not None
    open_now = [(owner, served.id) for owner, served in there.service.loaded.sessions.everybodys()]
    fresh = type(there.service.workers)()
    journal._workers = fresh  # its own belong to the server's event loop
    asyncio.run(journal.sweep(open_now[:1]))
    assert not left.exists(), "what somebody left behind"
    assert len(logs(folder)) <= 1, "sessions that are over"


def test_one_that_was_only_out_of_reach_gives_up_what_another_one_took(
    pair: tuple[Inside, Inside], folder: Path
) -> None:
    """The router took it for dead; then the network was mended."""
    here, there = pair
    for session in ("asked", "idle"):
        say(here, session, "first", session_open=True)
        assert revive(there, session).status_code == 200
        say(there, session, "second")
    told = {path: path.read_bytes() for path in logs(folder)}
    body = {"messages": [{"role": "user", "content": "x"}], "session_id": "asked", "max_tokens": 2}
    late = here.post("/v1/chat/completions", body, "alice")
    assert (late.status_code, late.json()["error"]["code"]) == (404, "session_not_found")
    assert sessions_of(here) == ["idle"]
    assert here.service.journal is not None
    here.service.journal._workers = Workers(1)  # its own belong to the server's event loop
    asyncio.run(tidy(here.service))
    here.service.journal._workers = here.service.workers
    assert sessions_of(here) == []
    assert {path: path.read_bytes() for path in logs(folder)} == told, "they are not its own to change any more"
    for session in ("asked", "idle"):
        assert say(there, session, "third")["session"]["turns"] == 3
        assert httpx.delete(f"{there.url}/v1/sessions/{session}", headers=bearer("alice")).status_code == 200


def test_how_old_a_log_is_says_the_disk_and_not_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk that several machines share, one of which has a clock that is off."""
    journal = Journal(tmp_path, 2**20, Workers(1), ttl=3600.0, responses_ttl=None)
    fresh = tmp_path / "owner" / "session"
    fresh.mkdir(parents=True)
    tomorrow = time.time() + 86_400
    monkeypatch.setattr(time, "time", lambda: tomorrow)
    asyncio.run(journal.sweep([]))
    assert fresh.exists()


@pytest.mark.parametrize("where", ["log", "pixels"])
def test_a_full_disk_is_counted_and_no_clients_business(
    pair: tuple[Inside, Inside], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Its session goes on; what is told twice would be a turn too many."""
    here, _ = pair
    assert here.service.journal is not None

    def full(*_: Any) -> None:
        if where == "log":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    name = f"full-{where}"
    say(here, name, "first", "red", session_open=True)
    with monkeypatch.context() as patched:
        patched.setattr(here.service.journal, "_write", full)
        assert say(here, name, "second")["session"]["turns"] == 2
    text = httpx.get(f"{here.url}/metrics").text
    assert f"holotron_journal_failures_total {here.service.journal.failures}.0" in text
    assert here.service.journal.failures > 0
    assert say(here, name, "third")["session"]["turns"] == 3
    assert httpx.delete(f"{here.url}/v1/sessions/{name}", headers=bearer("alice")).status_code == 200


def test_a_folder_that_cannot_be_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"fleet\.journal: .* cannot be written"):
        Journal(tmp_path / "file" / "logs", 2**20, Workers(1), ttl=None, responses_ttl=None)


def test_a_folder_that_somebody_else_made_where_everybody_writes_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He would read what clients say: the default in shared memory has a name that can be guessed."""
    everybodys, ours = tmp_path / "shm", tmp_path / "mounted"
    for parent, mode in ((everybodys, 0o1777), (ours, 0o755)):
        (parent / "fleet").mkdir(parents=True)
        parent.chmod(mode)
    assert private_folder(everybodys / "fleet") == everybodys / "fleet"
    monkeypatch.setattr(os, "getuid", lambda: (tmp_path.stat().st_uid or 1000) + 1)
    if os.geteuid() == 0:  # what root made is not somebody else's
        os.chown(everybodys / "fleet", 1000, 1000)
    with pytest.raises(ConfigError, match=r"fleet\.folder: .* another user made it"):
        Harbour(everybodys / "fleet", "key")
    assert private_folder(ours / "fleet") == ours / "fleet", "a volume that somebody prepared"
