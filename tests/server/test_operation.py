"""The server as its operator sees it: readiness, logs, metrics, limits, disconnects, shutting down."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time

import httpx
import openai
import pytest
from openai import OpenAI

from tests import warm
from tests.server.process import ServerProcess, running

HELLO = [{"role": "user", "content": "Hello"}]
LONG = {"model": "tiny", "messages": HELLO, "max_tokens": 2000, "extra_body": {"ignore_eos": True}}


def client_of(server: ServerProcess, **options: object) -> OpenAI:
    return OpenAI(base_url=f"{server.url}/v1", api_key="none", **{"max_retries": 0, "timeout": 120, **options})


def test_health_and_request_ids(server: ServerProcess) -> None:
    for path in ("/health", "/health/ready", "/health/live"):
        assert httpx.get(server.url + path).status_code == 200
    named = httpx.get(f"{server.url}/v1/models", headers={"x-request-id": "mine-42"})
    assert named.headers["x-request-id"] == "mine-42"
    forged = httpx.get(f"{server.url}/v1/models", headers={"x-request-id": "a b\tc"})
    assert re.fullmatch(r"req-\w{24}", forged.headers["x-request-id"])
    (line,) = [line for line in server.lines if line.get("request_id") == "mine-42"]
    assert line["path"] == "/v1/models"
    assert line["status"] == 200
    assert line["seconds"] >= 0


def test_the_log_says_what_a_request_cost(server: ServerProcess) -> None:
    with client_of(server) as client:
        client.chat.completions.create(
            model="tiny",
            messages=HELLO,
            max_tokens=3,
            extra_headers={"x-request-id": "priced"},
            extra_body={"ignore_eos": True},
        )
    until = time.monotonic() + 10
    while not (lines := [line for line in server.lines if line.get("request_id") == "priced"]):
        assert time.monotonic() < until
        time.sleep(0.02)
    assert lines[0]["usage"]["completion_tokens"] == 3
    assert not any("Hello" in str(line) for line in server.lines)  # what people write does not go into logs


def test_metrics(server: ServerProcess) -> None:
    before = server.settled()
    with client_of(server) as client:
        client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=4, extra_body={"ignore_eos": True})
    after = server.settled()

    def grew(name: str) -> float:
        return after[name] - before.get(name, 0)

    assert grew("holotron_generated_tokens_total") == 4
    assert grew("holotron_requests_total") == 1
    assert grew("holotron_generation_seconds_count") == 1
    assert grew("holotron_step_seconds_count") >= 4
    assert grew('holotron_http_requests_total{route="/v1/chat/completions",status="200"}') == 1
    computed, cached = (f'holotron_prompt_tokens_total{{source="{source}"}}' for source in ("computed", "cached"))
    assert grew(computed) + grew(cached) > 0
    assert after["holotron_state_rows"] == 17
    assert after["holotron_kv_pages"] == 16 * 64 + 1


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_is_not_computed_for(server: ServerProcess, stream: bool) -> None:
    before = server.settled()
    body = {"messages": HELLO, "max_tokens": 3000, "ignore_eos": True, "stream": stream}
    if stream:
        with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=60) as response:
            next(response.iter_lines())
    else:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=0.5)
    after = server.settled(10)
    assert after["holotron_generated_tokens_total"] - before["holotron_generated_tokens_total"] < 2900
    assert after["holotron_kv_pages_used"] <= before["holotron_kv_pages_used"]
    assert after["holotron_state_rows_used"] <= before["holotron_state_rows_used"]


def test_a_client_that_leaves_a_session_can_come_back(server: ServerProcess) -> None:
    with client_of(server) as client:
        first = client.chat.completions.create(
            model="tiny", messages=HELLO, max_tokens=4, extra_body={"session_id": "left", "session_open": True}
        )
        body = {
            "messages": [{"role": "user", "content": "go on"}],
            "max_tokens": 3000,
            "ignore_eos": True,
            "stream": True,
            "session_id": "left",
        }
        with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=60) as response:
            next(response.iter_lines())
        server.settled(10)
        state = client.get("/sessions/left", cast_to=object)
        assert (state["turns"], state["tokens"]) == (1, first.session["tokens"])
        # The client's own retries get it through, whatever the server was just doing.
        again = client.with_options(max_retries=5).chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": "go on"}],
            max_tokens=4,
            extra_body={"session_id": "left"},
        )
        assert again.session["turns"] == 2
        client.delete("/sessions/left", cast_to=object)


def test_full_queues_say_when_to_come_back() -> None:
    flags = ["--engine.max_running", "1", "--engine.max_waiting", "1", "--engine.max_sessions", "2"]
    with running("tiny", *flags) as server, client_of(server) as client:
        answers: list[httpx.Response] = []

        def ask() -> None:
            request = {"messages": HELLO, "max_tokens": 200, "ignore_eos": True}
            answers.append(httpx.post(f"{server.url}/v1/chat/completions", json=request, timeout=120))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {answer.status_code for answer in answers} == {200, 429}
        for answer in answers:
            if answer.status_code == 429:
                assert int(answer.headers["retry-after"]) >= 1
                assert answer.json()["error"]["code"] == "overloaded"
        for name in "ab":
            client.post("/sessions", body={"id": name}, cast_to=object)
        with pytest.raises(openai.RateLimitError):
            client.post("/sessions", body={"id": "c"}, cast_to=object)
        patient = client.with_options(max_retries=8)
        assert patient.chat.completions.create(model="tiny", messages=HELLO, max_tokens=2).choices


def test_sigterm_lets_running_requests_finish() -> None:
    with running("tiny", "--server.drain_seconds", "300") as server, client_of(server) as client:
        stream = client.chat.completions.create(**{**LONG, "max_tokens": 1200}, stream=True)
        chunks = iter(stream)
        next(chunks)
        server.signal(signal.SIGTERM)
        until = time.monotonic() + 10
        while httpx.get(f"{server.url}/health/ready").status_code != 503:
            assert time.monotonic() < until
        refused = httpx.post(f"{server.url}/v1/chat/completions", json={"messages": HELLO})
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "shutting_down"
        assert "retry-after" in refused.headers
        assert httpx.get(f"{server.url}/health/live").status_code == 200
        assert list(chunks)[-1].choices[0].finish_reason == "length"
        assert server.wait(120) == 0


def test_sigterm_does_not_wait_forever() -> None:
    with running("tiny", "--server.drain_seconds", "0.5") as server, client_of(server) as client:
        stream = client.chat.completions.create(**{**LONG, "max_tokens": 30_000}, stream=True)
        next(iter(stream))
        server.signal(signal.SIGTERM)
        assert server.wait(120) == 0
        assert any(line["message"] == "not everything finished in time" for line in server.lines)


def test_without_a_model_it_serves_something_and_says_so() -> None:
    """And a reply that takes too long ends where it is."""
    with running("--server.request_seconds", "5") as server, client_of(server) as client:
        assert any("no model was named" in line["message"] for line in server.lines)
        (model,) = client.models.list().data
        response = client.chat.completions.create(**{**LONG, "model": model.id, "max_tokens": 30_000})
        assert response.choices[0].finish_reason == "length"
        assert 0 < response.usage.completion_tokens < 30_000


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["no-such-preset", "--server.port", "0"], "neither a folder"),
        (["tiny", "--server.port", "{port}"], "cannot listen"),
    ],
)
def test_a_start_that_cannot_work_says_why(server: ServerProcess, flags: list[str], message: str) -> None:
    words = [flag.format(port=server.port) for flag in flags]
    done = subprocess.run([warm.holotron(), "serve", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
