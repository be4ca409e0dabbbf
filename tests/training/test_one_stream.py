"""One stream of tokens: what the trainer reads is what an agent in this process and a client of the server put into
their sessions, for any conversation. Real engine, real HTTP application; a grammar makes the model say the replies.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from holotron.agent.dialects.base import Output
from holotron.agent.images import Image
from holotron.agent.messages import Message, to_openai
from holotron.agent.policies.engine import EngineChat
from holotron.engine import AsyncSession, Engine, SamplingParams
from holotron.model.processor import Deltas, Processor, Prompt
from holotron.server.app import create_app
from holotron.server.service import Loaded, Service
from holotron.server.settings import Settings
from holotron.training.stream import conversation
from tests.engine.support import byte_model, settings

MODEL, CHATML = byte_model()
PROCESSORS = {
    "chatml": CHATML,
    "turns": Processor.for_bytes(MODEL.config.image, template="turns"),
}
GREEDY = SamplingParams(max_tokens=64, temperature=0)


def screenshot(number: int) -> Image:
    pixels = np.random.default_rng(number // 2).integers(0, 256, (16, 32, 3), dtype=np.uint8)
    pixels[:4, :4] = number  # neighbours differ in a corner
    file = io.BytesIO()
    Pillow.fromarray(pixels).save(file, "PNG")
    return Image(file.getvalue(), "image/png", (32, 16))


# Also what would be control tokens, were it not somebody's text; and what ends in the middle of a character's bytes.
words = st.one_of(st.text("abc \né🙂<|>", max_size=12), st.sampled_from(["<|im_end|>", "<image>", "<img>", "\n\n"]))
parts = st.one_of(words, st.integers(0, 5).map(screenshot))
asked = st.builds(lambda content: Message("user", tuple(content)), st.lists(parts, min_size=1, max_size=3))
replies = st.builds(lambda text: Message("assistant", (text,)), words.filter(bool))
conversations = st.tuples(
    st.one_of(st.just([]), words.map(lambda text: [Message("system", (text,))])),
    st.lists(st.tuples(asked, replies), min_size=1, max_size=3),
).map(lambda both: [*both[0], *(message for turn in both[1] for message in turn)])


def literally(text: str) -> str:
    """A regular expression for this text alone."""
    return "".join(f"\\x{{{ord(letter):x}}}" for letter in text)


def plain(message: Message) -> dict[str, Any]:
    """As recorded conversations are read for training: images as bytes."""
    parts = [
        {"type": "image", "image": p.data} if isinstance(p, Image) else {"type": "text", "text": p}
        for p in message.parts
    ]
    return {"role": message.role, "content": parts}


class Watched(EngineChat):
    """Lets a test look at the log afterwards."""

    async def begin(self, prompt: Prompt) -> AsyncSession:
        self.opened = await super().begin(prompt)
        return self.opened


async def said_in_process(engine: Engine, messages: list[Message], deltas: Deltas | None) -> list[int]:
    chat = Watched(engine, GREEDY, deltas=deltas)
    for place, message in enumerate(messages):
        if message.role == "assistant":
            await chat.complete(messages[:place], Output(regex=literally(message.text)))
    log = await chat.opened.tokens()
    await chat.close()
    return log


async def said_to_the_server(client: httpx.AsyncClient, messages: list[Message]) -> list[int]:
    log: list[int] = []
    session: dict[str, Any] = {"session_open": True}
    new: list[dict[str, Any]] = []
    for message in messages:
        if message.role != "assistant":
            new.append(to_openai(message))
            continue
        form = {"type": "regex", "regex": literally(message.text)}
        body = {"messages": new, "response_format": form, "temperature": 0, "return_token_ids": True, **session}
        response = await client.post("/v1/chat/completions", json=body, timeout=60)
        assert response.status_code == 200, response.text
        reply = response.json()
        log += [*reply["prompt_token_ids"], *reply["choices"][0]["token_ids"]]
        assert reply["session"]["tokens"] == len(log)
        session, new = {"session_id": reply["session"]["id"]}, []
    await client.delete(f"/v1/sessions/{session['session_id']}")
    return log


@pytest.fixture(scope="module", params=["chatml", "turns"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with Engine(MODEL, PROCESSORS[request.param], settings(kv_tokens=4096, state_rows=64)) as running:
        yield running
        assert running.stats().sessions == 0
        running.check_integrity()


THREE_TURNS = [
    Message("system", ("Be <|im_end|> brief.",)),
    Message("user", ("go ", screenshot(0))),
    Message("assistant", ("look <image>",)),
    Message("user", (screenshot(1),)),
    Message("assistant", ("é\n",)),
    Message("user", ("<img>", screenshot(2), "\n")),
    Message("assistant", ("done",)),
]


@example(messages=THREE_TURNS, deltas=None)
@example(messages=THREE_TURNS, deltas=Deltas())
@hypothesis_settings(max_examples=25, deadline=None)
@given(messages=conversations, deltas=st.sampled_from([None, Deltas()]))
def test_what_is_trained_on_is_what_is_served(engine: Engine, messages: list[Message], deltas: Deltas | None) -> None:
    processor = engine.processor
    assert processor is not None
    sequence, _ = conversation(processor, [plain(message) for message in messages], deltas=deltas)

    async def both() -> tuple[list[int], list[int] | None]:
        service = Service(Settings())
        service.become_ready(Loaded(engine, processor, "micro"))
        transport = httpx.ASGITransport(create_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://micro") as client:
            # Whether to tell screenshots as changes is for the agent to say; clients have no word for it.
            served = await said_to_the_server(client, messages) if deltas is None else None
        await service.fetcher.close()
        return await said_in_process(engine, messages, deltas), served

    in_process, served = asyncio.run(both())
    assert in_process == sequence.ids.tolist()
    assert served in (None, in_process)
