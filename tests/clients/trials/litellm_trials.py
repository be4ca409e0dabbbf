from __future__ import annotations

import json

import litellm
from harness import POLICY, TOOLS, Pet, Server, picture, run, trial

KINDS = ("openai", "hosted_vllm")  # how its users name servers like this one


def complete(server: Server, kind: str, **options: object) -> litellm.ModelResponse:
    asked = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 400, "seed": 1, **options}
    return litellm.completion(model=f"{kind}/{server.model}", api_base=server.url, api_key="none", **asked)


@trial
def plain() -> None:
    for kind in KINDS:
        assert complete(POLICY, kind).usage.completion_tokens > 0


@trial
def stream() -> None:
    for kind in KINDS:
        chunks = list(complete(POLICY, kind, stream=True, stream_options={"include_usage": True}))
        assert chunks[-1].usage.completion_tokens > 0


@trial
def structured() -> None:
    for kind in KINDS:
        Pet.model_validate_json(complete(POLICY, kind, response_format=Pet).choices[0].message.content)


@trial
def tools() -> None:
    described = {"type": "function", "function": {"name": "pet", "parameters": Pet.model_json_schema()}}
    for kind in KINDS:
        reply = complete(TOOLS, kind, tools=[described], tool_choice="required", parallel_tool_calls=False)
        (call,) = reply.choices[0].message.tool_calls
        Pet.model_validate(json.loads(call.function.arguments))


@trial
def sampling_and_pictures() -> None:
    content = [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": picture()}}]
    options = {"frequency_penalty": 0.3, "logit_bias": {"65": 3}, "user": "me", "metadata": {"a": "b"}, "top_k": 5}
    for kind in KINDS:
        complete(POLICY, kind, messages=[{"role": "user", "content": content}], max_tokens=20, **options)


run()
