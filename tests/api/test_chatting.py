"""A model in this process, to talk to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from PIL import Image
from pydantic import BaseModel

import holotron
from holotron import errors
from holotron.engine import Generation, Result
from holotron.model.processor.reply import ReplyPart

PICTURE = Image.new("RGB", (64, 64), "white")


@pytest.fixture(scope="module")
def model() -> Iterator[holotron.Model]:
    with holotron.Model("tiny", device="cpu", config=holotron.EngineConfig(kv_tokens=8192, state_rows=16)) as model:
        yield model


class Choice(BaseModel):
    side: Literal["left", "right"]


def test_a_text_a_picture_and_a_conversation(model: holotron.Model):
    few = model.sampling(max_tokens=8)
    reply = model.chat("What is this?", images=[PICTURE], sampling=few)
    assert reply.generated_tokens == 8 and reply.finish_reason == "length"
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    assert model.chat(said, sampling=few) == model.chat(said, sampling=few)
    with pytest.raises(errors.InputError, match="must be the last"):
        model.chat(said[:1], images=[PICTURE])
    with pytest.raises(errors.InputError, match="must be the last"):
        model.chat(["Hello"], images=[PICTURE])  # type: ignore[list-item]


def test_a_schema_holds(model: holotron.Model):
    plain = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    assert set(model.chat("?", schema=plain | {"additionalProperties": False}).parsed) == {"ok"}
    assert isinstance(model.chat("?", schema=Choice).parsed, Choice)
    with pytest.raises(errors.InputError, match="cut off"):
        model.chat("?", schema=Choice, sampling=model.sampling(max_tokens=3))


def test_streaming_is_the_same_reply(model: holotron.Model):
    few = model.sampling(max_tokens=12)
    parts = list(model.stream("Count.", sampling=few))
    whole = model.chat("Count.", sampling=few)
    total = sum(parts, ReplyPart())
    assert (total.content, total.reasoning) == (whole.content, whole.reasoning)


def test_a_session_computes_what_is_new(model: holotron.Model):
    few = model.sampling(max_tokens=4)
    with model.session() as session:
        first = session.chat("Here is the page.", images=[PICTURE], sampling=few)
        other = session.fork()
        second = session.chat("And now?", images=[PICTURE], sampling=few)
        assert second.cached_tokens >= first.prompt_tokens
        assert other.chat("And now?", images=[PICTURE], sampling=few) == second
        for _ in session.stream("Stop at once.", sampling=model.sampling(max_tokens=64)):
            break
        # The broken-off turn left nothing behind.
        with other:
            assert session.chat("Go on.", sampling=few).content == other.chat("Go on.", sampling=few).content
        with pytest.raises(errors.InputError, match="tools belong to the first turn"):
            session.chat("x", tools=[{"type": "function", "function": {"name": "click"}}])


def test_a_turn_that_fails_leaves_the_session_as_it_was(model: holotron.Model, monkeypatch: pytest.MonkeyPatch):
    few = model.sampling(max_tokens=3)
    with model.session() as session:
        session.chat("Hello", sampling=few)
        tokens, twin = session._session.info().tokens, session.fork()
        with pytest.raises(errors.InputError, match="cut off"):
            session.chat("Which?", schema=Choice, sampling=few)
        assert session._session.info().tokens == tokens

        def interrupted(generation: Generation) -> Result:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(Generation, "result", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.chat("Go on", sampling=model.sampling(max_tokens=4000, ignore_eos=True))
        assert session._session.info().tokens == tokens
        said, undisturbed = session.chat("And now?", sampling=few), twin.chat("And now?", sampling=few)
        assert (said.content, said.prompt_tokens) == (undisturbed.content, undisturbed.prompt_tokens)
