"""The session extension through the ordinary client: only what is new is sent, and nothing is computed twice."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import openai
import pytest
from openai import OpenAI

from tests.server.pictures import data_url, with_image
from tests.server.process import ServerProcess, running
from tests.server.test_openai_client import CLICK

SYSTEM = {"role": "system", "content": "You look at screens and act on them, one step at a time."}


class Talk:
    """A session, and beside it the token log as it must be."""

    def __init__(self, client: OpenAI, id: str | None = None) -> None:
        self.client = client
        self.id = id or f"talk-{uuid4().hex[:8]}"
        self.log: list[int] = []
        self.turns = 0

    def say(self, *messages: dict[str, Any], max_tokens: int = 6, **extension: Any) -> Any:
        extension = {"session_id": self.id, "return_token_ids": True, **extension}
        if not self.turns and "rewind" not in extension and "fork" not in extension:
            extension.setdefault("session_open", True)
        response = self.client.chat.completions.create(
            model="tiny", messages=list(messages), max_tokens=max_tokens, temperature=0, extra_body=extension
        )
        self.log += [*response.prompt_token_ids, *response.choices[0].token_ids]
        self.turns = response.session["turns"]
        assert response.session["tokens"] == len(self.log)
        return response

    def without_session(self, log: list[int], max_tokens: int = 6) -> list[int]:
        """What the model says to this log, computed from the beginning."""
        response = self.client.completions.create(
            model="tiny", prompt=log, max_tokens=max_tokens, temperature=0, extra_body={"return_token_ids": True}
        )
        return response.choices[0].token_ids


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_turns_extend_the_log_and_compute_only_what_is_new(client: OpenAI) -> None:
    talk = Talk(client)
    for n in range(4):
        before = len(talk.log)
        response = talk.say(*([SYSTEM] if n == 0 else []), user(f"Step {n}: what now?"))
        new = len(response.prompt_token_ids)
        assert response.usage.prompt_tokens == before + new
        if before:  # the first turn may find the beginning of another test's conversation
            assert response.usage.prompt_tokens_details.cached_tokens == before - 1
        reply = response.choices[0].token_ids
        assert reply == talk.without_session(talk.log[: -len(reply)])
    client.delete(f"/sessions/{talk.id}", cast_to=object)


def test_a_session_reads_like_the_whole_conversation(client: OpenAI) -> None:
    """Turns appended one by one give the tokens that rendering everything at once gives."""
    talk = Talk(client)
    first = talk.say(SYSTEM, user("one"), max_tokens=3, ignore_eos=True)
    talk.say(user("two"), max_tokens=3)
    whole = client.chat.completions.create(
        model="tiny",
        messages=[SYSTEM, user("one"), {"role": "assistant", "content": "REPLY"}, user("two")],
        max_tokens=1,
        extra_body={"return_token_ids": True},
    ).prompt_token_ids
    reply = first.choices[0].token_ids
    start = len(first.prompt_token_ids)
    expected = [*whole[:start], *reply, *whole[start + len("REPLY") :]]
    assert talk.log[: len(expected)] == expected


def test_images_are_appended_one_per_step(client: OpenAI) -> None:
    talk = Talk(client)
    talk.say(SYSTEM, with_image("first", data_url("red")))
    for colour in ("green", "blue", "white", "black", "yellow"):  # more than one request may carry at once
        response = talk.say(with_image("and now?", data_url(colour)))
        new = len(response.prompt_token_ids)
        assert response.usage.prompt_tokens - response.usage.prompt_tokens_details.cached_tokens == new + 1


def test_fork_rewind_and_retry(client: OpenAI, server: ServerProcess) -> None:
    talk = Talk(client)
    talk.say(SYSTEM, user("one"))
    after_one = list(talk.log)
    talk.say(user("two"))

    branch = Talk(client, talk.id + "-branch")
    branch.log, branch.turns = list(talk.log), talk.turns
    forked = branch.say(user("three"), session_id=talk.id, fork=branch.id)
    assert forked.session["id"] == branch.id
    assert talk.say(user("three")).choices[0].token_ids == forked.choices[0].token_ids

    # Back to after the first turn, in a copy: the original is not touched.
    other = Talk(client, talk.id + "-other")
    other.log, other.turns = list(after_one), 1
    response = other.say(user("two, but different"), session_id=talk.id, fork=other.id, rewind=1)
    assert response.session["turns"] == 2
    reply = response.choices[0].token_ids
    assert reply == other.without_session(other.log[: -len(reply)])
    assert client.get(f"/sessions/{talk.id}", cast_to=object)["turns"] == 3

    # Keeping as many turns as there are changes nothing, so a request that says so can be sent again safely.
    said = talk.say(user("four"), rewind=3).choices[0].token_ids
    del talk.log[-len(said) :]
    again = client.chat.completions.create(
        model="tiny",
        messages=[user("four")],
        max_tokens=6,
        temperature=0,
        extra_body={"session_id": talk.id, "rewind": 3, "return_token_ids": True},
    )
    assert again.choices[0].token_ids == said
    assert again.session["turns"] == 4

    # Another reply to the same prompt.
    retry = client.chat.completions.create(
        model="tiny",
        messages=[],
        max_tokens=6,
        temperature=0,
        extra_body={"session_id": talk.id, "rewind": "prompt", "return_token_ids": True},
    )
    assert retry.choices[0].token_ids == said
    assert retry.session["turns"] == 4


def test_a_mark_makes_going_back_free(client: OpenAI, server: ServerProcess) -> None:
    talk = Talk(client)
    talk.say(SYSTEM, user("x" * 300))
    talk.say(user("y" * 100), mark=True)
    before = server.settled()["holotron_recomputed_tokens_total"]
    response = client.chat.completions.create(
        model="tiny",
        messages=[],
        max_tokens=6,
        temperature=0,
        extra_body={"session_id": talk.id, "rewind": "prompt"},
    )
    usage = response.usage
    assert usage.prompt_tokens_details.cached_tokens >= usage.prompt_tokens - 1
    assert server.settled()["holotron_recomputed_tokens_total"] == before


def test_one_prompt_many_replies(client: OpenAI) -> None:
    """Append without a reply, fork, let each fork reply: a group of rollouts that shares its prompt."""
    id = client.post("/sessions", body={}, cast_to=object)["id"]
    appended = client.post(f"/sessions/{id}/append", body={"messages": [SYSTEM, user("go")]}, cast_to=object)
    assert appended["awaits_reply"]
    forks = client.post(f"/sessions/{id}/fork", body={"n": 4}, cast_to=object)["data"]
    texts = set()
    for n, fork in enumerate(forks):
        response = client.chat.completions.create(
            model="tiny", messages=[], max_tokens=8, seed=n, extra_body={"session_id": fork["id"]}
        )
        assert response.session["turns"] == 1
        texts.add(response.choices[0].message.content)
    assert len(texts) > 1
    with pytest.raises(openai.BadRequestError, match="without a reply"):
        client.chat.completions.create(model="tiny", messages=[user("more")], extra_body={"session_id": id})


@pytest.mark.parametrize("endings", [(6, 6), (6, 2), (2, 6), (2, 2)])
def test_compacting_keeps_the_ends(client: OpenAI, endings: tuple[int, int]) -> None:
    """The first and the last turns stay; the log is what it would be had those between never happened. A reply may end
    by itself or be cut off, so the place where the two ends meet has to be mended accordingly."""
    first, before_last = endings
    exactly = {"type": "regex", "regex": "okay"}

    def turn(talk: Talk, n: int, max_tokens: int) -> None:
        messages = [SYSTEM, user("turn 0")] if n == 0 else [user(f"turn {n}")]
        talk.say(*messages, max_tokens=max_tokens, response_format=exactly)

    talk, wanted = Talk(client), Talk(client)
    for n, length in enumerate((first, 6, before_last, 6)):
        turn(talk, n, length)
    turn(wanted, 0, first)
    turn(wanted, 3, 6)
    compacted = client.post(f"/sessions/{talk.id}/compact", body={"keep_first": 1, "keep_last": 1}, cast_to=object)
    assert compacted["turns"] == 2
    assert compacted["tokens"] == len(wanted.log)
    talk.log, talk.turns = list(wanted.log), 2
    reply = talk.say(user("and?")).choices[0].token_ids
    assert reply == talk.without_session(talk.log[: -len(reply)])
    assert reply == wanted.say(user("and?")).choices[0].token_ids


def test_streaming_in_a_session(client: OpenAI) -> None:
    id = f"stream-{uuid4().hex[:8]}"
    for n in range(2):
        chunks = list(
            client.chat.completions.create(
                model="tiny",
                messages=[user(f"turn {n}")],
                max_tokens=5,
                stream=True,
                extra_body={"session_id": id, "session_open": n == 0},
            )
        )
        assert chunks[-1].session["turns"] == n + 1


def test_tools_in_a_session(client: OpenAI) -> None:
    id = f"tools-{uuid4().hex[:8]}"
    request = {"model": "tiny", "max_tokens": 400, "tool_choice": "required", "parallel_tool_calls": False}
    first = client.chat.completions.create(
        **request, messages=[user("click")], tools=[CLICK], extra_body={"session_id": id, "session_open": True}
    )
    call = first.choices[0].message.tool_calls[0]
    result = {"role": "tool", "tool_call_id": call.id, "content": "done"}
    second = client.chat.completions.create(**request, messages=[result], extra_body={"session_id": id})
    assert json.loads(second.choices[0].message.tool_calls[0].function.arguments)["button"] in ("left", "right")
    other = {**CLICK, "function": {**CLICK["function"], "name": "type"}}
    with pytest.raises(openai.BadRequestError, match="tools belong to the first turn"):
        client.chat.completions.create(**request, messages=[user("x")], tools=[other], extra_body={"session_id": id})


def test_token_sessions(client: OpenAI) -> None:
    """Completions in a session append tokens as they are."""
    id = f"raw-{uuid4().hex[:8]}"
    log: list[int] = []
    for n in range(3):
        prompt = list(f"piece {n} ".encode())
        response = client.completions.create(
            model="tiny",
            prompt=prompt,
            max_tokens=4,
            temperature=0,
            extra_body={"session_id": id, "session_open": n == 0, "return_token_ids": True},
        )
        assert response.usage.prompt_tokens_details.cached_tokens == max(0, len(log) - 1)
        log += [*prompt, *response.choices[0].token_ids]
        assert response.session["tokens"] == len(log)
    with pytest.raises(openai.BadRequestError, match="text conversation"):
        client.chat.completions.create(model="tiny", messages=[user("x")], extra_body={"session_id": id})


def test_mistakes_are_told(client: OpenAI) -> None:
    talk = Talk(client)
    talk.say(SYSTEM, user("one"))

    def refused(status: int, code: str | None, messages: list[dict[str, Any]], **extension: Any) -> None:
        with pytest.raises(openai.APIStatusError) as error:
            client.chat.completions.create(
                model="tiny", messages=messages, max_tokens=2, extra_body={"session_id": talk.id, **extension}
            )
        assert error.value.status_code == status, error.value
        assert error.value.code == code

    refused(404, "session_not_found", [user("x")], session_id="never-opened")
    refused(409, "session_exists", [user("x")], session_open=True)
    refused(400, None, [SYSTEM, user("one"), user("two")])  # the whole history again
    refused(400, None, [{"role": "assistant", "content": "x"}, user("y")])
    refused(400, None, [])
    refused(409, "no_such_turn", [user("x")], rewind=7)
    refused(400, None, [user("x")], rewind=-1)
    refused(400, None, [user("x")], session_id=None, rewind=1)
    assert client.get(f"/sessions/{talk.id}", cast_to=object)["turns"] == 1  # untouched by all of it


def test_a_failed_turn_leaves_no_trace(client: OpenAI) -> None:
    talk = Talk(client)
    talk.say(SYSTEM, user("one"))
    before = client.get(f"/sessions/{talk.id}", cast_to=object)
    bad = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}
    for how in (
        {"response_format": bad},
        {"messages": [user("x" * 70_000)]},
        {"messages": [with_image("x", "data:,")]},
    ):
        with pytest.raises(openai.BadRequestError):
            client.chat.completions.create(
                **{"model": "tiny", "messages": [user("two")], "extra_body": {"session_id": talk.id}, **how}
            )
    assert client.get(f"/sessions/{talk.id}", cast_to=object) == before
    with pytest.raises(openai.BadRequestError):  # opened for this turn, so gone with it
        client.chat.completions.create(
            model="tiny",
            messages=[user("x")],
            response_format=bad,
            extra_body={"session_id": "short-lived", "session_open": True},
        )
    with pytest.raises(openai.NotFoundError):
        client.get("/sessions/short-lived", cast_to=object)


def test_one_thing_at_a_time(client: OpenAI) -> None:
    talk = Talk(client)
    talk.say(user("one"))
    request = {
        "model": "tiny",
        "messages": [user("two")],
        "max_tokens": 300,
        "extra_body": {"session_id": talk.id, "ignore_eos": True},
    }
    stream = client.chat.completions.create(**request, stream=True)
    next(iter(stream))
    with pytest.raises(openai.ConflictError) as busy:
        client.chat.completions.create(**request)
    assert busy.value.code == "session_busy"
    with pytest.raises(openai.ConflictError):
        client.post(f"/sessions/{talk.id}/fork", body={}, cast_to=object)
    client.delete(f"/sessions/{talk.id}", cast_to=object)  # closing is always possible
    with pytest.raises(openai.APIError, match="cancelled"):
        list(stream)


def test_many_sessions_at_once(client: OpenAI, server: ServerProcess) -> None:
    """More sessions than the device holds; each says what it would have said alone."""

    def live(n: int) -> bool:
        talk = Talk(client)
        good = True
        for step in range(3):
            response = talk.say(user(f"session {n} step {step}"), max_tokens=4)
            reply = response.choices[0].token_ids
            good &= reply == talk.without_session(talk.log[: -len(reply)], max_tokens=4)
        client.delete(f"/sessions/{talk.id}", cast_to=object)
        return good

    with ThreadPoolExecutor(24) as pool:
        assert all(pool.map(live, range(24)))


def test_sessions_belong_to_their_key() -> None:
    with running("tiny", environment={"HOLOTRON_SERVER__API_KEYS": "alice,bob"}) as server:
        alice, bob = (OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) for key in ("alice", "bob"))
        alice.post("/sessions", body={"id": "mine"}, cast_to=object)
        with pytest.raises(openai.NotFoundError):
            bob.get("/sessions/mine", cast_to=object)
        bob.post("/sessions", body={"id": "mine"}, cast_to=object)  # another one, of the same name
        assert len(bob.get("/sessions", cast_to=object)["data"]) == 1
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic alice"}):
            answer = httpx.get(f"{server.url}/v1/models", headers=headers)
            assert answer.status_code == 401
            assert answer.json()["error"]["code"] == "invalid_api_key"
        assert httpx.get(f"{server.url}/health").status_code == 200
