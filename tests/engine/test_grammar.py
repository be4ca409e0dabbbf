"""Constrained decoding: random weights say nonsense, but nonsense of the right shape."""

from __future__ import annotations

import json
import re
import time

import pytest

from holotron.engine.api import Grammar, SamplingParams
from holotron.engine.core import Core
from holotron.engine.grammar import GrammarCompiler, Matcher
from holotron.engine.log import Log
from holotron.errors import InputError
from tests.engine.support import Asked, byte_model, logits_alone, settings

CLICK = {
    "type": "object",
    "properties": {
        "tool_name": {"const": "click"},
        "x": {"type": "integer", "minimum": 0, "maximum": 1000},
        "y": {"type": "integer", "minimum": 0, "maximum": 1000},
        "element": {"type": "string", "maxLength": 8},
    },
    "required": ["tool_name", "x", "y", "element"],
    "additionalProperties": False,
    "x-guidance": {"whitespace_flexible": False},
}
MODEL, PROCESSOR = byte_model()
COMPILER = GrammarCompiler(PROCESSOR.tokenizer, MODEL.config.decoder.vocab, MODEL.config.tokens.eos)


def generate(grammar: Grammar, seed: int = 0, core: Core | None = None, **params: object) -> Asked:
    core = core or Core(MODEL, settings())
    sampling = SamplingParams(**({"max_tokens": 200, "temperature": 1.0, "seed": seed} | params))  # type: ignore[arg-type]
    sequence = core.sessions.stateless(Log([*b"Act: "]))
    asked = Asked(core, sequence, sampling, matcher=COMPILER.compile(grammar), processor=PROCESSOR)
    asked.finished(core)
    core.check_integrity()
    return asked


@pytest.mark.parametrize("seed", range(5))
def test_json_of_the_given_schema_comes_out_and_forced_tokens_cost_no_iteration(seed: int) -> None:
    core = Core(MODEL, settings())
    result = generate(Grammar.json_schema(CLICK), seed, core).result
    assert result is not None
    action = json.loads(result.text)
    assert action["tool_name"] == "click"
    assert 0 <= action["x"] <= 1000
    assert isinstance(action["element"], str)
    assert result.finish_reason == "stop"
    assert result.tokens[-1] == MODEL.config.tokens.eos[0]  # the turn is closed, as if the model had done it
    skeleton = len('{"tool_name":"click","x":') + len('"y":') + len('"element":"') + 1
    assert sum(result.forced) >= skeleton
    assert all(logprob == 0 for logprob, forced in zip(result.logprobs, result.forced, strict=True) if forced)
    sampled = len(result.tokens) - sum(result.forced)
    assert core.stats().iterations <= sampled + 1  # one for the prompt with what is forced behind it


def test_logprobs_under_a_grammar_are_still_the_models_own() -> None:
    asked = generate(Grammar.json_schema(CLICK))
    assert asked.result is not None
    log = asked.request.sequence.log
    alone = logits_alone(MODEL, log).log_softmax(-1)
    start = len(log) - len(asked.result.tokens)
    for n, (token, forced) in enumerate(zip(asked.result.tokens, asked.result.forced, strict=True)):
        if not forced:
            assert asked.result.logprobs[n] == pytest.approx(alone[start + n - 1, token].item(), abs=1e-9)


@pytest.mark.parametrize("pattern", [r"[a-c]{3,5}-[0-9]{2}", r"(yes|no)", r"ä+€?"])
def test_a_regex_is_matched_in_full(pattern: str) -> None:
    for seed in range(4):
        result = generate(Grammar.regex(pattern), seed, stop=()).result
        assert result is not None
        if result.finish_reason == "stop":
            assert re.fullmatch(pattern, result.text)
        else:
            assert result.finish_reason == "length"


def test_lark_may_follow_free_text_and_max_tokens_cut_even_what_is_forced() -> None:
    grammar = Grammar.lark('start: /[xyz]*/ "</think>" obj\nobj: %json {"type": "boolean"}')
    for seed in range(4):
        result = generate(grammar, seed, max_tokens=300).result
        assert result is not None
        assert re.fullmatch(r"[xyz]*</think>\s*(true|false)\s*", result.text, re.S) or result.finish_reason == "length"
    cut = generate(Grammar.json_schema(CLICK), max_tokens=5).result
    assert cut is not None
    assert (cut.text, cut.finish_reason, sum(cut.forced)) == ('{"too', "length", 5)


def test_a_fully_forced_answer_needs_no_network_at_all() -> None:
    core = Core(MODEL, settings())
    result = generate(Grammar.json_schema({"const": "done"}), core=core).result
    assert result is not None
    assert json.loads(result.text) == "done"
    assert core.stats().iterations == 0


def test_other_requests_in_the_batch_are_not_constrained() -> None:
    core = Core(MODEL, settings())
    params = SamplingParams(max_tokens=30, temperature=1.0, seed=5, ignore_eos=True)
    alone = Asked(core, core.sessions.stateless(Log([*b"Act: "])), params, processor=PROCESSOR).finished(core)
    core = Core(MODEL, settings())
    free = Asked(core, core.sessions.stateless(Log([*b"Act: "])), params, processor=PROCESSOR)
    bound = generate(Grammar.json_schema(CLICK), core=core).result
    assert bound is not None
    assert json.loads(bound.text)["tool_name"] == "click"
    assert free.finished(core).tokens == alone.tokens


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        (Grammar.json_schema({"type": "nonsense"}), "cannot be used.*nonsense"),
        (Grammar.json_schema('{"type": '), "expected value"),
        (Grammar.json_schema("[1, 2]"), "malformed|cannot be used"),
        (Grammar.regex("(a"), "unclosed group"),
        (Grammar.lark("start: foo"), "foo"),
        (Grammar.regex("a" * 300_000), "300,000 characters"),
        (Grammar.json_schema({"items": {"enum": [], "$ref": {"é中😀" * 30: 1}}}), "cannot be used: the compiler"),
        (Grammar.json_schema("[" * 50_000 + "]" * 50_000), "malformed|cannot be used"),
    ],
)
def test_a_bad_grammar_is_refused_with_the_reason(grammar: Grammar, message: str) -> None:
    with pytest.raises(InputError, match=message):
        COMPILER.compile(grammar)


def nested(depth: int) -> dict:
    schema: dict = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema, "b": schema}, "required": ["a", "b"]}
    return schema


BOMBS = {
    "exponential": lambda: Grammar.json_schema(nested(12)),
    "wide": lambda: Grammar.json_schema(
        {"type": "object", "properties": {f"k{n}": {"type": "string", "pattern": f"^(a|b{n})*$"} for n in range(2000)}}
    ),
    "repetition": lambda: Grammar.regex("((a{1,500}){1,500}){1,500}"),
    "overlap": lambda: Grammar.regex("(a?){3000}a{3000}"),
    "long string": lambda: Grammar.json_schema({"type": "string", "minLength": 10**5, "maxLength": 10**7}),
    "many items": lambda: Grammar.json_schema({"type": "array", "minItems": 10**6, "items": {"type": "integer"}}),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_schema_bomb_is_refused_or_harmless(name: str) -> None:
    """Either the library's limits refuse it, or it decodes under them; never minutes, never a crash."""
    started = time.monotonic()
    try:
        result = generate(BOMBS[name](), max_tokens=8).result
        assert result is not None
        assert result.finish_reason in ("length", "stop", "error")
    except InputError:
        pass
    assert time.monotonic() - started < 60


def test_a_matcher_is_a_copy_and_says_what_must_follow() -> None:
    first, second = (COMPILER.compile(Grammar.regex("ab[cd]")) for _ in range(2))
    assert isinstance(first, Matcher)
    assert first.forced() == [*b"ab"]
    assert second.forced() == [*b"ab"]
    first.accept(ord("c"))
    assert first.finished
    assert not second.finished
    with pytest.raises(InputError, match="cannot go on"):
        second.accept(ord("x"))
