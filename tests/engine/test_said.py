"""A reply that was begun elsewhere: it says again what it said, and goes on as if nothing had happened."""

from __future__ import annotations

import pytest

from holotron.engine import Engine, EngineConfig, Grammar, SamplingParams
from tests.engine.support import byte_model

CONFIG = EngineConfig(page_size=8, kv_tokens=1024, state_rows=24, token_budget=64)
WAYS = {
    "greedy": SamplingParams(max_tokens=12, temperature=0, ignore_eos=True),
    "sampled": SamplingParams(max_tokens=12, temperature=1.0, seed=7, ignore_eos=True),
    "penalties": SamplingParams(max_tokens=12, temperature=1.0, seed=7, ignore_eos=True, presence_penalty=1.5),
}


@pytest.mark.parametrize("how", list(WAYS))
@pytest.mark.parametrize("overlap", [False, True])
def test_it_goes_on_after_what_was_said(how: str, overlap: bool) -> None:
    model, processor = byte_model("hybrid")
    config = EngineConfig(page_size=8, kv_tokens=1024, state_rows=24, token_budget=64, overlap=overlap)
    with Engine(model, processor, config) as engine:
        first = engine.open()
        first.append("tell me")
        whole = first.generate(WAYS[how]).result()
        for count in (0, 1, 5, 11, 12):
            again = engine.open()
            again.append("tell me")
            generation = again.generate(WAYS[how], said=whole.tokens[:count])
            assert [event.token for event in generation] == list(whole.tokens)
            assert generation.result().text == whole.text
            assert again.tokens() == first.tokens()
            again.append("and then?")
            more = again.generate(WAYS["greedy"]).result()
            fork = first.fork()[0]
            fork.append("and then?")
            assert more.tokens == fork.generate(WAYS["greedy"]).result().tokens
        [stateless] = engine.complete_later(
            engine.prepare("tell me"), WAYS[how], [None], said={0: whole.tokens[:5]}
        ).result()
        assert stateless.result().tokens == whole.tokens
        engine.check_integrity()


def test_it_says_what_was_said_even_where_it_would_have_said_something_else() -> None:
    """After a near tie: what the client has heard is what the session holds."""
    model, processor = byte_model("hybrid")
    with Engine(model, processor, CONFIG) as engine:
        session = engine.open()
        session.append("tell me")
        said = [ord(letter) for letter in "surely not"]
        result = session.generate(WAYS["greedy"], said=said).result()
        assert list(result.tokens[: len(said)]) == said
        assert len(result.tokens) == 12
        assert session.tokens()[-12:] == list(result.tokens)


def test_under_a_grammar_and_up_to_its_end() -> None:
    model, processor = byte_model("hybrid")
    schema = {"type": "object", "properties": {"x": {"enum": [1, 22, 333]}}, "required": ["x"]}
    params = SamplingParams(max_tokens=64, temperature=1.0, seed=3)
    with Engine(model, processor, CONFIG) as engine:
        first = engine.open()
        first.append("go")
        whole = first.generate(params, grammar=Grammar.json_schema(schema)).result()
        for count in range(len(whole.tokens) + 1):
            again = engine.open()
            again.append("go")
            result = again.generate(params, grammar=Grammar.json_schema(schema), said=whole.tokens[:count]).result()
            assert (result.tokens, result.text) == (whole.tokens, whole.text)
            assert (result.forced, result.finish_reason) == (whole.forced, whole.finish_reason)
        engine.check_integrity()
