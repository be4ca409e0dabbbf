"""What a request leaves unsaid, the checkpoint says: how to sample in a file, whether to reason in its template."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from holotron.engine.api import SamplingParams
from holotron.model.processor import Processor, SamplingDefaults
from holotron.server.parameters import sampling_of
from holotron.server.settings import ReplySettings
from holotron.server.wire import ChatRequest
from tests.model.folders import edit, tiny_folder
from tests.server.process import running

HELLO: list[Any] = [{"role": "user", "content": "hello"}]


def asked(settings: ReplySettings, **fields: Any) -> SamplingParams:
    processor = Processor.for_bytes()
    processor.sampling = SamplingDefaults(temperature=0.6, top_p=0.9, top_k=20, min_p=0.05)
    request = ChatRequest.model_validate({"messages": HELLO, **fields})
    return sampling_of(request, settings.filled(processor), context=100)


def test_the_request_then_the_server_then_the_checkpoint() -> None:
    plain = asked(ReplySettings())
    assert (plain.temperature, plain.top_p, plain.top_k, plain.min_p) == (0.6, 0.9, 20, 0.05)
    assert asked(ReplySettings(temperature=0.3)).temperature == 0.3
    chosen = asked(ReplySettings(temperature=0.3), temperature=0, top_p=1, top_k=-1, min_p=0)
    assert (chosen.temperature, chosen.top_p, chosen.top_k, chosen.min_p) == (0, 1, 0, 0)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    folder = tiny_folder(tmp_path_factory.mktemp("checkpoint") / "greedy")
    edit(folder / "generation_config.json", do_sample=False)
    template = folder / "chat_template.jinja"
    source = template.read_text().replace(
        "default(false) else '<think></think>'", "default(true) else '<think>no</think>'"
    )
    assert "<think>no</think>" in source
    template.write_text(source)
    with (
        running(str(folder), "--memory.sessions", "4", "--memory.context", "1024") as process,
        openai.OpenAI(base_url=f"{process.url}/v1", api_key="none", max_retries=0, timeout=120) as client,
    ):
        yield client


def reply(client: openai.OpenAI, **fields: Any) -> tuple[list[int], int]:
    extra = {"return_token_ids": True, "ignore_eos": True, **fields.pop("extra_body", {})}
    done = client.chat.completions.create(model="greedy", messages=HELLO, max_tokens=12, extra_body=extra, **fields)
    assert done.usage is not None
    return done.choices[0].token_ids, done.usage.prompt_tokens  # type: ignore[attr-defined]


def test_a_real_server_does_as_the_checkpoint_says(client: openai.OpenAI) -> None:
    greedy, thinking = reply(client)
    assert greedy == reply(client)[0] == reply(client, temperature=0)[0]
    assert greedy != reply(client, temperature=2, seed=1)[0]
    said_no = {"chat_template_kwargs": {"enable_thinking": False}}
    said_yes = {"chat_template_kwargs": {"enable_thinking": True}}
    assert thinking == reply(client, extra_body=said_yes)[1]
    assert thinking != reply(client, extra_body=said_no)[1]
