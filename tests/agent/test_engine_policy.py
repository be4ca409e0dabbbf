"""The in-process engine as a policy: a tiny random model, so nonsense is decided, but decided by the rules."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from holotron.agent.dialects import make_dialect
from holotron.agent.history import parse_history
from holotron.agent.loop import Episode, Limits
from holotron.agent.policies.engine import EnginePolicy
from holotron.engine.api import EngineConfig, SamplingParams
from holotron.engine.engine import Engine
from holotron.errors import InputError
from holotron.model.loading import load_model
from holotron.model.processor import Deltas, Prompt
from holotron.types import Outcome, Task
from tests.agent.toy import ButtonEnvironment

TASK = Task("buttons", "press", seed=5, options={"presses": 50})


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    model, processor = load_model("tiny", device="cpu")
    with Engine(model, processor, EngineConfig()) as running:
        yield running


def play(engine: Engine, dialect: str, history: str, steps: int = 4, **options):
    policy = EnginePolicy(
        engine,
        make_dialect(dialect, actions=["click", "hover", "go_back"]),
        parse_history(history),
        sampling=SamplingParams(temperature=1.0, max_tokens=160, seed=7),
        **options,
    )
    episode = Episode(ButtonEnvironment(), policy, TASK, limits=Limits(steps=steps, repeats=99, invalid_replies=99))
    return asyncio.run(episode.run())


def test_append_history_computes_every_token_once(engine):
    before = engine.stats()
    trajectory = play(engine, "compact", "append")
    after = engine.stats()
    replies = [step.reply for step in trajectory.steps]
    assert trajectory.outcome in (Outcome.EXHAUSTED, Outcome.FAILURE)
    assert len(replies) >= 2
    assert all(reply.error == "" for reply in replies)  # the regular expression saw to that
    for reply in replies:
        completion = reply.completion
        assert len(completion.tokens) == len(completion.logprobs) == completion.generated_tokens > 0
        assert all(logprob <= 0 for logprob in completion.logprobs)
        assert completion.images_sent == 1
    for earlier, later in itertools.pairwise(replies):
        held = earlier.completion.prompt_tokens + earlier.completion.generated_tokens
        # All but the token sampled last and the end of turn that the grammar forced after it.
        assert held - 2 <= later.completion.cached_tokens <= held
    last = replies[-1].completion
    computed = after.computed_tokens - before.computed_tokens
    generated = sum(reply.completion.generated_tokens for reply in replies[:-1])
    assert computed <= last.prompt_tokens - generated + 2 * len(replies)
    assert after.sessions == before.sessions


def test_window_history_pays_for_rewriting_the_past(engine):
    trajectory = play(engine, "compact", "window:1")
    sent = [step.reply.completion for step in trajectory.steps]
    assert all(completion.images_sent == 1 for completion in sent)
    assert sent[-1].cached_tokens < sent[-2].prompt_tokens


def test_schema_constrained_replies_are_valid(engine):
    trajectory = play(engine, "holotron", "append", steps=2)
    for step in trajectory.steps:
        completion = step.reply.completion
        assert step.reply.error == "" or completion.finish_reason == "length"


def test_a_session_whose_first_prompt_is_refused_is_closed(engine):
    policy = EnginePolicy(engine, make_dialect("compact"), parse_history("append"))
    before = engine.stats().sessions
    with pytest.raises(InputError, match="not a token id"):
        asyncio.run(policy.chat().open(Prompt([10**8])))
    assert engine.stats().sessions == before


def test_unconstrained_nonsense_is_fed_back(engine):
    trajectory = play(engine, "holotron", "append", steps=2, constrained=False)
    assert all("JSON" in step.reply.error for step in trajectory.steps)


@pytest.mark.parametrize("history", ["append", "window:2"])
def test_screenshots_can_be_told_as_changes(engine, history):
    plain, told = play(engine, "compact", history), play(engine, "compact", history, deltas=Deltas())
    sizes = [step.reply.completion.prompt_tokens for step in told.steps]
    whole = [step.reply.completion.prompt_tokens for step in plain.steps]
    assert sizes[0] == whole[0]  # the first screen is shown whole
    assert len(sizes) >= 2
    assert sizes[1] < whole[1] - 5
    assert all(step.reply.error == "" for step in told.steps)
    if history == "append":
        for before, now in itertools.pairwise(told.steps):
            done = before.reply.completion
            assert now.reply.completion.cached_tokens >= done.prompt_tokens + done.generated_tokens - 2
