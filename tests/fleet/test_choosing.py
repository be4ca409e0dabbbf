"""Where requests go that nothing binds: where most of them is known, but not to who has too much to do."""

from __future__ import annotations

import json
import time
from typing import Any

from holotron.fleet.asking import MOST_TEXTS, Asks, asked, quickly_read
from holotron.fleet.choosing import Prefixes
from holotron.fleet.homes import Homes
from holotron.fleet.replicas import Replica, least_loaded

PICTURE = "data:image/png;base64," + "A" * 5000


def replicas(count: int = 3) -> list[Replica]:
    return [Replica(str(n), "127.0.0.1", 1, "key") for n in range(count)]


def chat(*messages: Any, path: str = "/v1/chat/completions", header: str | None = None, **more: Any) -> Asks:
    name = {"/v1/responses": "input", "/v1/completions": "prompt"}.get(path, "messages")
    value = messages[0] if path == "/v1/completions" else list(messages)
    return asked("POST", path, json.dumps({name: value, **more}).encode(), header, "me")


def user(text: str, *pictures: str) -> dict[str, Any]:
    parts = [{"type": "image_url", "image_url": {"url": picture}} for picture in pictures]
    return {"role": "user", "content": [{"type": "text", "text": text}, *parts]}


SYSTEM = {"role": "system", "content": "You are an agent. " * 20}


def test_what_a_request_asks_for() -> None:
    assert chat(user("x"), session_id="s").session == "s"
    assert chat(user("x"), session_id="s", session_open=True).opens
    assert chat(user("x"), session_open=True) == Asks("generate", opens=True)
    assert chat(user("x"), session_id="s", fork=True).forks == 1
    assert chat("x", path="/v1/responses", previous_response_id="resp_1").response == "resp_1"
    assert chat(user("x"), header="mine").header == "mine"
    assert chat(user("x"), header="not a name\n").header is None
    assert asked("DELETE", "/v1/sessions/s", b"", None, "me") == Asks("session", session="s")
    assert asked("POST", "/v1/sessions/s/fork", b'{"n": 3}', None, "me").forks == 3
    assert asked("POST", "/v1/sessions/s/move", b"", None, "me").kind == "move"
    assert asked("GET", "/v1/responses/resp_0a/input_items", b"", None, "me").response == "resp_0a"
    for nonsense in (b"", b"{", b"[]", b'"x"', b'{"messages": 3}', b'{"session_id": ["s"]}', b'{"prompt": null}'):
        assert asked("POST", "/v1/chat/completions", nonsense, None, "me").session is None


def test_how_a_request_begins_is_enough_and_deep_ones_are_read_in_one_pass() -> None:
    """A megabyte of small values in a hundred lists took a minute, and everybody waited."""
    deep: Any = ["x"] * 100_000
    for _ in range(100):
        deep = [deep]
    begun = time.process_time()
    assert chat(user("x"), deep).chain == chat(user("x")).chain
    assert len(chat(user("x"), *["y"] * MOST_TEXTS).chain) < MOST_TEXTS
    assert time.process_time() - begun < 2
    nested = [{"a": ["b", {"c": None, "d": [1, "e"]}], "id": "f"}, "g"]
    assert chat(nested).tokens == len("abd1eg"), "each text once; no ids, nothing that is null"
    assert quickly_read(json.dumps({"messages": [user("x", PICTURE * 100)] * 2}).encode())
    assert not quickly_read(json.dumps({"messages": [""] * 5000}).encode())


def test_a_conversation_goes_where_it_began_and_pictures_where_they_were_seen() -> None:
    some, prefixes, homes = replicas(), Prefixes(), Homes()
    history = [SYSTEM, user("goal", PICTURE + "1")]
    prefixes.sent(chat(*history), some[1])
    for n in range(2, 5):
        history += [{"role": "assistant", "content": "click"}, user("next", f"{PICTURE}{n}")]
        assert prefixes.best(chat(*history), some, homes.recent) is some[1]
        prefixes.sent(chat(*history), some[1])
    window = [SYSTEM, user("goal"), user("next", PICTURE + "3"), user("next", PICTURE + "4"), user("x", PICTURE + "5")]
    assert prefixes.best(chat(*window), some, homes.recent) is some[1], "two of its three pictures are known there"
    long = "word " * 3000
    prefixes.sent(chat(long, path="/v1/completions"), some[2])
    assert prefixes.best(chat(long + "and more", path="/v1/completions"), some, homes.recent) is some[2]
    other = asked("POST", "/v1/chat/completions", json.dumps({"messages": history}).encode(), None, "somebody else")
    assert prefixes.known(other, some[1]) == 0, "keys share no prefixes"
    prefixes.forget(some[1])
    assert prefixes.known(chat(*history), some[1]) == 0


def test_a_shared_beginning_gathers_nobody_and_load_is_bounded() -> None:
    some, prefixes, homes = replicas(), Prefixes(), Homes()
    prefixes.sent(chat(SYSTEM, user("first", PICTURE)), some[0])
    some[0].in_flight = 1
    assert prefixes.best(chat(SYSTEM, user("other", PICTURE + "x")), some, homes.recent) is not some[0]
    history = chat(SYSTEM, user("first", PICTURE), {"role": "assistant", "content": "ok"}, user("more"))
    assert prefixes.best(history, some, homes.recent) is some[0]
    some[0].in_flight = 30
    assert prefixes.best(history, some, homes.recent) is not some[0], "knowing it is not worth waiting for thirty"
    for one in some:
        one.in_flight = 30
    assert prefixes.best(history, some, homes.recent) is some[0], "unless all have as much to do"


def test_conversations_are_spread_evenly() -> None:
    some, homes = replicas(4), Homes()
    for n in range(40):
        homes.settle("me", "session", str(n), least_loaded(some, homes.recent))
    assert [homes.recent(one) for one in some] == [10] * 4


def test_what_is_remembered_is_bounded() -> None:
    (one,) = replicas(1)
    prefixes = Prefixes(most=50)
    for n in range(100):
        prefixes.sent(chat(user(f"message {n}")), one)
    assert prefixes.known(chat(user("message 0")), one) == 0
    assert prefixes.known(chat(user("message 99")), one) > 0
