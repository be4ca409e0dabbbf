"""Several replicas behind one entrance, as a user starts them: real processes, real clients, real kills."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
import torch

from holotron.engine.weights import LowRank
from holotron.fleet.weights import FleetWeights
from holotron.model.loading import load_model
from tests.deploy.files import probe_paths
from tests.deploy.queries import all_unknown
from tests.fleet.playing import KEY, Serving, play, screenshot, serving
from tests.server.inside import inside

REPLICAS = 3
SESSIONS = range(12)
STEPS = 4
TOKENS = 48


@pytest.fixture(scope="module")
def fleet() -> Iterator[Serving]:
    flags = ("--memory.sessions", "32", "--memory.context", "4096", "--server.api_keys", "alice,bob")
    with serving("tiny", *flags, replicas=REPLICAS) as server:
        yield server


@pytest.fixture(scope="module")
def alone() -> dict[int, list[list[int]]]:
    """What one server says."""
    with inside("--memory.context", "4096") as server:
        return asyncio.run(play(server.url, SESSIONS, STEPS, tokens=TOKENS))


def post(server: Serving, path: str, body: Any = None, key: str = "alice", **headers: str) -> httpx.Response:
    given = {"authorization": f"Bearer {key}", **headers}
    return httpx.post(f"{server.url}{path}", json=body, headers=given, timeout=60)


def home(server: Serving, session: str, key: str = "alice") -> str:
    listed = httpx.get(f"{server.url}/v1/sessions", headers={"authorization": f"Bearer {key}"}, timeout=60).json()
    return next(row["replica"] for row in listed["data"] if row["id"] == session)


def pid(server: Serving, name: str) -> int:
    rows = server.admin("GET", "/fleet/replicas")["replicas"]
    return next(row["pid"] for row in rows if row["name"] == name)


def wait_for_steps(server: Serving, before: dict[str, float], count: int) -> None:
    """Until so many sessions went on with another step, however long clients take to begin."""
    name, until = 'holotron_router_bound_total{how="session known"}', time.monotonic() + 60
    while server.metrics().get(name, 0.0) < before.get(name, 0.0) + count:
        assert time.monotonic() < until, "nobody plays"
        time.sleep(0.02)


def close_all(server: Serving) -> None:
    for key in ("alice", "bob"):
        headers = {"authorization": f"Bearer {key}"}
        for row in httpx.get(f"{server.url}/v1/sessions", headers=headers, timeout=60).json()["data"]:
            httpx.delete(f"{server.url}/v1/sessions/{row['id']}", headers=headers, timeout=60)


def chat(text: str = "hello", **more: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 4, "temperature": 0, "ignore_eos": True}
    return {**body, "return_token_ids": True, **more}


def test_sessions_stay_and_say_what_one_server_says(fleet: Serving, alone: dict[int, list[list[int]]]) -> None:
    before = fleet.metrics()
    said = asyncio.run(play(fleet.url, SESSIONS, STEPS, tokens=TOKENS, key="alice"))
    after = fleet.metrics()
    assert said == alone

    def rise(name: str) -> float:
        return after.get(name, 0.0) - before.get(name, 0.0)

    assert rise('holotron_router_bound_total{how="session known"}') == len(SESSIONS) * STEPS  # closing them, too
    assert rise('holotron_router_bound_total{how="session unknown"}') == 0
    assert rise("holotron_fleet_recomputed_tokens_total") == 0
    shares = [rise(f'holotron_requests_total{{replica="{n}"}}') for n in range(REPLICAS)]
    assert shares == [len(SESSIONS) * STEPS / REPLICAS] * REPLICAS, "each has its part"
    assert sum(shares) == rise("holotron_fleet_requests_total")
    assert after["holotron_fleet_sessions_open"] == 0


def test_three_kills_and_nothing_is_lost(fleet: Serving, alone: dict[int, list[list[int]]]) -> None:
    draw = random.Random(1)
    for _ in range(3):
        before = fleet.metrics()
        playing: dict[str, Any] = {}
        thread = threading.Thread(
            target=lambda into=playing: into.update(
                said=asyncio.run(play(fleet.url, SESSIONS, STEPS, tokens=TOKENS, key="alice", close=False))
            )
        )
        thread.start()
        wait_for_steps(fleet, before, draw.randrange(1, len(SESSIONS)))
        os.kill(pid(fleet, str(draw.randrange(REPLICAS))), signal.SIGKILL)
        thread.join(120)
        assert playing["said"] == alone, "whole replies, no error, nothing said twice"
        moved = 'holotron_router_moves_total{why="revived"}'
        assert fleet.metrics().get(moved, 0.0) >= before.get(moved, 0.0)
        close_all(fleet)
        fleet.wait_until_whole()
    assert fleet.metrics()['holotron_router_moves_total{why="revived"}'] > 0


def test_draining_and_moving_are_not_noticed(fleet: Serving, alone: dict[int, list[list[int]]]) -> None:
    playing: dict[str, Any] = {}
    thread = threading.Thread(
        target=lambda: playing.update(
            said=asyncio.run(play(fleet.url, SESSIONS, STEPS, tokens=TOKENS, key="alice", close=False))
        )
    )
    idle = fleet.metrics()
    thread.start()
    wait_for_steps(fleet, idle, 2)
    told = fleet.admin("POST", "/fleet/replicas/0/drain")
    assert told["moved"] > 0
    assert told["seconds"] <= 2.0
    thread.join(120)
    assert playing["said"] == alone
    assert all(home(fleet, f"task-{n}") != "0" for n in SESSIONS)
    assert post(fleet, "/v1/sessions/task-0/move", {"replica": "0"}).status_code == 400, "it is kept empty"
    assert fleet.admin("POST", "/fleet/replicas/0/resume")["stage"] == "ready"

    body = chat("and now?", session_id="task-0")
    before = fleet.metrics()["holotron_fleet_recomputed_tokens_total"]
    there = post(fleet, "/v1/sessions/task-0/fork", {"ids": ["stays"]})
    assert there.status_code == 200
    moved = post(fleet, "/v1/sessions/task-0/move", {"replica": "0"}).json()
    assert (moved["replica"], moved["id"]) == ("0", "task-0")
    elsewhere, stayed = (post(fleet, "/v1/chat/completions", {**body, "session_id": s}) for s in ("task-0", "stays"))
    assert elsewhere.json()["choices"] == stayed.json()["choices"]
    assert elsewhere.json()["usage"] == stayed.json()["usage"], "nothing is computed again"
    assert fleet.metrics()["holotron_fleet_recomputed_tokens_total"] == before
    assert post(fleet, "/v1/sessions/task-0/move", {"replica": "9"}).status_code == 400
    assert post(fleet, "/v1/sessions/nobody/move").status_code == 404
    assert post(fleet, "/v1/sessions/task-0/move", key="bob").status_code == 404, "another key's"
    close_all(fleet)


def test_a_stream_that_is_cut_off_goes_on(fleet: Serving) -> None:
    client = openai.OpenAI(base_url=f"{fleet.url}/v1", api_key="alice", max_retries=0, timeout=60)
    kinds: list[dict[str, Any]] = [{"session_id": "cut", "session_open": True}, {}]
    for more in kinds:
        stream = client.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": "a long story"}],
            seed=11,  # line breaks at the edges of a reply are dropped, and a random one may begin with some
            max_tokens=1500,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True, "return_token_ids": True, **more},
        )
        said: list[int] = []
        text, usage, ids = "", None, set()
        for n, chunk in enumerate(stream):
            ids.add((chunk.id, chunk.created))
            usage = chunk.usage or usage
            if chunk.choices:
                said += getattr(chunk.choices[0], "token_ids", None) or []
                text += chunk.choices[0].delta.content or ""
            if n == 20:
                busy = [row for row in fleet.admin("GET", "/fleet/replicas")["replicas"] if row["in_flight"]]
                os.kill(busy[0]["pid"], signal.SIGKILL)
        assert len(said) == usage.completion_tokens == 1500, "each token once"  # type: ignore[union-attr]
        assert len(ids) == 1
        assert text == load_model("tiny")[1].tokenizer.decode(said)
    log = post(fleet, "/v1/sessions/cut/rewind", {"to": "prompt"})
    assert (log.status_code, log.json()["awaits_reply"]) == (200, True)
    close_all(fleet)
    fleet.wait_until_whole()


def test_responses_survive_and_move(fleet: Serving) -> None:
    client = openai.OpenAI(base_url=f"{fleet.url}/v1", api_key="bob", max_retries=0, timeout=60)

    def ask(text: str, previous: str | None = None, **more: Any) -> Any:
        content = [
            {"type": "input_text", "text": text},
            {"type": "input_image", "image_url": screenshot(7, len(text)), "detail": "auto"},
        ]
        return client.responses.create(
            model="tiny",
            input=[{"role": "user", "content": content}],  # type: ignore[list-item,misc]
            previous_response_id=previous,
            max_output_tokens=6,
            temperature=0,
            extra_body={"ignore_eos": True},
            **more,
        )

    first = ask("one")
    second = ask("two, longer", first.id)
    assert second.usage.input_tokens_details.cached_tokens > 0
    rows = fleet.admin("GET", "/fleet/replicas")["replicas"]
    (where,) = [row["name"] for row in rows if row["responses"]] or [""]
    for _ in range(30):  # the entrance looks once a second
        rows = fleet.admin("GET", "/fleet/replicas")["replicas"]
        found = [row["name"] for row in rows if row["responses"] == 2]
        if found:
            where = found[0]
            break
        time.sleep(0.1)
    assert fleet.admin("POST", f"/fleet/replicas/{where}/drain")["moved"] >= 1
    third = ask("three, longer still", second.id)
    assert third.usage.input_tokens_details.cached_tokens > second.usage.input_tokens, "its session came along"
    fleet.admin("POST", f"/fleet/replicas/{where}/resume")
    assert client.responses.retrieve(first.id).id == first.id
    for row in fleet.admin("GET", "/fleet/replicas")["replicas"]:
        if row["name"] != where:
            os.kill(row["pid"], signal.SIGKILL)
    again = ask("three, longer still", second.id)
    assert again.output_text == third.output_text, "written from its items, and computed again"
    assert [item.type for item in client.responses.input_items.list(first.id)] == ["message"]
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    assert ask("four", again.id).id
    other = openai.OpenAI(base_url=f"{fleet.url}/v1", api_key="alice", max_retries=0)
    with pytest.raises(openai.NotFoundError):
        other.responses.retrieve(again.id)
    fleet.wait_until_whole()


def test_headers_bind_and_a_call_ends_that(fleet: Serving) -> None:
    def known() -> float:
        return fleet.metrics().get('holotron_router_bound_total{how="header known"}', 0.0)

    before, computed = known(), []
    history: list[Any] = [{"role": "user", "content": "begin " * 30}]
    for n in range(4):
        answer = post(fleet, "/v1/chat/completions", chat(messages=history), **{"x-session-id": "mine"}).json()
        usage = answer["usage"]
        computed.append(usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"])
        history += [answer["choices"][0]["message"], {"role": "user", "content": f"more {n}"}]
    assert known() == before + 3
    assert max(computed[1:]) < computed[0] / 3
    headers = {"authorization": "Bearer alice"}
    ended = httpx.delete(f"{fleet.url}/v1/sessions/mine", headers=headers)
    assert (ended.status_code, ended.json()["deleted"]) == (200, True)
    assert httpx.delete(f"{fleet.url}/v1/sessions/mine", headers=headers).status_code == 404


def test_the_doors_are_those_of_one_server(fleet: Serving) -> None:
    assert post(fleet, "/v1/chat/completions", chat(), key="mallory").json()["error"]["code"] == "invalid_api_key"
    for headers in ({"x-fleet-owner": "anyone"}, {"x-fleet-owner": "2bd806c97f0e", "x-fleet-reply": "a" * 32 + "-1"}):
        assert post(fleet, "/v1/chat/completions", chat(), key="mallory", **headers).status_code == 401
    url = fleet.admin("GET", "/fleet/replicas")["replicas"][0]["url"]
    for key in ("alice", "none"):
        answer = httpx.post(f"{url}/v1/chat/completions", json=chat(), headers={"authorization": f"Bearer {key}"})
        assert answer.status_code == 401, "nobody goes around the entrance"
    assert httpx.get(f"{url}/metrics").status_code == 401
    assert httpx.get(f"{fleet.url}/fleet/replicas").status_code == 401
    bad = post(fleet, "/v1/chat/completions", chat(nonsense=1))
    assert (bad.status_code, bad.json()["error"]["code"]) == (400, "unknown_parameter")
    assert post(fleet, "/v1/chat/completions", chat(session_id="none")).json()["error"]["code"] == "session_not_found"
    forked = post(fleet, "/v1/sessions", {"id": "f"})
    assert forked.status_code == 200
    assert post(fleet, "/v1/sessions", {"id": "f"}).json()["error"]["code"] == "session_exists"
    assert post(fleet, "/v1/sessions", {"id": "f"}, key="bob").status_code == 200, "names are each key's own"
    post(fleet, "/v1/chat/completions", chat(session_id="f"))
    made = post(fleet, "/v1/sessions/f/fork", {"n": 2}).json()["data"]
    assert post(fleet, "/v1/chat/completions", chat(session_id=made[1]["id"])).status_code == 200, "found by asking"
    assert httpx.get(f"{fleet.url}/health").json()["replicas"] == {str(n): "ready" for n in range(REPLICAS)}
    close_all(fleet)


def test_what_missed_is_told_as_by_one_server(fleet: Serving) -> None:
    for wrong, right in (("/chat/completions", "/v1/chat/completions"), ("//v1/models", "/v1/models")):
        assert post(fleet, wrong, chat()).json()["error"]["message"].endswith(f"Did you mean {right}?")
    assert "/docs" in post(fleet, "/").json()["error"]["message"]
    assert post(fleet, "/v1/embeddings").json()["error"]["code"] == "not_supported"
    packed = {"content-type": "application/json", "content-encoding": "gzip"}
    assert post(fleet, "/v1/chat/completions", chat(), **packed).status_code == 415
    head = httpx.head(f"{fleet.url}/v1/models", headers={"authorization": "Bearer alice"})
    assert (head.status_code, head.content) == (200, b"")


def test_new_weights_reach_all_and_those_who_come_late(fleet: Serving) -> None:
    names = [row["name"] for row in fleet.admin("GET", "/fleet/replicas")["replicas"]]

    def said_by_all() -> tuple[Any, ...]:
        """Which must be one thing: tokens, and the version of each."""
        said = set()
        for name in names:
            assert post(fleet, "/v1/sessions", {"id": f"on-{name}"}).status_code == 200
            assert post(fleet, f"/v1/sessions/on-{name}/move", {"replica": name}).status_code == 200
            choice = post(fleet, "/v1/chat/completions", chat(session_id=f"on-{name}")).json()["choices"][0]
            said.add((tuple(choice["token_ids"]), *choice["versions"]))
        close_all(fleet)
        (one,) = said
        return one

    model, _ = load_model("tiny")
    name = "language_model.lm_head.weight"
    head = dict(model.named_parameters())[name].detach()
    before, *versions = said_by_all()
    assert versions == [0] * 4
    broadcast, whole = FleetWeights(fleet.url, KEY, "gloo"), FleetWeights(fleet.url, KEY, sparse=True)
    assert broadcast.update_weights({name: head.roll(100, 0)}) == 1
    after, *versions = said_by_all()
    assert (versions, after != before) == ([1] * 4, True)
    rows = head.roll(50, 0)
    assert whole.update_weights({name: rows}) == 2
    rows[:8, :8] += 1
    assert whole.update_weights({name: rows}) == 3, "as the numbers that changed"
    assert said_by_all()[1:] == (3,) * 4
    low = LowRank(torch.ones(2, rows.shape[1]), torch.randn(rows.shape[0], 2), 0.5)
    assert whole.update_weights({name: low}) == 4
    with pytest.raises(Exception, match="no parameter"):
        whole.update_weights({"nothing": rows})
    rows[0, 0] += 1
    assert whole.update_weights({name: rows}) == 5
    sent = said_by_all()
    assert FleetWeights(fleet.url, KEY).update_weights({name: rows}) == 6
    assert said_by_all()[0] == sent[0], "what it sent last was not what they had, so it sent everything"
    assert whole.update_weights({name: low}) == 7
    together = said_by_all()
    os.kill(pid(fleet, "1"), signal.SIGKILL)
    time.sleep(0.5)
    fleet.wait_until_whole()
    assert {row["version"] for row in fleet.admin("GET", "/fleet/replicas")["replicas"]} == {7}
    assert said_by_all() == together, "the late one says the same"


def test_what_the_entrance_refuses(fleet: Serving) -> None:
    sender = FleetWeights(fleet.url, KEY)
    with pytest.raises(Exception, match="no parameter"):
        sender.update_weights({"nothing.weight": torch.zeros(1)})
    headers = {"authorization": f"Bearer {KEY}"}
    for body in ({}, {"file": "../x"}, {"nonsense": 1}):
        answer = httpx.post(f"{fleet.url}/fleet/weights", json=body, headers=headers)
        assert answer.status_code == 400, answer.text
    assert httpx.post(f"{fleet.url}/fleet/replicas/7/drain", headers=headers).status_code == 404
    large = base64.b64encode(os.urandom(1000)).decode()
    nested = json.loads("[" * 50 + "]" * 50)
    for odd in ({"messages": nested}, {"messages": [{"role": "user", "content": large}], "session_id": 3}):
        assert post(fleet, "/v1/chat/completions", odd).status_code == 400
    assert post(fleet, "/v1/sessions", {"id": "m"}).status_code == 200
    deep = b'{"replica":' * 9000
    for path, key in (("/v1/sessions/m/move", "alice"), ("/fleet/weights", KEY)):
        answer = httpx.post(f"{fleet.url}{path}", content=deep, headers={"authorization": f"Bearer {key}"}, timeout=60)
        assert answer.status_code == 400, answer.text
    close_all(fleet)


def test_without_a_key_nothing_is_read_or_passed_on(fleet: Serving) -> None:
    for path, status in (("/version", b"405"), ("/nothing", b"404"), ("//v1/chat/completions", b"404")):
        with socket.create_connection(("127.0.0.1", fleet.port), timeout=60) as connection:
            connection.sendall(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n".encode())
            assert connection.recv(4096).startswith(b"HTTP/1.1 " + status), "before the body has come"
    for path in ("/version", "/openapi.json", "/docs"):
        assert httpx.get(f"{fleet.url}{path}", timeout=60).status_code == 200


def test_dashboard_alerts_and_probes_ask_for_what_there_is(fleet: Serving) -> None:
    """Every name and label in deploy/ is exported by this fleet, whatever is counted by reason having happened once."""
    assert post(fleet, "/v1/chat/completions", chat(session_id="seen", session_open=True)).status_code == 200
    assert post(fleet, "/v1/sessions/seen/move").status_code == 200
    assert all_unknown(httpx.get(f"{fleet.url}/metrics", timeout=60).text) == {}
    assert {httpx.get(f"{fleet.url}{path}", timeout=60).status_code for path in probe_paths()} == {200}
    close_all(fleet)
