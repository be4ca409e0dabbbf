from __future__ import annotations

import instructor
import openai
from harness import POLICY, TOOLS, Pet, Server, run, trial

ASK = [{"role": "user", "content": "Which pet?"}]


def client(server: Server, mode: instructor.Mode) -> instructor.Instructor:
    return instructor.from_openai(openai.OpenAI(base_url=server.url, api_key="none"), mode=mode)


def ask(server: Server, mode: instructor.Mode) -> None:
    pet = client(server, mode).chat.completions.create(
        model=server.model, messages=ASK, response_model=Pet, max_retries=0, max_tokens=400
    )
    assert isinstance(pet, Pet)


@trial
def json_schema() -> None:
    ask(POLICY, instructor.Mode.JSON_SCHEMA)
    ask(TOOLS, instructor.Mode.JSON_SCHEMA)


@trial
def tools() -> None:
    ask(TOOLS, instructor.Mode.TOOLS)


@trial
def tools_strict() -> None:
    ask(TOOLS, instructor.Mode.TOOLS_STRICT)


@trial
def partial_streaming() -> None:
    stream = client(POLICY, instructor.Mode.JSON_SCHEMA).chat.completions.create_partial(
        model=POLICY.model, messages=ASK, response_model=Pet, max_retries=0, max_tokens=400
    )
    *_, last = stream
    assert last.name in ("rex", "tom")
    assert 0 <= last.age <= 20


run()
