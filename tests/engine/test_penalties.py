"""Penalties and biases against a plain reading of their definition: alone, in a batch, and through the whole engine."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from holotron.engine.api import Grammar, SamplingParams
from holotron.engine.core import Core
from holotron.engine.grammar import GrammarCompiler
from holotron.engine.log import Log
from holotron.engine.penalties import penalised, penalties_of
from holotron.engine.sampler import Choice, sample
from holotron.errors import InputError
from tests.engine.support import Asked, byte_model, image_log, logits_alone, make_tile, micro_model, settings
from tests.engine.test_sessions import words

VOCAB = 37
PENALISING = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 1.0]),
    frequency_penalty=st.sampled_from([0.0, 0.5, -1.0, 2.0]),
    presence_penalty=st.sampled_from([0.0, 1.5, -2.0]),
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.5]),
    logit_bias=st.dictionaries(st.integers(0, VOCAB - 1), st.sampled_from([-100.0, -1.0, 0.5, 100.0]), max_size=4),
)
TOKENS = st.lists(st.integers(0, VOCAB - 1), max_size=200)


def by_definition(logits: Tensor, params: SamplingParams, prompt: list[int], said: list[int]) -> Tensor:
    changed = logits.clone()
    for token in range(len(logits)):
        x, count = logits[token].item(), said.count(token)
        if count or token in prompt:
            x = x / params.repetition_penalty if x > 0 else x * params.repetition_penalty
        x -= count * params.frequency_penalty
        x -= params.presence_penalty if count else 0
        changed[token] = x + params.logit_bias.get(token, 0.0)
    return changed


@given(st.lists(st.tuples(PENALISING, TOKENS, TOKENS), min_size=1, max_size=4), st.integers(0, 9))
def test_every_row_by_its_definition(rows: list, number: int) -> None:
    logits = torch.randn(len(rows), VOCAB, generator=torch.Generator().manual_seed(number), dtype=torch.float64) * 3
    before = logits.clone()
    choices, expected = [], []
    for n, (params, prompt, said) in enumerate(rows):
        penalties = penalties_of(params, prompt, VOCAB)
        for token in said:
            if penalties is not None:
                penalties.note(token)
        choices.append(Choice(params, 5, n, penalties))
        expected.append(by_definition(logits[n], params, prompt, said))
    wanted = {n: choice.penalties for n, choice in enumerate(choices) if choice.penalties is not None}
    if wanted:
        torch.testing.assert_close(penalised(logits, wanted), torch.stack(expected), rtol=1e-12, atol=1e-12)
    together = sample(logits, choices)
    unpenalised = sample(torch.stack(expected), [choice._replace(penalties=None) for choice in choices])
    assert together.tokens == unpenalised.tokens
    assert torch.equal(logits, before)
    own = logits.log_softmax(-1)  # logprobs stay the model's own
    assert together.logprobs == pytest.approx([own[n, token].item() for n, token in enumerate(together.tokens)])


def test_policy_logprobs_are_of_what_was_drawn_from() -> None:
    logits = torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    params = SamplingParams(temperature=0.7, presence_penalty=2.0, logit_bias={4: 3.0}, policy_logprobs=True)
    penalties = penalties_of(params, [], VOCAB)
    assert penalties is not None
    penalties.note(4)
    out = sample(logits, [Choice(params, 1, 0, penalties)])
    drawn_from = (by_definition(logits[0], params, [], [4]) / 0.7).log_softmax(-1)
    assert out.logprobs[0] == pytest.approx(drawn_from[out.tokens[0]].item(), abs=1e-9)


def test_whoever_wants_none_pays_nothing() -> None:
    assert penalties_of(SamplingParams(), [1, 2, 3], VOCAB) is None


@pytest.mark.parametrize(("overlap", "graphs"), [(False, False), (True, True)])
def test_replies_are_what_the_definition_says_token_by_token(overlap: bool, graphs: bool) -> None:
    """Beside a request without penalties, with pictures in the prompt, and again where a session goes on."""
    model = micro_model()
    core = Core(model, settings(overlap=overlap, graphs=graphs, kv_tokens=4000, state_rows=40))
    kinds = [
        {},
        {"frequency_penalty": 0.8},
        {"presence_penalty": 1.5},
        {"repetition_penalty": 1.8},
        {"frequency_penalty": 0.3, "repetition_penalty": 1.2, "logit_bias": {3: 4.0, 7: -100.0}},
    ]
    asked = []
    for n, kind in enumerate(kinds):
        sequence = core.sessions.open(f"s{n}")
        core.sessions.append(sequence, words(5 + n))
        core.sessions.append(sequence, image_log(make_tile(n)))
        asked.append(
            Asked(core, sequence, SamplingParams(max_tokens=24, temperature=0, ignore_eos=True, **kind))  # type: ignore[arg-type]
        )
    replies = [list(one.finished(core).tokens) for one in asked]
    for one, reply in zip(asked, replies, strict=True):
        check(model, one.request.sequence.log, one.request.params, reply)
    assert len({tuple(reply[:10]) for reply in replies}) > 1
    for one in asked:  # in the next turn the first reply is part of the prompt
        core.sessions.append(one.request.sequence, words(3))
        again = Asked(core, one.request.sequence, one.request.params)
        check(model, again.request.sequence.log, again.request.params, list(again.finished(core).tokens))


def check(model: object, log: Log, params: SamplingParams, reply: list[int]) -> None:
    start = len(log.ids) - len(reply)
    logits = logits_alone(model, log)  # type: ignore[arg-type]
    for n, token in enumerate(reply):
        expected = by_definition(logits[start + n - 1], params, log.ids[:start], reply[:n])
        expected[46:] = expected[40] = -torch.inf  # never sampled
        assert token == int(expected.argmax())


def test_a_grammar_goes_before_a_bias_and_what_it_forces_was_not_chosen() -> None:
    model, processor = byte_model()
    compiler = GrammarCompiler(processor.tokenizer, model.config.decoder.vocab, model.config.tokens.eos)
    core = Core(model, settings(kv_tokens=4000))
    sequence = core.sessions.open("s")
    core.sessions.append(sequence, words(5))
    bias = {ord("z"): 100.0, ord("a"): 20.0}
    params = SamplingParams(max_tokens=40, temperature=0, frequency_penalty=4.0, logit_bias=bias)
    matcher = compiler.compile(Grammar.regex("(aaaaaaaa;)?(a|b)!"))  # seven a's follow from the first
    result = Asked(core, sequence, params, matcher=matcher, processor=processor).finished(core)
    assert result.text == "aaaaaaaa;a!"
    assert sum(result.forced) >= 8


@pytest.mark.parametrize(
    "bad",
    [
        {"frequency_penalty": math.nan},
        {"presence_penalty": math.inf},
        {"repetition_penalty": 0.0},
        {"logit_bias": {1: math.nan}},
    ],
)
def test_nonsense_is_refused(bad: dict) -> None:
    with pytest.raises(InputError, match="sampling: "):
        SamplingParams(**bad)


def test_a_bias_for_a_token_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match="logit_bias: 37 is not a token id"):
        penalties_of(SamplingParams(logit_bias={37: 1.0}), [], VOCAB)


@pytest.mark.gpu
def test_the_device_does_the_same_and_nobody_waits_for_it() -> None:
    logits = torch.randn(3, VOCAB, generator=torch.Generator().manual_seed(2))
    params = SamplingParams(temperature=0, frequency_penalty=0.7, repetition_penalty=1.4, logit_bias={5: 2.0})
    penalties = penalties_of(params, [1, 2, 3], VOCAB)
    assert penalties is not None
    penalties.note(7)
    there = logits.cuda()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        changed = penalised(there, {0: penalties, 2: penalties})
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(changed.cpu(), penalised(logits, {0: penalties, 2: penalties}))
