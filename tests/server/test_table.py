"""The table of sessions: behind the keys, each key its own rows, the operator everybody's; plain HTML, no scripts."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from holotron.server.table import page
from tests.server.inside import Inside, inside

FLAGS = ("--server.api_keys", "first,second", "--server.metrics_key", "operators", "--quota.sessions", "2")


@pytest.fixture(scope="module")
def server() -> Iterator[Inside]:
    with inside(*FLAGS) as server:
        for key, name in (("first", "mine"), ("second", "theirs")):
            for text in ("hello", "and again"):
                said = server.chat(text, key, session_id=name, session_open=text == "hello", max_tokens=3)
                assert said.status_code == 200, said.text
        for name in ("another", "third"):
            server.post("/v1/sessions", {"id": name}, "first")
        yield server


def rows(server: Inside, key: str) -> dict[str, dict]:
    reply = httpx.get(f"{server.url}/sessions.json", headers={"Authorization": f"Bearer {key}"})
    assert reply.status_code == 200
    return {row["id"]: row for row in reply.json()["sessions"]}


def test_a_key_sees_its_own_sessions_and_what_they_cost(server: Inside) -> None:
    mine = rows(server, "first")
    assert set(mine) == {"mine", "another"}
    row = mine["mine"]
    assert (row["turns"], row["kind"], row["busy"], row["refused"]) == (2, "session", False, 0)
    assert row["computed_tokens"] > 0 and row["cached_tokens"] > 0 and row["generated_tokens"] == 6
    assert row["computed_tokens"] + 5 <= row["tokens"] + row["generated_tokens"]
    assert row["device_bytes"] > 0 and row["host_bytes"] == 0
    told = httpx.get(f"{server.url}/sessions.json", headers={"Authorization": "Bearer first"}).json()
    assert list(told["refused"].values()) == [1], "the session that was one too many"
    assert told["totals"] is None, "the server as a whole is the operator's business"


def test_the_operator_sees_everybodys(server: Inside) -> None:
    seen = rows(server, "operators")
    assert set(seen) == {"mine", "another", "theirs"}
    assert len({row["key"] for row in seen.values()}) == 2
    totals = httpx.get(f"{server.url}/sessions.json", headers={"Authorization": "Bearer operators"}).json()["totals"]
    assert totals["device"]["pages_used"] > 0 and totals["computed_tokens"] > 0


@pytest.mark.parametrize("path", ["/sessions", "/sessions.json"])
def test_nobody_sees_it_without_a_key(server: Inside, path: str) -> None:
    for auth in (None, ("anybody", "wrong"), ("", ""), ("first", "")):
        reply = httpx.get(f"{server.url}{path}", auth=auth)
        assert reply.status_code == 401 and "mine" not in reply.text
        assert reply.headers["www-authenticate"].startswith("Basic")
    for header in ("Basic !!!", "Basic", "Bearer", "Basic Zmlyc3Q="):
        assert httpx.get(f"{server.url}{path}", headers={"Authorization": header}).status_code == 401
    # A browser's way of sending a key opens the table and nothing else.
    assert httpx.get(f"{server.url}/v1/models", auth=("anybody", "first")).status_code == 401


def test_a_browser_reads_it_with_the_key_as_password(server: Inside) -> None:
    reply = httpx.get(f"{server.url}/sessions", auth=("anybody", "first"))
    assert reply.status_code == 200 and reply.headers["content-type"].startswith("text/html")
    assert "mine" in reply.text and "theirs" not in reply.text
    assert "default-src 'none'" in reply.headers["content-security-policy"] and "<script" not in reply.text
    assert "On the host" in reply.text and "Refused" in reply.text


def test_names_are_shown_as_text() -> None:
    shown = page({"model": "<b>m</b>", "totals": None, "refused": {}, "sessions": [], "not_listed": 0})
    assert "&lt;b&gt;m&lt;/b&gt;" in shown and "<b>m" not in shown


def test_without_keys_the_host_must_be_ours() -> None:
    with inside() as server:
        assert httpx.get(f"{server.url}/sessions").status_code == 200
        assert httpx.get(f"{server.url}/sessions.json").json()["totals"]["device"]["pages_total"] > 0
        assert httpx.get(f"{server.url}/sessions", headers={"Host": "evil.example"}).status_code == 403
