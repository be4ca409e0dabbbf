from __future__ import annotations

import asyncio
from typing import Literal

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from harness import POLICY, TOOLS, Server, picture, run, trial
from openai import AsyncOpenAI
from pydantic import BaseModel

set_tracing_disabled(True)
CALLED: list[str] = []
ONE_CALL = {"tool_choice": "required", "parallel_tool_calls": False}


class Answer(BaseModel):
    city: Literal["Paris", "Rome"]
    warm: bool


@function_tool
def weather(city: Literal["Paris", "Rome"], days: int = 1) -> str:
    """The weather there."""
    CALLED.append(city)
    return "sunny"


def agent(server: Server, settings: dict[str, object] | None = None, **options: object) -> Agent:
    client = AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)
    model = OpenAIChatCompletionsModel(model=server.model, openai_client=client)
    return Agent(
        name="helper",
        instructions="Be brief.",
        model=model,
        model_settings=ModelSettings(max_tokens=400, **(settings or {})),
        **options,
    )


@trial
def plain() -> None:
    assert isinstance(Runner.run_sync(agent(POLICY), "Hello").final_output, str)


@trial
def typed_output_and_a_picture() -> None:
    shown = {"type": "input_image", "detail": "auto", "image_url": picture()}
    message = {"role": "user", "content": [shown, {"type": "input_text", "text": "Where?"}]}
    result = Runner.run_sync(agent(POLICY, output_type=Answer), [message])
    assert isinstance(result.final_output, Answer)


@trial
def tool_then_typed_output() -> None:
    """Both at once: the reply is either a call or the answer."""
    CALLED.clear()
    result = Runner.run_sync(agent(TOOLS, ONE_CALL, tools=[weather], output_type=Answer), "Weather?", max_turns=20)
    assert CALLED  # the first reply had to be a call; the SDK leaves the later ones to the model
    assert isinstance(result.final_output, Answer)


@trial
def stream() -> None:
    async def play() -> None:
        result = Runner.run_streamed(
            agent(TOOLS, ONE_CALL, tools=[weather], output_type=Answer), "Weather?", max_turns=20
        )
        kinds = [event.type async for event in result.stream_events()]
        assert {"raw_response_event", "run_item_stream_event"} <= set(kinds)
        assert isinstance(result.final_output, Answer)

    asyncio.run(play())


@trial
def handoff() -> None:
    second = agent(TOOLS, output_type=Answer)
    first = agent(TOOLS, ONE_CALL, handoffs=[second])
    assert isinstance(Runner.run_sync(first, "Hello", max_turns=20).final_output, Answer)


run()
