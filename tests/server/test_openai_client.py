"""The official client against a real server: what works with OpenAI works here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel

from tests.server.pictures import data_url, with_image
from tests.server.process import ServerProcess

HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
COLOURS = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "green"]}, "sure": {"type": "boolean"}},
    "required": ["colour", "sure"],
    "additionalProperties": False,
}
CLICK = {
    "type": "function",
    "function": {
        "name": "click",
        "description": "Click somewhere.",
        "parameters": {
            "type": "object",
            "properties": {"button": {"enum": ["left", "right"]}, "double": {"type": "boolean"}},
            "required": ["button", "double"],
        },
    },
}


def test_chat(client: OpenAI) -> None:
    response = client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=8, temperature=0)
    assert response.object == "chat.completion"
    choice = response.choices[0]
    assert choice.message.role == "assistant"
    assert choice.finish_reason in ("length", "stop")
    assert response.usage is not None
    assert response.usage.completion_tokens == 8 or choice.finish_reason == "stop"
    assert response.usage.total_tokens == response.usage.prompt_tokens + response.usage.completion_tokens


def test_streaming_says_the_same(client: OpenAI) -> None:
    request = {"model": "tiny", "messages": HELLO, "max_tokens": 24, "temperature": 0.7, "seed": 5}
    whole = client.chat.completions.create(**request)
    chunks = list(client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == whole.choices[0].finish_reason
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert len({chunk.id for chunk in chunks}) == 1


def test_seed_and_greedy_are_reproducible(client: OpenAI) -> None:
    def say(**how: object) -> str | None:
        return (
            client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=12, **how)
            .choices[0]
            .message.content
        )

    assert say(seed=1) == say(seed=1)
    assert say(seed=1) != say(seed=2)
    assert say(temperature=0, seed=1) == say(temperature=0, seed=2)


def test_a_repeated_prompt_is_cached(client: OpenAI) -> None:
    first = client.chat.completions.create(
        model="tiny", messages=[*HELLO, {"role": "user", "content": "x" * 200}], max_tokens=4
    )
    again = client.chat.completions.create(
        model="tiny", messages=[*HELLO, {"role": "user", "content": "x" * 200}], max_tokens=4
    )
    assert first.usage.prompt_tokens == again.usage.prompt_tokens
    assert again.usage.prompt_tokens_details.cached_tokens >= again.usage.prompt_tokens - 1


def test_several_choices(client: OpenAI) -> None:
    response = client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=6, n=3, seed=1, logprobs=True)
    assert [choice.index for choice in response.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in response.choices}) > 1
    assert response.usage.completion_tokens == sum(len(choice.logprobs.content) for choice in response.choices)
    seen: dict[int, str] = {}
    for chunk in client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=6, n=3, seed=1, stream=True):
        for choice in chunk.choices:
            seen[choice.index] = seen.get(choice.index, "") + (choice.delta.content or "")
    assert seen == {choice.index: choice.message.content for choice in response.choices}


def test_images(client: OpenAI) -> None:
    def prompt_tokens(url: str) -> int:
        message = with_image("What is this?", url)
        return client.chat.completions.create(model="tiny", messages=[message], max_tokens=2).usage.prompt_tokens

    without = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "What is this?"}], max_tokens=2
    ).usage.prompt_tokens
    assert prompt_tokens(data_url(size=(64, 64))) >= without + 16  # 64 patches of 8 px, four to a token
    assert prompt_tokens(data_url(size=(256, 64))) > prompt_tokens(data_url(size=(64, 64)))
    assert prompt_tokens(data_url(format="JPEG")) == prompt_tokens(data_url(format="PNG"))


def test_the_picture_matters(client: OpenAI) -> None:
    def logprob(colour: str) -> float:
        response = client.chat.completions.create(
            model="tiny", messages=[with_image("?", data_url(colour))], max_tokens=1, logprobs=True, temperature=0
        )
        return response.choices[0].logprobs.content[0].logprob

    assert logprob("red") == logprob("red")
    assert logprob("red") != logprob("blue")


def test_json_schema(client: OpenAI) -> None:
    format = {"type": "json_schema", "json_schema": {"name": "colours", "schema": COLOURS, "strict": True}}
    for seed in range(5):
        response = client.chat.completions.create(
            model="tiny", messages=HELLO, response_format=format, max_tokens=200, seed=seed
        )
        value = json.loads(response.choices[0].message.content)
        assert value["colour"] in ("red", "green")
        assert isinstance(value["sure"], bool)
        assert response.choices[0].finish_reason == "stop"


def test_the_manuals_snippet(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    """As it stands there, but for address and model; those of the other clients: `make test-clients`."""
    manual = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()
    code = re.search(r"<!-- openai -->.*?```python\n(.*?)```", manual, re.S)
    assert code is not None
    exec(code[1].replace("http://127.0.0.1:8000", server.url).replace("holotron-mini", "tiny"), {})
    assert re.fullmatch(r"x=-?\d+ y=-?\d+\n", capsys.readouterr().out)


def test_the_clients_own_parsing(client: OpenAI) -> None:
    class Answer(BaseModel):
        done: bool

    response = client.chat.completions.parse(model="tiny", messages=HELLO, response_format=Answer, max_tokens=100)
    assert isinstance(response.choices[0].message.parsed, Answer)


def test_json_object_and_regex(client: OpenAI) -> None:
    text = (
        client.chat.completions.create(
            model="tiny", messages=HELLO, max_tokens=200, response_format={"type": "regex", "regex": "[ab]{3,5}!"}
        )
        .choices[0]
        .message.content
    )
    assert re.fullmatch("[ab]{3,5}!", text)
    text = (
        client.chat.completions.create(
            model="tiny", messages=HELLO, max_tokens=30, response_format={"type": "json_object"}
        )
        .choices[0]
        .message.content
    )
    assert text.lstrip().startswith("{")


def test_reasoning_then_json(client: OpenAI) -> None:
    """Reasoning is free, what follows it is not."""
    format = {"type": "regex", "regex": "(yes|no)"}
    for seed in range(20):
        response = client.chat.completions.create(
            model="tiny",
            messages=HELLO,
            response_format=format,
            max_tokens=1500,
            seed=seed,
            reasoning_effort="high",
        )
        message = response.choices[0].message
        if response.choices[0].finish_reason == "stop":
            assert message.content in ("yes", "no")
            assert message.reasoning_content is not None
            details = response.usage.completion_tokens_details
            assert 0 < details.reasoning_tokens < response.usage.completion_tokens
            return
    pytest.fail("the model never stopped reasoning")


def test_reasoning_on_and_off(client: OpenAI) -> None:
    def parts(**how: object) -> tuple[str | None, str | None]:
        message = (
            client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=6, seed=3, **how).choices[0].message
        )
        return getattr(message, "reasoning_content", None), message.content

    reasoning, content = parts(extra_body={"chat_template_kwargs": {"enable_thinking": True}})
    assert reasoning
    assert not content
    assert parts(reasoning_effort="low")[0] == reasoning
    for how in ({}, {"reasoning_effort": "none"}, {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}):
        reasoning, content = parts(**how)
        assert not reasoning
        assert content
    chunks = client.chat.completions.create(
        model="tiny", messages=HELLO, max_tokens=6, seed=3, stream=True, reasoning_effort="low"
    )
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)


def test_tools(client: OpenAI) -> None:
    for choice in ("required", {"type": "function", "function": {"name": "click"}}):
        response = client.chat.completions.create(
            model="tiny", messages=HELLO, tools=[CLICK], tool_choice=choice, parallel_tool_calls=False, max_tokens=400
        )
        assert response.choices[0].finish_reason == "tool_calls"
        (call,) = response.choices[0].message.tool_calls
        assert call.function.name == "click"
        arguments = json.loads(call.function.arguments)
        assert arguments["button"] in ("left", "right")
        assert isinstance(arguments["double"], bool)


def test_tools_stream_and_go_back(client: OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="tiny",
            messages=HELLO,
            tools=[CLICK],
            tool_choice="required",
            parallel_tool_calls=False,
            max_tokens=400,
            stream=True,
        )
    )
    calls = [call for chunk in chunks if chunk.choices for call in chunk.choices[0].delta.tool_calls or []]
    assert [call.index for call in calls] == [0]
    assert json.loads(calls[0].function.arguments)
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    followed = client.chat.completions.create(
        model="tiny",
        messages=[
            *HELLO,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": calls[0].id,
                        "type": "function",
                        "function": {"name": "click", "arguments": calls[0].function.arguments},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": calls[0].id, "content": "clicked"},
        ],
        tools=[CLICK],
        max_tokens=4,
    )
    assert followed.usage.prompt_tokens > 50


def test_logprobs(client: OpenAI) -> None:
    request = {
        "model": "tiny",
        "messages": HELLO,
        "max_tokens": 6,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 3,
    }
    content = client.chat.completions.create(**request).choices[0].logprobs.content
    assert len(content) == 6
    for entry in content:
        assert len(entry.top_logprobs) == 3
        assert entry.logprob == pytest.approx(entry.top_logprobs[0].logprob, abs=1e-5)  # greedy takes the best
        assert [top.logprob for top in entry.top_logprobs] == sorted(
            (top.logprob for top in entry.top_logprobs), reverse=True
        )
        assert bytes(entry.bytes).decode(errors="replace") == entry.token
    streamed = [
        entry
        for chunk in client.chat.completions.create(**request, stream=True)
        if chunk.choices[0].logprobs
        for entry in chunk.choices[0].logprobs.content
    ]
    assert [entry.token for entry in streamed] == [entry.token for entry in content]


def test_stop(client: OpenAI) -> None:
    request = {"model": "tiny", "messages": HELLO, "max_tokens": 40, "seed": 11}
    text = client.chat.completions.create(**request).choices[0].message.content
    word = next(letter for letter in text[3:] if letter.isascii() and letter.isprintable())
    cut = client.chat.completions.create(**request, stop=[word])
    assert cut.choices[0].finish_reason == "stop"
    assert cut.choices[0].message.content == text[: text.index(word)].strip("\n")


def test_text_completions(client: OpenAI) -> None:
    response = client.completions.create(model="tiny", prompt="Once", max_tokens=5, temperature=0, logprobs=2)
    choice = response.choices[0]
    assert len(choice.logprobs.tokens) == 5
    assert all(len(top) <= 2 for top in choice.logprobs.top_logprobs)
    same = client.completions.create(model="tiny", prompt=list(b"Once"), max_tokens=5, temperature=0)
    assert same.choices[0].text == choice.text
    several = client.completions.create(model="tiny", prompt=["Once", "Twice"], max_tokens=5, temperature=0, n=2)
    assert [choice.index for choice in several.choices] == [0, 1, 2, 3]
    assert several.choices[0].text == several.choices[1].text == choice.text
    assert several.usage.prompt_tokens == len("Once") + len("Twice")
    chunks = client.completions.create(model="tiny", prompt="Once", max_tokens=5, temperature=0, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == choice.text


def test_token_ids_come_out_on_request(client: OpenAI) -> None:
    response = client.chat.completions.create(
        model="tiny", messages=HELLO, max_tokens=5, extra_body={"return_token_ids": True}
    )
    assert len(response.choices[0].token_ids) == response.usage.completion_tokens
    assert set(response.choices[0].versions) == {0}
    assert len(response.prompt_token_ids) == response.usage.prompt_tokens


def test_models(client: OpenAI) -> None:
    (model,) = client.models.list().data
    assert model.id == "tiny"
    assert model.capabilities["sessions"]["version"] == 1
    assert model.agent["dialect"] == "compact"  # as an agent: what its name is known for
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("another/one")


def test_errors_have_their_classes(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-4", messages=HELLO)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="tiny", messages=HELLO, temperature=9)
    assert wrong.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as unknown:
        client.chat.completions.create(model="tiny", messages=HELLO, extra_body={"sesion_id": "x"})
    assert "sesion_id" in str(unknown.value)
    with pytest.raises(openai.BadRequestError) as long:
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "x" * 70_000}])
    assert long.value.status_code == 400
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="tiny", messages=HELLO, presence_penalty=3.0)
    assert re.fullmatch(r"req-\w+", wrong.value.response.headers["x-request-id"])
