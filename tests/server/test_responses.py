"""The Responses API through the official client: continuing, branching, streaming, structure, tools, what is kept."""

from __future__ import annotations

import json
import threading
from typing import Any, Literal

import httpx
import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel

from holotron.server.keys import Keys
from tests.server.inside import Inside, inside
from tests.server.pictures import data_url
from tests.server.process import ServerProcess

SHORT: dict[str, Any] = {"model": "tiny", "max_output_tokens": 5, "temperature": 0}
LOOK = {
    "type": "function",
    "name": "look",
    "description": "Look there.",
    "parameters": {
        "type": "object",
        "properties": {"where": {"type": "string", "enum": ["left", "right"]}},
        "required": ["where"],
        "additionalProperties": False,
    },
    "strict": True,
}


def say(client: OpenAI, input: Any, **fields: Any) -> Any:
    return client.responses.create(**{**SHORT, "input": input, **fields})


def new_tokens(response: Any) -> int:
    return response.usage.input_tokens - response.usage.input_tokens_details.cached_tokens


def known(response: Any) -> int:
    """Tokens of the conversation up to this response's end."""
    return response.usage.total_tokens


# ---------------------------------------------------------------------------------------- continuing and branching


def test_continuing_computes_only_what_is_new(client: OpenAI) -> None:
    response = say(client, "You look at screens. One.", instructions="Be brief.")
    for n in range(3):
        before = known(response)
        response = say(client, f"And {n}?", previous_response_id=response.id, instructions="Be brief.")
        assert response.usage.input_tokens_details.cached_tokens == before - 1  # all but the last token sampled
        assert response.usage.resumed == "session"
        assert response.usage.input_tokens > before


def test_branching_twice_from_the_middle(client: OpenAI) -> None:
    first = say(client, "One.")
    middle = say(client, "Two.", previous_response_id=first.id)
    end = say(client, "Three.", previous_response_id=middle.id)
    again = say(client, "Three.", previous_response_id=middle.id)
    other = say(client, "Something else.", previous_response_id=middle.id)
    assert again.output_text == end.output_text
    assert again.id != end.id
    for branch in (again, other):
        assert branch.usage.input_tokens_details.cached_tokens == known(middle) - 1
        assert branch.previous_response_id == middle.id
    # The end was not touched by its siblings.
    after = say(client, "Four.", previous_response_id=end.id)
    assert after.usage.input_tokens_details.cached_tokens == known(end) - 1


def test_a_branch_says_what_the_conversation_sent_whole_would_make_it_say(client: OpenAI) -> None:
    first = say(client, "One.", extra_body={"ignore_eos": True})
    text = first.output_text
    whole = [
        {"role": "user", "content": "One."},
        {"role": "assistant", "content": text},
        {"role": "user", "content": "Two."},
    ]
    sent = say(client, whole, store=False)
    assert first.status == "incomplete"
    # The reply was cut off inside a letter or not: the number of tokens tells whether the text says all of it.
    continued = say(client, "Two.", previous_response_id=first.id)
    if sent.usage.input_tokens == continued.usage.input_tokens:
        assert continued.output_text == sent.output_text


def test_both_at_once_from_one_response(client: OpenAI) -> None:
    first = say(client, "One.")
    replies: list[Any] = []
    threads = [
        threading.Thread(target=lambda: replies.append(say(client, "Two.", previous_response_id=first.id)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({reply.output_text for reply in replies}) == 1
    assert len({reply.id for reply in replies}) == 4


def test_a_client_that_sends_everything_again_is_recognised(client: OpenAI) -> None:
    """As agents do by default: the input grows, and nobody names the previous response."""
    items: list[Any] = [{"role": "user", "content": "One."}]
    response = say(client, items)
    for n in range(2):
        items += [item.model_dump() for item in response.output]
        items.append({"role": "user", "content": f"And {n}?"})
        before, response = known(response), say(client, items)
        assert response.usage.input_tokens_details.cached_tokens == before - 1
        assert response.previous_response_id is None
    listed = client.responses.input_items.list(response.id, order="asc").data
    assert [item.role for item in listed] == ["user", "assistant", "user", "assistant", "user"]
    items[0]["content"] = "Two."  # another conversation, then
    assert say(client, items).usage.resumed != "session"


def test_a_client_that_writes_calls_anew_is_recognised(client: OpenAI) -> None:
    """Some parse arguments and write them again, and leave ids and reasoning out."""
    asked: dict[str, Any] = {"model": "tiny", "tools": [LOOK], "max_output_tokens": 300, "parallel_tool_calls": False}
    items: list[Any] = [{"role": "user", "content": "Where?"}]
    first = client.responses.create(**asked, input=items, tool_choice="required")
    (call,) = [item for item in first.output if item.type == "function_call"]
    arguments = json.dumps(json.loads(call.arguments), separators=(",", ":"))
    items += [
        {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": arguments},
        {"type": "function_call_output", "call_id": call.call_id, "output": [{"type": "input_text", "text": "red"}]},
    ]
    second = client.responses.create(**asked, input=items, tool_choice="required")
    assert second.usage.resumed == "session"
    picture = {"type": "input_image", "image_url": data_url("red")}  # a function may answer with a picture
    items[-1]["output"] = [{"type": "input_text", "text": "red"}, picture]
    shown = client.responses.create(**asked, input=items, tool_choice="required")
    assert shown.usage.input_tokens > second.usage.input_tokens + 16


def test_changed_instructions_and_tools_replace_the_old_ones(client: OpenAI) -> None:
    def prompt(**fields: Any) -> int:
        return say(client, "Two.", **fields).usage.input_tokens

    first = say(client, "One.", instructions="Short.")
    same = prompt(previous_response_id=first.id, instructions="Short.")
    # Not carried over, as OpenAI has it; another text is another prompt of its own length.
    without = prompt(previous_response_id=first.id)
    longer = prompt(previous_response_id=first.id, instructions="Short." + "!" * 40)
    assert longer == same + 40
    assert without < same
    with_tools = say(client, "Two.", previous_response_id=first.id, instructions="Short.", tools=[LOOK])
    assert with_tools.usage.input_tokens > same + 50
    assert with_tools.usage.resumed != "session"
    # And that one is continued with its own.
    next = say(client, "Three.", previous_response_id=with_tools.id, instructions="Short.", tools=[LOOK])
    assert next.usage.input_tokens_details.cached_tokens == known(with_tools) - 1


def test_input_in_all_its_forms(client: OpenAI) -> None:
    text = say(client, "Hello", store=False)
    message = say(client, [{"role": "user", "content": "Hello"}], store=False)
    parts = say(
        client, [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}], store=False
    )
    assert text.output_text == message.output_text == parts.output_text
    assert text.usage.input_tokens == message.usage.input_tokens == parts.usage.input_tokens
    # A developer's message that begins the input and instructions are one system message.
    system = say(client, "Hello", instructions="Be kind.", store=False)
    developer = say(
        client, [{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "Hello"}], store=False
    )
    assert system.usage.input_tokens == developer.usage.input_tokens
    mixed = say(
        client,
        [
            {"role": "user", "content": "Where is it?"},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Perhaps left."}]},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"where": "left"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "nothing"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Not left."}]},
            {"role": "user", "content": "Then?"},
        ],
        tools=[LOOK],
    )
    assert mixed.usage.input_tokens > 100
    listed = client.responses.input_items.list(mixed.id, order="asc", limit=4)
    assert [item.type for item in listed.data] == ["message", "reasoning", "function_call", "function_call_output"]
    assert listed.has_more
    rest = client.responses.input_items.list(mixed.id, order="asc", after=listed.data[-1].id)
    assert [item.type for item in rest.data] == ["message", "message"]


def test_items_of_stored_responses_by_reference(client: OpenAI) -> None:
    first = say(client, "One.")
    (reply,) = first.output
    referred = say(
        client,
        [
            {"role": "user", "content": "One."},
            {"type": "item_reference", "id": reply.id},
            {"role": "user", "content": "Two."},
        ],
    )
    assert referred.usage.input_tokens_details.cached_tokens == known(first) - 1
    with pytest.raises(openai.NotFoundError):
        say(client, [{"type": "item_reference", "id": "msg_none"}, {"role": "user", "content": "Two."}])


def test_images(client: OpenAI) -> None:
    def content(colour: str) -> list[dict[str, Any]]:
        picture = {"type": "input_image", "image_url": data_url(colour), "detail": "auto"}
        return [{"role": "user", "content": [{"type": "input_text", "text": "What is it?"}, picture]}]

    red = say(client, content("red"), top_logprobs=1)
    blue = say(client, content("blue"), top_logprobs=1)
    assert red.usage.input_tokens == blue.usage.input_tokens > 27
    probability = [reply.output[0].content[0].logprobs[0].logprob for reply in (red, blue)]
    assert probability[0] != probability[1]
    after = say(client, content("green"), previous_response_id=red.id)
    assert after.usage.input_tokens_details.cached_tokens == known(red) - 1
    picture = {"type": "input_image", "file_id": "file-1", "detail": "auto"}
    with pytest.raises(openai.BadRequestError) as file:
        say(client, [{"role": "user", "content": [picture]}])
    assert file.value.code == "not_supported"


def test_pictures_in_chats_form_mean_the_same(client: OpenAI) -> None:
    def content(picture: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}]

    url = data_url("red")
    usual = say(client, content({"type": "input_image", "image_url": url, "detail": "low"}))
    part = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    for picture in (part, {"type": "image_url", "image_url": url, "detail": "low"}, {**part, "type": "input_image"}):
        same = say(client, content(picture))
        assert same.usage.input_tokens == usual.usage.input_tokens
        kept = client.responses.input_items.list(same.id).data[0].content[1].to_dict()
        assert kept == {"type": "input_image", "image_url": url, "detail": "low"}
    again = [*content(part), *(item.to_dict() for item in usual.output), {"role": "user", "content": "And now?"}]
    assert say(client, again).usage.input_tokens_details.cached_tokens == known(usual) - 1
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": [part]}
    assert say(client, [call, output], tools=[LOOK]).usage.input_tokens > usual.usage.input_tokens
    for wrong in ({"type": "image_url"}, {"type": "image_url", "image_url": {"detail": "low"}}):
        with pytest.raises(openai.BadRequestError, match="image_url"):
            say(client, content(wrong))


# ------------------------------------------------------------------------------------------- structure and tools


class Colour(BaseModel):
    colour: Literal["red", "green"]
    sure: bool


def test_structured_output(client: OpenAI) -> None:
    response = client.responses.parse(model="tiny", input="Which?", text_format=Colour, max_output_tokens=200)
    assert isinstance(response.output_parsed, Colour)
    assert response.status == "completed"
    assert response.text.format.type == "json_schema"
    plain = client.responses.create(
        model="tiny", input="?", max_output_tokens=60, text={"format": {"type": "json_object"}}
    )
    assert plain.output_text.lstrip().startswith("{")
    with client.responses.stream(model="tiny", input="Which?", text_format=Colour, max_output_tokens=200) as stream:
        assert isinstance(stream.get_final_response().output_parsed, Colour)


def test_functions_and_their_outputs(client: OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny", "tools": [LOOK], "max_output_tokens": 300, "parallel_tool_calls": False}
    for choice in ("required", {"type": "function", "name": "look"}):
        response = client.responses.create(**asked, input="Where?", tool_choice=choice)
        (call,) = [item for item in response.output if item.type == "function_call"]
        assert call.name == "look"
        assert json.loads(call.arguments)["where"] in ("left", "right")
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "it is red"}
    after = client.responses.create(
        **asked, input=[output], previous_response_id=response.id, text={"format": {"type": "json_object"}}
    )
    # What the grammar forced at the end of the call was not computed then, and is now.
    assert response.usage.input_tokens <= after.usage.input_tokens_details.cached_tokens < known(response)
    assert after.usage.resumed == "session"
    with pytest.raises(openai.BadRequestError, match="No tool output found for function call"):
        client.responses.create(**asked, input="Well?", previous_response_id=response.id)
    stray = {"type": "function_call_output", "call_id": "call_none", "output": "?"}
    with pytest.raises(openai.BadRequestError, match="No tool call found"):
        client.responses.create(**asked, input=[stray])
    none = client.responses.create(**{**asked, "max_output_tokens": 5}, input="Where?", tool_choice="none")
    assert not [item for item in none.output if item.type == "function_call"]
    assert none.tool_choice == "none"


def test_reasoning_is_an_item_of_its_own(client: OpenAI) -> None:
    response = say(client, "Hello", reasoning={"effort": "low"})
    (thought,) = response.output
    assert thought.type == "reasoning"
    assert thought.content[0].text
    assert response.usage.output_tokens_details.reasoning_tokens == 5
    assert response.status == "incomplete"
    without = say(client, "Hello", reasoning={"effort": "none"})
    assert [item.type for item in without.output] == ["message"]
    with pytest.raises(openai.BadRequestError) as encrypted:
        say(client, "Hello", include=["reasoning.encrypted_content"], store=False)
    assert encrypted.value.code == "not_supported"
    assert encrypted.value.param == "include"


# --------------------------------------------------------------------------------------------------------- streaming


def test_events_come_in_order_and_add_up(client: OpenAI) -> None:
    request = {**SHORT, "input": "Hello", "max_output_tokens": 30, "extra_body": {"ignore_eos": True}}
    events = list(client.responses.create(**request, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]
    assert set(kinds[4:-4]) == {"response.output_text.delta"}
    text = "".join(event.delta for event in events[4:-4])
    last = events[-1].response
    assert text == last.output_text == events[-4].text
    assert last.id == events[0].response.id
    assert events[0].response.status == "in_progress"
    assert text == client.responses.create(**request).output_text
    assert client.responses.retrieve(last.id).output_text == text


def test_calls_and_reasoning_stream(client: OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny", "tools": [LOOK], "max_output_tokens": 300, "tool_choice": "required"}
    events = list(client.responses.create(**asked, parallel_tool_calls=False, input="Where?", stream=True))
    kinds = [event.type for event in events]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert json.loads(events[4].arguments)
    with client.responses.stream(**{**SHORT, "input": "Hi", "reasoning": {"effort": "low"}}) as stream:
        kinds = [event.type for event in stream]
    assert kinds[2:4] == ["response.output_item.added", "response.content_part.added"]
    assert "response.reasoning_text.delta" in kinds
    assert kinds[-4:-1] == ["response.reasoning_text.done", "response.content_part.done", "response.output_item.done"]


def test_a_stream_has_names_and_no_other_end_than_the_last_event(server: ServerProcess) -> None:
    body = {"model": "tiny", "input": "Hello", "max_output_tokens": 3, "stream": True}
    with httpx.stream("POST", f"{server.url}/v1/responses", json=body, timeout=60) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line]
    assert lines[0] == "event: response.created"
    names = [line.removeprefix("event: ") for line in lines[::2]]
    datas = [json.loads(line.removeprefix("data: ")) for line in lines[1::2]]
    assert [data["type"] for data in datas] == names
    assert names[-1] in ("response.completed", "response.incomplete")


def test_a_client_that_leaves_stops_the_work_and_leaves_nothing(client: OpenAI, server: ServerProcess) -> None:
    first = say(client, "One.")
    before = server.settled()
    stream = client.responses.create(
        model="tiny", input="Two.", previous_response_id=first.id, stream=True, extra_body={"ignore_eos": True}
    )
    created = next(iter(stream))
    for _ in zip(range(8), stream, strict=False):
        pass
    stream.close()
    after = server.settled()
    assert after["holotron_generated_tokens_total"] - before["holotron_generated_tokens_total"] < 2000
    assert after["holotron_sessions_open"] == before["holotron_sessions_open"]
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(created.response.id)
    assert say(client, "Two.", previous_response_id=first.id).id  # which is as it was


# ---------------------------------------------------------------------------------------------------- ends and limits


def test_what_was_cut_off_says_so(client: OpenAI) -> None:
    response = say(client, "Hello", max_output_tokens=2, extra_body={"ignore_eos": True})
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.output[0].status == "incomplete"
    assert response.usage.output_tokens == 2


def test_truncation() -> None:
    limit = 480
    with inside("--engine.max_context", str(limit)) as server:

        def ask(input: Any, **fields: Any) -> httpx.Response:
            return post(server, input=input, **fields)

        long = [{"role": "user", "content": "x" * (limit // 4)}, {"role": "assistant", "content": "y"}] * 6
        whole = [*long, {"role": "user", "content": "And the end?"}]
        refused = ask(whole)
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == "context_length_exceeded"
        kept = ask(whole, truncation="auto", instructions="Stay.").json()
        assert limit // 4 < kept["usage"]["input_tokens"] < limit
        assert kept["truncation"] == "auto"
        # Also where a session has filled up.
        first = ask("z" * (limit // 4)).json()
        filled = ask("z" * (limit // 4), previous_response_id=first["id"]).json()
        assert ask("z" * (limit // 2), previous_response_id=filled["id"]).status_code == 400
        after = ask("z" * (limit // 2), previous_response_id=filled["id"], truncation="auto").json()
        assert limit // 2 < after["usage"]["input_tokens"] < limit
        assert ask("z" * limit * 2, truncation="auto").status_code == 400  # nothing to drop


def test_not_stored(client: OpenAI, server: ServerProcess) -> None:
    before = server.settled()["holotron_sessions_open"]
    stored = say(client, "One.")
    response = say(client, "Two.", previous_response_id=stored.id, store=False)
    assert response.usage.input_tokens_details.cached_tokens == known(stored) - 1
    assert response.store is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)
    with pytest.raises(openai.NotFoundError) as missing:
        say(client, "Three.", previous_response_id=response.id)
    assert missing.value.code == "previous_response_not_found"
    # A chain that nobody stores is sent whole each time, and resumes what the engine still knows.
    items: list[Any] = [{"role": "user", "content": "A chain of its own. " * 20}]
    first = say(client, items, store=False)
    items += [*(item.model_dump(exclude={"id"}) for item in first.output), {"role": "user", "content": "And?"}]
    second = say(client, items, store=False)
    assert second.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens - 1
    assert server.settled()["holotron_sessions_open"] == before + 1  # the one that is stored


def test_fetching_and_deleting(client: OpenAI) -> None:
    first = say(client, "One.", metadata={"task": "7"}, instructions="Brief.")
    second = say(client, "Two.", previous_response_id=first.id)
    fetched = client.responses.retrieve(first.id)
    assert fetched.to_dict() == first.to_dict()
    assert fetched.metadata == {"task": "7"}
    client.responses.delete(first.id)
    for call in (client.responses.retrieve, client.responses.delete, client.responses.input_items.list):
        with pytest.raises(openai.NotFoundError):
            call(first.id)
    with pytest.raises(openai.NotFoundError) as gone:
        say(client, "Two.", previous_response_id=first.id)
    assert gone.value.code == "previous_response_not_found"
    assert gone.value.param == "previous_response_id"
    assert gone.value.type == "invalid_request_error"
    # What was made from it goes on.
    assert say(client, "Three.", previous_response_id=second.id).usage.input_tokens > known(first)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("background", True),
        ("conversation", "conv_1"),
        ("prompt", {"id": "pmpt_1"}),
        ("context_management", [{"type": "compaction"}]),
        ("tools", [{"type": "web_search"}]),
        ("tools", [{"type": "mcp", "server_label": "x"}]),
        ("input", [{"type": "local_shell_call", "id": "x"}]),
        ("input", [{"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}]),
        ("tool_choice", {"type": "allowed_tools", "mode": "auto", "tools": []}),
    ],
)
def test_what_is_not_supported_says_so_by_name(server: ServerProcess, field: str, value: Any) -> None:
    body = {"model": "tiny", "input": "Hello", "max_output_tokens": 2, field: value}
    response = httpx.post(f"{server.url}/v1/responses", json=body, timeout=60)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == "not_supported"
    named = {"tools": value[0].get("type"), "input": value[0].get("type")} if isinstance(value, list) else {}
    assert (named.get(field) or field) in error["message"] or error["param"].startswith(field)


def test_bad_requests(client: OpenAI, server: ServerProcess) -> None:
    for body, param in (
        ({"input": []}, "input"),
        ({}, "input"),
        ({"input": "x", "sesion": 1}, "sesion"),
        ({"input": "x", "temperature": 9}, "temperature"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
        ({"input": 7}, "input"),
        ({"input": "x", "metadata": {str(n): "x" for n in range(17)}}, "metadata"),
        ({"input": "x", "tools": [{"type": "function"}]}, "tools[0].name"),
    ):
        response = httpx.post(f"{server.url}/v1/responses", json={"model": "tiny", **body}, timeout=60)
        assert response.status_code == 400, response.text
        assert response.json()["error"]["param"] == param
    with pytest.raises(openai.NotFoundError) as model:
        say(client, "x", model="gpt-6")
    assert model.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        client.responses.cancel("resp_none")


# ---------------------------------------------------------------------------------------------- keys and what is kept


def post(server: Inside, key: str | None = None, **body: Any) -> httpx.Response:
    return server.post("/v1/responses", {"input": "Hello", "max_output_tokens": 2, "temperature": 0, **body}, key)


def test_another_keys_response_is_not_there() -> None:
    with inside("--server.api_keys", "one,two", "--responses.max_stored", "8") as server:
        id = post(server, "one").json()["id"]
        assert post(server, "one", previous_response_id=id).status_code == 200
        stolen, unknown = (post(server, "two", previous_response_id=name) for name in (id, "resp_none"))
        assert stolen.status_code == unknown.status_code == 404
        assert stolen.json() == json.loads(unknown.text.replace("resp_none", id))
        headers = {"authorization": "Bearer two"}
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/input_items")):
            answer = httpx.request(method, f"{server.url}/v1/responses/{id}{path}", headers=headers)
            assert answer.status_code == 404
        # Nor is the conversation recognised, or an item found, for anybody but its owner.
        item = post(server, "one").json()["output"][0]["id"]
        reference = [{"type": "item_reference", "id": item}, {"role": "user", "content": "x"}]
        assert post(server, "two", input=reference).status_code == 404
        assert post(server, "one", input=reference).status_code == 200
        # One that keeps much pushes out its own, and may have half.
        theirs = post(server, "two").json()["id"]
        for _ in range(5):
            post(server, "one")
        assert server.service.loaded.responses.held(Keys(["one"]).owner(b"Bearer one"))[0] == 4
        assert httpx.get(f"{server.url}/v1/responses/{theirs}", headers=headers).status_code == 200


def test_responses_expire() -> None:
    with inside("--responses.ttl_seconds", "0.5") as server:
        id = post(server).json()["id"]
        assert httpx.get(f"{server.url}/v1/responses/{id}").status_code == 200
        threading.Event().wait(0.6)
        assert httpx.get(f"{server.url}/v1/responses/{id}").status_code == 404
        gone = post(server, previous_response_id=id)
        assert gone.status_code == 404
        assert gone.json()["error"]["code"] == "previous_response_not_found"


def test_what_is_kept_is_limited() -> None:
    with inside("--responses.max_stored", "3", "--responses.sessions", "2", "--responses.max_bytes", "9000") as server:
        ids = [post(server).json()["id"]]
        for _ in range(3):
            ids.append(post(server, previous_response_id=ids[-1]).json()["id"])
        found = [httpx.get(f"{server.url}/v1/responses/{id}").status_code for id in ids]
        assert found == [404, 200, 200, 200]
        assert len(server.service.loaded.responses.sessions.all("anyone")) <= 3  # two, and one in the making
        # One whose session was given up is computed again, and says the same.
        fresh = post(server, previous_response_id=ids[1], store=False).json()
        branch = post(server, previous_response_id=ids[1]).json()
        assert fresh["usage"]["input_tokens_details"]["cached_tokens"] < fresh["usage"]["input_tokens"] - 20
        assert fresh["output"][0]["content"][0]["text"] == branch["output"][0]["content"][0]["text"]
        # Bytes count too: one large input pushes the others out.
        large = post(server, input="y" * 7000, store=True).json()["id"]
        assert httpx.get(f"{server.url}/v1/responses/{large}").status_code == 200
        assert httpx.get(f"{server.url}/v1/responses/{branch['id']}").status_code == 404
        responses, held = server.service.loaded.responses.held("anyone")
        assert responses == 1
        assert 7000 < held <= 9000
