"""The remote policy over real HTTP, through the official client, against a server that knows only the standard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from holotron.agent.dialects import dialects, make_dialect
from holotron.agent.history import parse_history
from holotron.agent.loop import Episode, Limits
from holotron.agent.policies.openai_api import OpenAIPolicy, Sampling, served_models
from holotron.agent.policies.wire import without_credentials
from holotron.errors import ConfigError, PolicyError
from holotron.types import Outcome, Task
from tests.agent.strict_server import StrictServer, strict_server
from tests.agent.toy import ButtonEnvironment


@pytest.fixture
def server() -> Iterator[StrictServer]:
    with strict_server() as double:
        yield double


def episode(server: StrictServer, dialect: str = "holotron", history: str = "append", presses: int = 1, **options):
    async def main():
        policy = OpenAIPolicy(
            server.url,
            options.pop("model", "seer"),
            make_dialect(dialect, actions=["click", "write", "wait", "answer"]),
            parse_history(history),
            **options,
        )
        environment = ButtonEnvironment(viewport=(413, 287), scale=1.5)
        task = Task("buttons", "press", seed=5, options={"presses": presses})
        try:
            return await Episode(environment, policy, task, limits=Limits(steps=12)).run(), policy
        finally:
            await policy.close()

    return asyncio.run(main())


@pytest.mark.parametrize("dialect", dialects.names())
@pytest.mark.parametrize("history", ["append", "epoch:3,1", "window:2"])
def test_every_dialect_and_history_hits_the_button(server, dialect, history):
    trajectory, _ = episode(server, dialect, history, presses=5)
    assert trajectory.outcome is Outcome.SUCCESS, trajectory.error
    assert len(trajectory.steps) == 5
    sent = [step.reply.completion.images_sent for step in trajectory.steps]
    assert sent == {"append": [1, 2, 3, 4, 5], "epoch:3,1": [1, 2, 3, 1, 2], "window:2": [1, 2, 2, 2, 2]}[history]
    assert trajectory.steps[-1].reply.completion.prompt_tokens == 100 * sent[-1]
    assert trajectory.steps[0].reply.completion.generated_tokens == 7
    assert trajectory.steps[0].reply.completion.seconds > 0


def test_the_schema_travels_and_can_be_left_out(server):
    episode(server)
    schema = server.requests[-1].response_format["json_schema"]
    assert schema["strict"] is True
    assert "tool_call" in schema["schema"]["properties"]
    episode(server, structured=False, sampling=Sampling(temperature=0.7, seed=11, max_tokens=99))
    request = server.requests[-1]
    assert request.response_format is None
    assert (request.temperature, request.seed, request.max_tokens) == (0.7, 11, 99)


def test_an_unusable_reply_is_told_without_sending_the_screen_again(server):
    server.babble = 1
    trajectory, _ = episode(server)
    assert trajectory.outcome is Outcome.SUCCESS
    assert "no JSON object" in trajectory.steps[0].reply.error
    assert [step.reply.completion.images_sent for step in trajectory.steps] == [1, 1]
    last = server.requests[-1].messages[-1]
    assert "no JSON object" in last.content
    assert "screen has not changed" in last.content


def test_busy_servers_are_retried_and_that_is_not_the_agents_time(server, monkeypatch):
    lost = []
    monkeypatch.setattr("holotron.agent.policies.wire.lose", lost.append)
    server.troubles = [(503, {"message": "starting"}), (429, {"message": "busy"})]
    trajectory, _ = episode(server)
    assert trajectory.outcome is Outcome.SUCCESS
    assert len(lost) == 2 and all(seconds > 0 for seconds in lost)


def test_a_server_that_is_started_again_is_waited_for(server, monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr("openai._base_client.anyio.sleep", sleep)
    server.url = "http://127.0.0.1:9/v1"
    episode(server)
    asked = len(slept) // 2  # first what it can do, then for a reply
    assert sum(slept[asked:]) > 30  # seconds: on a busy machine a server takes that long to be there again


@pytest.mark.parametrize(
    ("trouble", "outcome", "words"),
    [
        ((401, {"message": "bad key"}), Outcome.POLICY_ERROR, "Set HOLOTRON_API_KEY"),
        ((400, {"message": "response_format is not supported"}), Outcome.POLICY_ERROR, "without a schema"),
        ((400, {"message": "too long", "code": "context_length_exceeded"}), Outcome.EXHAUSTED, "no longer fits"),
        ((400, {"message": "This model's maximum context length is 10"}), Outcome.EXHAUSTED, "no longer fits"),
    ],
)
def test_refusals_are_explained(server, trouble, outcome, words):
    server.troubles = [trouble] * 10
    trajectory, _ = episode(server)
    assert trajectory.outcome is outcome
    assert words in trajectory.error


def test_servers_that_want_it_said_otherwise(server):
    server.refuses = {
        "max_tokens": "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "seed": "Unknown name: seed",
        "temperature": "'temperature' does not support 0.0 with this model.",
    }
    trajectory, _ = episode(server, presses=2, sampling=Sampling(0.0, max_tokens=77, seed=3))
    assert trajectory.outcome is Outcome.SUCCESS, trajectory.error
    assert [request.max_completion_tokens for request in server.requests] == [77, 77]
    assert all(request.temperature == 1.0 and request.seed is None for request in server.requests)
    assert len(server.headers) == 5  # learnt once


@pytest.mark.parametrize(
    "answer",
    ["text", 7, [], {}, {"choices": 3}, {"choices": [7]}, {"choices": [{}]}, {"choices": [{"message": "click"}]},
     {"choices": [{"message": {"content": 5}}]}, {"choices": [{"message": {"content": "x", "tool_calls": [{}]}}]}],
    ids=str,
)  # fmt: skip
def test_an_answer_that_is_none_is_said_in_a_sentence(server, answer):
    server.odd = [answer]
    trajectory, _ = episode(server)
    assert trajectory.outcome is Outcome.POLICY_ERROR
    assert "answered" in trajectory.error, trajectory.error


def test_content_in_parts_and_counts_that_are_none(server):
    message = {"role": "assistant", "content": [{"type": "text", "text": "hm"}, {"type": "text", "text": "..."}]}
    server.odd = [{"choices": [{"message": message}], "usage": "little"}]
    trajectory, _ = episode(server)
    assert trajectory.outcome is Outcome.SUCCESS
    first = trajectory.steps[0].reply.completion
    assert (first.text, first.prompt_tokens) == ("hm...", 0)


def test_unknown_model_and_unreachable_server(server):
    trajectory, _ = episode(server, model="oracle")
    assert trajectory.outcome is Outcome.POLICY_ERROR
    assert "'oracle'" in trajectory.error
    assert asyncio.run(served_models(server.url)) == {"seer": None}
    server.url = "http://127.0.0.1:9/v1"
    trajectory, _ = episode(server, retries=0)
    assert trajectory.outcome is Outcome.POLICY_ERROR
    assert "is it running?" in trajectory.error
    with pytest.raises(PolicyError, match="cannot list"):
        asyncio.run(served_models("http://127.0.0.1:9/v1"))


def test_the_key_is_used_and_never_written_down(server, monkeypatch):
    monkeypatch.setenv("HOLOTRON_API_KEY", "sk-very-secret")
    trajectory, policy = episode(server)
    assert server.headers[-1]["authorization"] == "Bearer sk-very-secret"
    assert "secret" not in json.dumps(policy.describe())
    assert "secret" not in repr(trajectory)
    assert without_credentials("https://me:pw@host:8/v1?key=k") == "https://host:8/v1"


@pytest.mark.parametrize("address", ["localhost:8000", "http://[::1/v1", "http://localhost:99999/v1"])
def test_addresses_are_checked(address):
    with pytest.raises(ConfigError, match="is not the address of a server"):
        OpenAIPolicy(address, "m", make_dialect("holotron"), parse_history("append"))
