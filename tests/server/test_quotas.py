"""One key cannot take what belongs to all, and learns nothing of the others."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from holotron.server.errors import ApiError
from holotron.server.quotas import Bucket, Quotas
from holotron.server.settings import QuotaSettings
from tests.server.inside import Inside, inside
from tests.server.pictures import data_url, with_image

SYSTEM = "You are a patient assistant who reads long instructions before every answer. " * 4


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_fills_steadily() -> None:
    clock = Clock()
    bucket = Bucket(60, clock)
    bucket.take(60)
    assert bucket.level == 0
    assert bucket.seconds_until(1) == 1
    clock.now += 30
    assert bucket.level == 30
    bucket.take(90)  # what was used is known only afterwards
    assert bucket.seconds_until(1) == 61
    clock.now += 1000
    assert bucket.level == 60


def test_tokens_are_paid_afterwards() -> None:
    clock = Clock()
    quotas = Quotas(QuotaSettings(tokens_per_minute=60), clock=clock)
    with quotas.admitted("a"):
        pass
    quotas.used("a", 120)
    with pytest.raises(ApiError) as caught, quotas.admitted("a"):
        pass
    assert (caught.value.status, caught.value.code, caught.value.retry_after) == (429, "rate_limit_exceeded", 61)
    with quotas.admitted("b"):  # another one's are his own
        pass
    clock.now += 61
    with quotas.admitted("a"):
        pass


def test_requests_at_once() -> None:
    quotas = Quotas(QuotaSettings(), keys=2)
    quotas.size(4)  # half of them for each
    with quotas.admitted("a"), quotas.admitted("a"):
        with pytest.raises(ApiError, match="being answered already"), quotas.admitted("a"):
            pass
        with quotas.admitted("b"):
            pass
    with quotas.admitted("a"):
        pass
    alone = Quotas(QuotaSettings(), keys=1)
    alone.size(2)
    with alone.admitted("a"), alone.admitted("a"):
        pass


def test_bytes_being_held() -> None:
    quotas = Quotas(QuotaSettings(), keys=2, buffered_bytes=100)
    quotas.hold_bytes("a", 50)
    with pytest.raises(ApiError) as caught:
        quotas.hold_bytes("a", 1)
    assert (caught.value.status, caught.value.code) == (429, "overloaded")
    quotas.hold_bytes("b", 50)
    quotas.release_bytes("a", 50)
    quotas.hold_bytes("a", 10)


# ------------------------------------------------------------------------------------------------- two keys, one server


@pytest.fixture(scope="module")
def shared() -> Iterator[Inside]:
    flags = ("--server.api_keys", "alice,bob,carol,dave", "--engine.max_sessions", "4")
    with inside(*flags) as server:
        yield server


def cached(answer: httpx.Response) -> int:
    assert answer.status_code == 200, answer.text
    return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_usage_tells_nothing_of_others(shared: Inside) -> None:
    assert cached(shared.chat(SYSTEM + "secret plan", "alice")) == 0
    assert cached(shared.chat(SYSTEM + "secret plan", "bob")) == 0
    assert cached(shared.chat(SYSTEM + "secret plan", "alice")) > 200
    assert cached(shared.chat(SYSTEM + "secret plan", "bob")) > 200
    # Nor when a session holds it, nor while somebody is just computing it.
    fields = {"session_open": True, "session_id": "s"}
    assert cached(shared.chat(SYSTEM * 2 + "in a session", "alice", **fields)) == 0
    assert cached(shared.chat(SYSTEM * 2 + "in a session", "bob", **fields)) == 0
    for key in ("alice", "bob"):
        httpx.delete(f"{shared.url}/v1/sessions/s", headers={"authorization": f"Bearer {key}"})
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(shared.chat, "At once. " + SYSTEM, key) for key in ("alice", "bob", "carol", "dave")]
        assert [cached(one.result()) for one in asked] == [0, 0, 0, 0]


def test_pictures_of_others_are_not_known_either(shared: Inside) -> None:
    body = {"messages": [with_image("What is this?", data_url("teal"))], "max_tokens": 1}
    assert shared.service.loaded is not None
    stats = shared.service.loaded.engine.stats

    def encoded(key: str) -> int:
        before = stats().tiles_encoded
        assert shared.post("/v1/chat/completions", body, key).status_code == 200
        return stats().tiles_encoded - before

    assert encoded("alice") > 0
    assert encoded("alice") == 0
    assert encoded("bob") > 0


def test_pictures_that_are_sent_again_are_cut_once_for_each_key(shared: Inside) -> None:
    """As most agents do: each request has all that was shown before."""

    def reused(key: str, shown: int) -> int:
        loaded = shared.service.loaded
        assert loaded is not None
        before = loaded.engine.stats().pictures_reused
        for n in range(1, shown + 1):
            messages = [with_image(f"step {m}", data_url(size=(64 + m, 48))) for m in range(n)]
            answer = shared.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1}, key)
            assert answer.status_code == 200, answer.text
        return loaded.engine.stats().pictures_reused - before

    assert reused("carol", 4) == 0 + 1 + 2 + 3
    assert reused("carol", 2) == 1 + 2
    assert reused("dave", 2) == 0 + 1


def test_one_key_cannot_take_all_sessions(shared: Inside) -> None:
    opened = [shared.post("/v1/sessions", {"id": f"s{n}"}, "alice") for n in range(3)]
    assert [answer.status_code for answer in opened] == [200, 200, 429]
    assert opened[2].json()["error"]["code"] == "too_many_sessions"
    assert int(opened[2].headers["retry-after"]) >= 1
    forked = shared.post("/v1/sessions/s0/fork", {"n": 1}, "alice")
    assert forked.status_code == 429
    assert shared.chat("hello", "alice", session_open=True).status_code == 429
    assert shared.post("/v1/sessions", {"id": "s0"}, "bob").status_code == 200  # and the name is his own
    for key, name in (("alice", "s0"), ("alice", "s1"), ("bob", "s0")):
        httpx.delete(f"{shared.url}/v1/sessions/{name}", headers={"authorization": f"Bearer {key}"})


def test_several_at_once_cannot_slip_through(shared: Inside) -> None:
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda n: shared.post("/v1/sessions", {"id": f"r{n}"}, "carol").status_code, range(8)))
    assert sorted(opened) == [200] * 2 + [429] * 6
    for n in range(8):
        httpx.delete(f"{shared.url}/v1/sessions/r{n}", headers={"authorization": "Bearer carol"})


def test_sharing_may_be_wanted() -> None:
    with inside("--server.api_keys", "alice,bob", "--server.share_prefix_cache") as server:
        server.chat(SYSTEM + "no secret", "alice")
        assert cached(server.chat(SYSTEM + "no secret", "bob")) > 200


def test_rates_and_memory_over_http() -> None:
    flags = ("--quota.requests_per_minute", "5", "--quota.tokens_per_minute", "40", "--quota.memory_bytes", "1")
    with inside("--server.api_keys", "alice,bob", *flags) as server:
        first = server.chat("x", "alice")
        assert first.status_code == 200, first.text
        assert first.headers["x-ratelimit-limit-requests"] == "5"
        assert int(first.headers["x-ratelimit-remaining-requests"]) == 4
        assert first.headers["x-ratelimit-limit-tokens"] == "40"
        assert server.chat("a longer text that uses the tokens up, all of them", "alice").status_code == 200
        refused = server.chat("x", "alice")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.headers["x-ratelimit-remaining-tokens"] == "0"
        assert server.post("/v1/sessions", {}, "alice").status_code == 200
        assert server.post("/v1/sessions", {}, "alice").status_code == 200
        last = server.post("/v1/sessions", {}, "alice")
        assert last.status_code == 429
        assert last.headers["x-ratelimit-remaining-requests"] == "0"
        # Bob has not used anything yet; his session then holds more than one byte.
        assert server.chat("x", "bob", session_open=True, session_id="b").status_code == 200
        full = server.chat("x", "bob", session_id="b")
        assert (full.status_code, full.json()["error"]["code"]) == (429, "memory_quota_exceeded")


def test_who_leaves_pays_for_what_was_generated() -> None:
    """Otherwise a client could have the engine work for nothing: ask for much, and go before the answer."""
    with inside("--server.api_keys", "alice", "--quota.tokens_per_minute", "600") as server:
        body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 3000, "ignore_eos": True}
        headers = {"authorization": "Bearer alice"}
        engine = server.service.loaded.engine
        until = time.monotonic() + 60
        with server.connect() as connection:
            content = json.dumps(body).encode()
            lines = ["POST /v1/chat/completions HTTP/1.1", "host: x", "authorization: Bearer alice"]
            lines += ["content-type: application/json", f"content-length: {len(content)}", "", ""]
            connection.sendall("\r\n".join(lines).encode() + content)
            while engine.stats().generated_tokens < 200:
                assert time.monotonic() < until
                time.sleep(0.001)
        left = 600
        while left > 500 and time.monotonic() < until:
            answer = httpx.get(f"{server.url}/v1/models", headers=headers)
            left = int(answer.headers["x-ratelimit-remaining-tokens"])
        assert left <= 500
