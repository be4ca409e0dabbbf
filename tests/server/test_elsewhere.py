"""Clients with other habits: raw HTTP, null for everything, fields of vLLM's and of older versions of OpenAI's API."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import httpx
import pytest
from openai.types import completion_create_params as plain_params
from openai.types.chat import completion_create_params as chat_params

from holotron.server.elsewhere import NOT_SUPPORTED
from holotron.server.wire import ChatRequest, CompletionRequest
from tests.server.inside import inside
from tests.server.pictures import data_url, with_image
from tests.server.process import ServerProcess

HTTP = httpx.Client(timeout=120)  # one connection: making a client takes longer than a short reply
HELLO = [{"role": "user", "content": "Hello"}]
COLOUR = {"type": "object", "properties": {"colour": {"enum": ["red", "green"]}}, "required": ["colour"]}
PAINT = {"type": "function", "function": {"name": "paint", "parameters": COLOUR}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "paint", "arguments": '{"colour": "red"}'}}


def chat(server: ServerProcess, **fields: Any) -> httpx.Response:
    body = {"messages": HELLO, "max_tokens": 2, **fields}
    return HTTP.post(f"{server.url}/v1/chat/completions", json=body)


def said(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["message"]["content"]


# ----------------------------------------------------------------------------------------------------------- fields


def test_every_parameter_of_the_official_client_is_known_by_name() -> None:
    assert set(chat_params.CompletionCreateParamsBase.__annotations__) <= set(ChatRequest.model_fields)
    assert set(plain_params.CompletionCreateParamsBase.__annotations__) <= set(CompletionRequest.model_fields)


def test_null_is_as_good_as_absence(server: ServerProcess) -> None:
    nothing = dict.fromkeys(ChatRequest.model_fields)
    assert said(chat(server, **{**nothing, "messages": HELLO, "max_tokens": 2, "seed": 1})) == said(
        chat(server, seed=1)
    )
    plain = dict.fromkeys(CompletionRequest.model_fields)
    response = HTTP.post(f"{server.url}/v1/completions", json={**plain, "prompt": "Once", "max_tokens": 2}, timeout=120)
    assert response.status_code == 200, response.text
    nulls: dict[str, Any] = {"role": "assistant", "content": "Hi"}
    nulls |= dict.fromkeys(["name", "tool_calls", "function_call", "refusal", "audio", "annotations", "tool_call_id"])
    assert chat(server, messages=[*HELLO, nulls, *HELLO]).status_code == 200


WANTED = {  # what somebody would really ask for
    "add_generation_prompt": False,
    "allowed_token_ids": [1, 2],
    "audio": {"voice": "alloy", "format": "wav"},
    "bad_words": ["no"],
    "best_of": 3,
    "chat_template": "{{ messages }}",
    "continue_final_message": True,
    "documents": [{"text": "a"}],
    "echo": True,
    "function_call": {"name": "paint"},
    "functions": [{"name": "paint"}],
    "guided_grammar": "root ::= 'a'",
    "include_stop_str_in_output": True,
    "length_penalty": 0.5,
    "min_tokens": 5,
    "mm_processor_kwargs": {"max_pixels": 5},
    "modalities": ["text", "audio"],
    "moderation": {"model": "x"},
    "prompt_logprobs": 1,
    "skip_special_tokens": False,
    "spaces_between_special_tokens": False,
    "suffix": "end",
    "thinking_budget": 100,
    "truncate_prompt_tokens": 10,
    "use_beam_search": True,
    "web_search_options": {},
}


def test_what_is_not_supported_says_so_by_name(server: ServerProcess) -> None:
    assert set(WANTED) == set(NOT_SUPPORTED)
    for name, value in WANTED.items():
        if name in ChatRequest.model_fields:
            response = chat(server, **{name: value})
        else:
            body = {"prompt": "Once", "max_tokens": 2, name: value}
            response = HTTP.post(f"{server.url}/v1/completions", json=body)
        error = response.json()["error"]
        assert (response.status_code, error["code"], error["param"]) == (400, "not_supported", name)
        assert error["message"].startswith(f"{name} is not supported")


def test_neutral_values_are_accepted(server: ServerProcess) -> None:
    neutral = {
        "skip_special_tokens": True,
        "min_tokens": 0,
        "add_generation_prompt": True,
        "functions": [],
        "echo": False,
    }
    ignored = {
        "user": "me",
        "store": False,
        "metadata": {"a": "b"},
        "service_tier": "auto",
        "prediction": {"type": "x"},
    }
    usual = {"frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}, "top_k": -1, "top_p": 0, "n": 1}
    tools = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    assert chat(server, **neutral, **ignored, **usual, **tools, modalities=["text"], stop="x").status_code == 200
    assert chat(server, tool_choice="none", stop=["a", "b"], reasoning_effort="max").status_code == 200
    assert chat(server, tool_choice="required").json()["error"]["param"] == "tool_choice"
    assert chat(server, sesion_id="x").json()["error"]["code"] == "unknown_parameter"


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.schema", "req"),
        ({"response_format": "json_object"}, "response_format", "an object"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]", "an object"),
        (
            {"messages": [{"role": "user", "content": [{"text": "x"}]}]},
            "messages[0].content[0]",
            "type: Field required",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text", "required"),
        ({"tools": [{"type": "custom", "custom": {}}]}, "tools[0].type", "only 'function' is supported"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice.type", "only 'function' is supported"),
        ({"stop": ["a", None]}, "stop[1]", "a valid string"),
    ],
)
def test_a_mistake_is_told_once_where_it_is(server: ServerProcess, fields: Any, param: str, message: str) -> None:
    """Not once for each kind of value that the field might have had, and without the names of those kinds."""
    error = chat(server, **fields).json()["error"]
    assert error["param"] == param
    assert error["message"].count("should be") + error["message"].count("required") <= 1
    assert message.lower() in error["message"].lower()


MISSED = (
    ("/chat/completions", "/v1/chat/completions"),
    ("/v1/v1/responses/resp_1", "/v1/responses/"),
    ("//v1/chat/completions", "/v1/chat/completions"),
    ("/v1/health", "/health"),
)


def test_bodies_and_addresses_that_missed(server: ServerProcess) -> None:
    url = f"{server.url}/v1/chat/completions"
    for body in ([], "x", None):
        error = HTTP.post(url, content=json.dumps(body), headers={"content-type": "application/json"}).json()["error"]
        assert error["message"] == "the body must be a JSON object"
    packed = {"content-type": "application/json", "content-encoding": "gzip"}
    response = HTTP.post(url, content=gzip.compress(b"{}"), headers=packed)
    assert (response.status_code, "gzip" in response.json()["error"]["message"]) == (415, True)
    for wrong, right in MISSED:
        assert f"Did you mean {right}" in HTTP.post(server.url + wrong, json={}).json()["error"]["message"]
    assert "/docs" in HTTP.get(server.url).json()["error"]["message"]


def test_a_schema_that_nothing_fits_is_refused(server: ServerProcess) -> None:
    endless = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": "#"}}}
    assert chat(server, response_format=endless).json()["error"]["message"].endswith("no reply could ever satisfy it")


# --------------------------------------------------------------------------------------------------------- messages


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "developer", "content": "Be brief."}, *HELLO],
        [{"role": "user", "content": "Hello", "name": "ann", "weight": 1, "cache_control": {"type": "ephemeral"}}],
        [*HELLO, {"role": "assistant", "content": None, "refusal": "No."}, *HELLO],
        [*HELLO, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, *HELLO],
        [*HELLO, {"role": "assistant", "content": [{"type": "output_text", "text": "Hi", "annotations": []}]}, *HELLO],
        [
            *HELLO,
            {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "call_2"}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "red"},
            {"role": "tool", "tool_call_id": "call_2", "content": with_image("see", data_url())["content"]},
        ],
        [
            *HELLO,
            {"role": "assistant", "content": None, "function_call": {"name": "paint", "arguments": "{}"}},
            {"role": "function", "name": "paint", "content": "done"},
        ],
        [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
    ],
)
def test_messages_as_clients_send_them(server: ServerProcess, messages: list[dict[str, Any]]) -> None:
    assert chat(server, messages=messages).status_code == 200
    assert chat(server, messages=messages, tools=[PAINT]).status_code == 200


def test_old_function_calls_mean_what_tool_calls_mean(server: ServerProcess) -> None:
    def tokens(message: dict[str, Any], answer: dict[str, Any]) -> int:
        response = chat(server, messages=[*HELLO, message, answer])
        return response.json()["usage"]["prompt_tokens"]

    called = {"role": "assistant", "content": None, "function_call": CALL["function"]}
    as_tool = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    old = tokens(called, {"role": "function", "name": "paint", "content": "done"})
    assert old == tokens(as_tool, {"role": "tool", "name": "paint", "content": "done"})
    assert old > tokens({"role": "assistant", "content": None}, {"role": "tool", "name": "paint", "content": "done"})


@pytest.mark.parametrize("kind", ["input_audio", "video_url", "file"])
def test_parts_that_are_not_supported_are_named(server: ServerProcess, kind: str) -> None:
    error = chat(server, messages=[{"role": "user", "content": [{"type": kind, kind: {}}]}]).json()["error"]
    assert error["code"] == "not_supported"
    assert error["message"].startswith(f"messages[0].content[0]: type '{kind}' is not supported")


def test_pictures_in_odd_wrappings(server: ServerProcess) -> None:
    png = data_url().partition(",")[2]
    for url in (f"data:image/jpg;base64,{png}", f"data:application/octet-stream;base64,{png}", f"data:;base64,{png}"):
        assert chat(server, messages=[with_image("?", url)]).status_code == 200, url
        part = {"type": "image_url", "image_url": {"url": url, "detail": "high", "media_type": "image/png"}}
        assert chat(server, messages=[{"role": "user", "content": [part]}]).status_code == 200
    for url, why in ((png, "data: URLs"), ("http://127.0.0.1/x.png", "data: URLs"), ("data:image/png,xx", "base64")):
        response = chat(server, messages=[with_image("?", url)])
        assert (response.status_code, why in response.json()["error"]["message"]) == (400, True), response.text


# ------------------------------------------------------------------------------------------------ form and sampling


def test_vllms_ways_to_ask_for_a_form(server: ServerProcess) -> None:
    for fields in (
        {"guided_json": COLOUR},
        {"guided_json": json.dumps(COLOUR)},
        {"structured_outputs": {"json": COLOUR, "disable_any_whitespace": True}},
        {"response_format": {"type": "text"}, "structured_outputs": {"json": COLOUR}},
    ):
        assert json.loads(said(chat(server, **fields, max_tokens=50)))["colour"] in ("red", "green")
    choice = ["left click", "a|b (c)"]
    for fields in ({"guided_choice": choice}, {"structured_outputs": {"choice": choice}}):
        assert said(chat(server, **fields, max_tokens=50)) in choice
    assert re.fullmatch("[ab]{3}", said(chat(server, guided_regex="[ab]{3}", max_tokens=50)))
    both = chat(server, guided_json=COLOUR, response_format={"type": "json_object"})
    assert "two ways" in both.json()["error"]["message"]
    assert chat(server, structured_outputs={"json": COLOUR, "regex": "a"}).status_code == 400
    error = chat(server, structured_outputs={"grammar": "x"}).json()["error"]
    assert error["message"] == "structured_outputs.grammar is not supported"
    for wrong in ("{", "[1]", '{"items":' * 600 + "{}" + "}" * 600):
        assert chat(server, guided_json=wrong).status_code == 400


def test_structured_output_is_compact(server: ServerProcess) -> None:
    """A model of random weights finishes, because it may not fill its reply with white space or further properties."""
    point = {"x": {"type": "integer", "maximum": 999}, "ok": {"type": "boolean"}}
    schema = {
        "type": "object",
        "properties": {"list": {"items": {"type": "object", "properties": point}, "maxItems": 2}},
    }
    schema["required"] = ["list"]
    schema["properties"]["list"]["type"] = "array"
    for seed in range(10):
        format = {"type": "json_schema", "json_schema": {"name": "points", "schema": schema}}
        text = said(chat(server, response_format=format, max_tokens=200, seed=seed))
        assert re.sub("([,:]) ", r"\1", text) == json.dumps(json.loads(text), separators=(",", ":"))


def test_an_answer_of_the_asked_form_or_a_call(server: ServerProcess) -> None:
    """As the Agents SDK asks when an agent has both tools and an output type."""
    format = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer", "maximum": 9}}}
    kinds = set()
    for seed in range(12):
        bias = {str(ord("<")): 3.0}  # a random model begins either way
        response = chat(server, response_format=format, tools=[PAINT], max_tokens=200, seed=seed, logit_bias=bias)
        message = response.json()["choices"][0]["message"]
        if calls := message.get("tool_calls"):
            assert json.loads(calls[0]["function"]["arguments"])["colour"] in ("red", "green")
        else:
            assert int(message["content"]) <= 9
        kinds.add(bool(calls))
    assert kinds == {True, False}


def test_a_call_that_was_cut_off_is_no_call(server: ServerProcess) -> None:
    response = chat(
        server, tools=[PAINT], tool_choice="required", max_tokens=len("<tool_call>\n<function=paint>\n") + 5
    )
    (choice,) = response.json()["choices"]
    assert choice["finish_reason"] == "length"
    assert "tool_calls" not in choice["message"]
    assert "<function=paint>" in choice["message"]["content"]


def test_optional_and_constant_arguments_keep_their_types(server: ServerProcess) -> None:
    """In the notation where values stand bare, the schema tells a text from a number."""
    nullable = {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}
    properties = {
        "kind": {"const": "big", "type": "string"},
        "note": nullable,
        "code": {"type": "string", "maxLength": 2},
    }
    properties["level"] = {"$ref": "#/$defs/Level"}
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    parameters["$defs"] = {"Level": {"enum": ["low", "high"], "type": "string"}}
    tool = {"type": "function", "function": {"name": "paint", "parameters": parameters}}
    for seed in range(8):
        response = chat(
            server, tools=[tool], tool_choice="required", parallel_tool_calls=False, max_tokens=400, seed=seed
        )
        (call,) = response.json()["choices"][0]["message"]["tool_calls"]
        arguments = json.loads(call["function"]["arguments"])
        assert arguments["kind"] == "big"
        assert arguments["level"] in ("low", "high")
        assert arguments["note"] is None or len(arguments["note"]) <= 3
        assert isinstance(arguments["code"], str) and len(arguments["code"]) <= 2


def test_penalties_and_biases_by_http(server: ServerProcess) -> None:
    how = {"temperature": 0, "max_tokens": 40, "ignore_eos": True}
    plain = said(chat(server, **how))
    for penalty in ({"frequency_penalty": 2.0}, {"presence_penalty": 2.0}, {"repetition_penalty": 1.5}):
        assert said(chat(server, **how, **penalty)) != plain
    assert said(chat(server, **how, logit_bias={str(ord("a")): 100})) == "a" * 40
    assert plain[0] not in said(chat(server, **how, logit_bias={str(ord(plain[0])): -100}))
    for wrong in ({"99999": 1}, {"a": 1}, {"1": 101}, {"1": "x"}):
        error = chat(server, logit_bias=wrong)
        assert (error.status_code, "logit_bias" in error.text) == (400, True)
    assert chat(server, frequency_penalty=3).json()["error"]["param"] == "frequency_penalty"


# ---------------------------------------------------------------------------------------------------- other addresses


def test_tokenize_counts_what_a_request_costs(server: ServerProcess) -> None:
    def post(path: str, **body: Any) -> dict[str, Any]:
        response = HTTP.post(f"{server.url}{path}", json=body)
        return {"status": response.status_code} | response.json()

    plain = post("/tokenize", prompt="Grüße", return_token_strs=True)
    assert plain["count"] == len(plain["tokens"]) == len(plain["token_strs"]) == len("Grüße".encode())
    assert post("/detokenize", tokens=plain["tokens"])["prompt"] == "Grüße"
    messages = [with_image("?", data_url())]
    counted = post("/tokenize", messages=messages, tools=[PAINT], model="tiny")
    assert counted["count"] == chat(server, messages=messages, tools=[PAINT]).json()["usage"]["prompt_tokens"]
    assert counted["max_model_len"] >= 4096
    assert post("/tokenize", prompt="a", messages=HELLO)["status"] == 400
    assert post("/tokenize")["status"] == 400
    assert post("/tokenize", prompt="a", model="other")["status"] == 404
    assert post("/detokenize", tokens=[10**6])["error"]["message"].startswith("1000000 is not a token id")
    assert post("/tokenize", prompt="x" * 10**6)["error"]["code"] == "context_length_exceeded"


def test_version_and_a_page_to_read(server: ServerProcess) -> None:
    from holotron import __version__

    assert HTTP.get(f"{server.url}/version").json() == {"version": __version__}
    page = HTTP.get(f"{server.url}/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.search(r"<script|(?:src|href)=.?https?:", page.text)
    for path in HTTP.get(f"{server.url}/openapi.json").json()["paths"]:
        assert f"<code>{path}</code>" in page.text
    assert "frequency_penalty" in page.text


def test_tokens_need_a_key_where_there_are_keys() -> None:
    with inside("--server.api_keys", "secret") as guarded:
        for path, body in (("/tokenize", {"prompt": "a"}), ("/detokenize", {"tokens": [1]})):
            assert guarded.post(path, body).status_code == 401
            assert guarded.post(path, body, key="secret").status_code == 200
