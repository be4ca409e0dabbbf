"""Sampling against a plain reading of its definition, row by row."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from torch import Tensor

from holotron.engine.api import SamplingParams
from holotron.engine.sampler import Choice, sample, uniform
from holotron.errors import InputError

VOCAB = 37
PARAMS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 1e-6, 0.5, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 3, 1000]),
    top_p=st.sampled_from([1.0, 0.9, 0.3, 1e-9]),
    min_p=st.sampled_from([0.0, 0.1, 1.0]),
    top_logprobs=st.sampled_from([0, 3]),
)


def logits_of(seed: int, rows: int = 1) -> Tensor:
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 3


def kept(logits: Tensor, params: SamplingParams) -> np.ndarray:
    """Probabilities after all filters, as the documentation states them."""
    scaled = (logits / params.temperature).numpy()
    probs = np.exp(scaled - scaled.max())
    probs /= probs.sum()
    probs[probs < params.min_p * probs.max()] = 0
    order = np.argsort(-probs, kind="stable")
    if params.top_k:
        probs[order[params.top_k :]] = 0
    probs /= probs.sum()
    before = np.concatenate([[0], probs[order].cumsum()[:-1]])
    probs[order[1:][before[1:] >= params.top_p]] = 0
    return probs / probs.sum()


@given(st.lists(st.tuples(PARAMS, st.integers(0, 99), st.integers(0, 50)), min_size=1, max_size=6), st.integers(0, 9))
def test_a_sample_depends_on_its_own_row_seed_and_index_alone(rows: list, number: int) -> None:
    choices = [Choice(params, seed, index) for params, seed, index in rows]
    logits = logits_of(number, len(rows))
    together = sample(logits, choices)
    for n, choice in enumerate(choices):
        alone = sample(logits[n : n + 1], [choice])
        assert (together.tokens[n], together.top[n]) == (alone.tokens[0], alone.top[0])
        assert together.logprobs[n] == pytest.approx(alone.logprobs[0], abs=1e-12)


@examples(max_examples=60)
@given(PARAMS.filter(lambda params: params.temperature > 1e-3), st.integers(0, 5))
def test_only_tokens_that_pass_the_filters_come_out_and_all_of_them_do(params: SamplingParams, number: int) -> None:
    logits = logits_of(number)
    expected = kept(logits[0], params)
    count = 1000
    drawn = sample(logits.expand(count, -1), [Choice(params, 11, index) for index in range(count)]).tokens
    frequency = np.bincount(drawn, minlength=VOCAB) / count
    assert not frequency[expected == 0].any()
    # Five standard deviations of a binomial share, and a few occurrences for what hardly ever happens.
    assert (np.abs(frequency - expected) <= 5 * np.sqrt(expected * (1 - expected) / count) + 5 / count).all()


def test_greedy_and_logprobs_are_the_models_own() -> None:
    logits = logits_of(3, 2)
    plain = logits.log_softmax(-1)
    params = [SamplingParams(temperature=0, top_logprobs=4), SamplingParams(temperature=3, top_k=1)]
    out = sample(logits, [Choice(p, 0, 0) for p in params], never=torch.arange(VOCAB) == logits[1].argmax())
    assert out.tokens[0] == int(logits[0].argmax())
    assert out.tokens[1] == int(logits[1].topk(2).indices[1])  # the best one may never be sampled
    for n, token in enumerate(out.tokens):
        assert out.logprobs[n] == pytest.approx(plain[n, token].item(), abs=1e-12)
    assert [token for token, _ in out.top[0]] == logits[0].topk(4).indices.tolist()
    assert out.top[1] == ()


def test_a_mask_forbids() -> None:
    logits = logits_of(5, 2)
    words = torch.zeros(3, dtype=torch.int32)
    words[0] = -(2**31)  # token 31
    words[1] = 0b10  # token 33
    choices = [Choice(SamplingParams(temperature=t), 1, n) for n, t in enumerate([0.0, 1.0])]
    out = sample(logits, choices, allowed={0: words, 1: words})
    assert set(out.tokens) <= {31, 33}
    assert out.tokens[0] == (31 if logits[0, 31] > logits[0, 33] else 33)


def test_policy_logprobs_are_of_what_was_drawn_from() -> None:
    """They are the logarithms of the frequencies: after what may never come, the grammar and the temperature."""
    count, never, temperature = 20_000, 31, 1.7
    logits = logits_of(7)
    words = torch.tensor([-1, 0b10], dtype=torch.int32)  # tokens 0 to 31 and 33
    params = SamplingParams(temperature=temperature, policy_logprobs=True)
    choices = [Choice(params, 3, index) for index in range(count)]
    allowed = dict.fromkeys(range(count), words)
    out = sample(logits.expand(count, -1), choices, never=torch.arange(VOCAB) == never, allowed=allowed)
    told = dict(zip(out.tokens, out.logprobs, strict=True))
    assert set(told) <= {*range(31), 33}
    for token, times in zip(*np.unique(out.tokens, return_counts=True), strict=True):
        probability = math.exp(told[int(token)])
        assert abs(times / count - probability) <= 5 * math.sqrt(probability / count) + 5 / count
    free = [*range(31), 33]
    expected = (logits[0, free] / temperature).log_softmax(-1)
    assert [told[token] for token in free if token in told] == pytest.approx(
        [value for token, value in zip(free, expected.tolist(), strict=True) if token in told], abs=1e-9
    )


def test_bf16_logits_and_a_vocabulary_wider_than_the_mask() -> None:
    logits = logits_of(6, 1).to(torch.bfloat16)
    out = sample(logits, [Choice(SamplingParams(temperature=1.0), 1, 0)], allowed={0: torch.tensor([-1, -1])})
    assert 0 <= out.tokens[0] < VOCAB
    assert out.logprobs[0] <= 0


def test_uniform_numbers_are_uniform_and_below_one() -> None:
    numbers = np.array([uniform(seed, index) for seed in range(50) for index in range(200)])
    assert 0 <= numbers.min() <= numbers.max() < 1
    assert np.histogram(numbers, 10, (0, 1))[0] / len(numbers) == pytest.approx([0.1] * 10, abs=0.012)
    assert uniform(1, 2) != uniform(2, 1)


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": -1},
        {"temperature": math.nan},
        {"top_p": 0},
        {"top_p": 1.1},
        {"top_k": -1},
        {"min_p": 2},
        {"max_tokens": -1},
        {"stop": ("",)},
        {"top_logprobs": 99},
    ],
)
def test_nonsense_is_refused(bad: dict) -> None:
    with pytest.raises(InputError, match="sampling: "):
        SamplingParams(**bad)
