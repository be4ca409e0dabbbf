"""What a group's sequences have in common is computed once, with the losses and gradients of computing it for each."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holotron.model.weights import random_model
from holotron.training.learner import Learner
from holotron.training.rl import passes
from holotron.training.rl.passes import Weighted, make_pass
from holotron.training.rl.record import Play, Rollout
from holotron.training.rl.sharing import different_tokens
from holotron.types import Outcome, Task
from tests.training.support import small_config

CONFIG = small_config()
IMAGE = CONFIG.tokens.image


def member(texts: list[str], pictures: list[int]) -> Weighted:
    """An episode: words, a picture, words, a picture ..., of which the last words of each turn are learnt."""
    ids: list[int] = []
    learn: list[bool] = []
    for text, _ in zip(texts, pictures, strict=True):
        ids += [*map(ord, "goal"), *[IMAGE] * 4, *map(ord, text)]
        learn += [False] * 8 + [True] * len(text)
    keys = [bytes([number]) * 16 for number in pictures]
    tiles = {}
    for number, key in zip(pictures, keys, strict=True):
        draw = torch.Generator().manual_seed(number)
        tiles[key] = torch.randint(0, 256, (3, 64, 64), generator=draw, dtype=torch.uint8)
    shown = [(list(tiles).index(key), row) for key in keys for row in range(4)]
    count = sum(learn)
    play = Play(
        np.asarray(ids, np.int32), np.asarray(learn), tuple(tiles), np.asarray(shown, np.int32),
        np.full(count, -1.0, np.float32), np.zeros(count, np.int32),
    )  # fmt: skip
    return Rollout(Task("t", "a"), True, Outcome.SUCCESS, (play,), tiles), play, 0.5


GROUP = [
    member(["click 1", "type ab"], [1, 2]),
    member(["click 1", "type cd"], [1, 2]),  # as the first one until its second reply
    member(["click 2", "type ab"], [1, 3]),
    member(["click 1"], [1]),  # nothing of its own
    member(["click 1"], [4]),  # the same words about another screen
]


@pytest.mark.parametrize("pattern", ["M-*-M-", "*M"])
def test_losses_and_gradients_are_those_of_every_sequence_by_itself(pattern, monkeypatch):
    torch.manual_seed(0)
    from dataclasses import replace

    config = replace(CONFIG, decoder=replace(CONFIG.decoder, pattern=pattern))
    learner = Learner(random_model(config, seed=3).double()).requires_grad_(True).train()
    found = []
    for shares in (True, False):
        monkeypatch.setattr(passes, "can_share", lambda _, shares=shares: shares)
        batch = make_pass(GROUP, config, torch.device("cpu")).batch
        assert (batch.shared is not None) == shares
        logits = learner.predict(batch, learner.look(batch))
        logprobs = logits.log_softmax(-1).gather(-1, batch.targets_l[:, None])
        weights = torch.linspace(-1, 2, len(logprobs), dtype=logits.dtype)
        gradients = torch.autograd.grad((logprobs[:, 0] * weights).sum(), list(learner.parameters()), allow_unused=True)
        found.append((batch, logprobs.detach(), gradients))
    (shared, here, mine), (plain, there, theirs) = found
    assert len(shared.ids_T) < 0.6 * len(plain.ids_T) and shared.tokens == plain.tokens
    torch.testing.assert_close(here, there, rtol=1e-9, atol=1e-9)
    for a, b in zip(mine, theirs, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-8)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=6), min_size=1, max_size=6))
def test_tokens_are_the_same_where_all_before_them_are(sequences):
    tokens = np.asarray([[token, -1] for sequence in sequences for token in sequence])
    spread, first = different_tokens(tokens, tuple(map(len, sequences)))
    beginnings = [tuple(sequence[: n + 1]) for sequence in sequences for n in range(len(sequence))]
    assert len(first) == len(set(beginnings)) == spread.max() + 1
    for number, place in zip(spread, beginnings, strict=True):
        assert beginnings[first[number]] == place
