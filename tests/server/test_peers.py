"""What clients send and expect that are not installed here."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.server.process import ServerProcess

HTTP = httpx.Client(timeout=120)
HELLO = [{"role": "user", "content": "Hello"}]
YES = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}
UNIQUE = {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2, "uniqueItems": True}


def chat(server: ServerProcess, **fields: Any) -> httpx.Response:
    return HTTP.post(f"{server.url}/v1/chat/completions", json={"messages": HELLO, "max_tokens": 4, **fields})


def respond(server: ServerProcess, **fields: Any) -> httpx.Response:
    return HTTP.post(f"{server.url}/v1/responses", json={"input": "Hello", "max_output_tokens": 4, **fields})


def reasons(response: httpx.Response) -> bool:
    assert response.status_code == 200, response.text
    usage = response.json()["usage"]
    details = usage.get("completion_tokens_details") or usage["output_tokens_details"]
    return details["reasoning_tokens"] > 0


@pytest.mark.parametrize("ask", [chat, respond])
def test_reasoning_is_switched_as_other_services_switch_it(server: ServerProcess, ask: Any) -> None:
    """Midscene with Qwen's models, UI-TARS's kit: in every request."""
    assert reasons(ask(server, seed=1, enable_thinking=True))
    assert reasons(ask(server, seed=1, thinking={"type": "enabled"}))
    for off in ({"enable_thinking": False}, {"thinking": {"type": "disabled"}}, {"thinking": {"type": "auto"}}):
        assert not reasons(ask(server, seed=1, **off, vl_high_resolution_images=True))
    low = {"reasoning_effort": "low"} if ask is chat else {"reasoning": {"effort": "low"}}
    assert reasons(ask(server, seed=1, **low, thinking={"type": "auto"}))
    assert not reasons(ask(server, seed=1, **low, thinking={"type": "disabled"}))
    assert ask(server, thinking={"type": "enabled", "budget_tokens": 5}).status_code == 400
    error = ask(server, thinking_budget=100).json()["error"]
    assert (error["code"], error["param"]) == ("not_supported", "thinking_budget")


def test_the_request_itself_switches_before_other_services_words_do(server: ServerProcess) -> None:
    assert reasons(chat(server, enable_thinking=False, chat_template_kwargs={"enable_thinking": True}))


def test_details_of_usage_are_numbers(server: ServerProcess) -> None:
    """The OpenAI Agents SDK for JavaScript ends a stream with an error otherwise."""
    chunks = HTTP.post(
        f"{server.url}/v1/chat/completions",
        json={"messages": HELLO, "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}},
    ).text.split("\n\n")
    streamed = next(json.loads(chunk.removeprefix("data: ")) for chunk in chunks if '"prompt_tokens"' in chunk)
    for usage in (chat(server).json()["usage"], streamed["usage"], respond(server).json()["usage"]):
        details = [value for name, value in usage.items() if name.endswith("_details")]
        assert len(details) == 2
        assert all(type(value) is int for detail in details for value in detail.values())
        assert usage["resumed"] in ("session", "everything", "prompt", "window", "beginning", "nothing")


def test_a_schema_beside_json_object_is_held_to(server: ServerProcess) -> None:
    """As llama.cpp, Together and Fireworks have it."""
    form = {"type": "json_object", "schema": YES}
    for _ in range(3):
        message = chat(server, response_format=form, max_tokens=60).json()["choices"][0]["message"]
        assert isinstance(json.loads(message["content"])["yes"], bool)
    response = respond(server, text={"format": form}, max_output_tokens=60).json()
    assert isinstance(json.loads(response["output"][0]["content"][0]["text"])["yes"], bool)
    assert response["text"]["format"] == form
    assert chat(server, response_format={"type": "json_object", "schema": None}).status_code == 200
    assert chat(server, response_format={"type": "json_object", "schema": "x"}).status_code == 400


def test_strict_means_strict_in_both_apis(server: ServerProcess) -> None:
    for strict, status in ((True, 400), (False, 200), (None, 200)):
        named = {"name": "two", "schema": UNIQUE, "strict": strict}
        assert chat(server, response_format={"type": "json_schema", "json_schema": named}).status_code == status
        assert respond(server, text={"format": {"type": "json_schema", **named}}).status_code == status


def test_top_p_may_be_zero_in_both_apis(server: ServerProcess) -> None:
    assert chat(server, top_p=0).status_code == respond(server, top_p=0).status_code == 200


def test_what_is_asked_of_openais_other_services_is_not_supported(server: ServerProcess) -> None:
    for path in ("/v1/embeddings", "/v1/audio/speech", "/v1/images/generations", "/v1/files"):
        answer = HTTP.post(f"{server.url}{path}", json={"model": "tiny", "input": "x"})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (404, "not_supported")
        assert error["message"].startswith(f"{path} is not supported")


def test_head_and_wrong_methods(server: ServerProcess) -> None:
    """Monitors ask with HEAD."""
    for path in ("/health", "/health/live", "/v1/models"):
        asked = HTTP.get(f"{server.url}{path}")
        head = HTTP.head(f"{server.url}{path}")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == asked.headers["content-length"]
    for path, allowed in (("/v1/chat/completions", "POST"), ("/v1/responses/resp_1", "DELETE, GET, HEAD")):
        wrong = HTTP.put(f"{server.url}{path}")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, allowed)
