from __future__ import annotations

import asyncio
from typing import Literal

from harness import POLICY, TOOLS, Pet, Server, picture, run, trial
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


def chat(server: Server, **options: object) -> ChatOpenAI:
    defaults = {"max_tokens": 400, "max_retries": 0, "seed": 1, "api_key": "none"}
    return ChatOpenAI(base_url=server.url, model=server.model, **{**defaults, **options})


@tool
def click(button: Literal["left", "right"], double: bool = False) -> str:
    """Click it."""
    return f"clicked {button}"


@trial
def plain() -> None:
    reply = chat(POLICY).invoke("hello")
    assert reply.response_metadata["finish_reason"] in ("stop", "length")
    assert reply.usage_metadata["output_tokens"] > 0
    asyncio.run(chat(POLICY).ainvoke("hello"))


@trial
def sampling() -> None:
    options = {"frequency_penalty": 0.5, "presence_penalty": 0.5, "logit_bias": {"65": 5}, "stop": ["!"], "n": 2}
    extra = {"top_k": 20, "min_p": 0.01, "repetition_penalty": 1.1}
    chat(POLICY, max_tokens=20, temperature=0.7, top_p=0.9, extra_body=extra, **options).invoke("hello")


@trial
def stream() -> None:
    model = chat(POLICY, temperature=0)
    chunks = list(model.stream("hello", stream_usage=True))
    assert "".join(chunk.content for chunk in chunks) == model.invoke("hello").content
    assert any(chunk.usage_metadata for chunk in chunks)


@trial
def structured() -> None:
    for strict in (None, True):
        by_schema = chat(POLICY).with_structured_output(Pet, method="json_schema", strict=strict)
        assert isinstance(by_schema.invoke("?"), Pet)
        by_tool = chat(TOOLS).with_structured_output(Pet, method="function_calling", strict=strict)
        assert isinstance(by_tool.invoke("?"), Pet)
    *_, last = chat(POLICY).with_structured_output(Pet, method="json_schema").stream("?")
    assert isinstance(last, Pet)


@trial
def tool_loop_with_a_picture() -> None:
    shown = {"type": "image_url", "image_url": {"url": picture(), "detail": "low"}}
    messages = [SystemMessage("Be brief."), HumanMessage([{"type": "text", "text": "Click."}, shown])]
    asked = chat(TOOLS).bind_tools([click], tool_choice="any", parallel_tool_calls=False).invoke(messages)
    (call,) = asked.tool_calls
    result = ToolMessage(click.invoke(call["args"]), tool_call_id=call["id"])
    chat(TOOLS, max_tokens=4).bind_tools([click]).invoke([*messages, asked, result])


@trial
def tools_stream() -> None:
    total = None
    for chunk in chat(TOOLS).bind_tools([click], tool_choice="click").stream("Click."):
        total = chunk if total is None else total + chunk
    assert [call["name"] for call in total.tool_calls] == ["click"]
    assert total.tool_calls[0]["args"]["button"] in ("left", "right")


run()
