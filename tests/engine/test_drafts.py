"""Guessed tokens change how often the network is asked, never what is said."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from holotron.engine.api import EngineConfig, Grammar, SamplingParams
from holotron.engine.core import Core
from holotron.engine.drafts import Draft, Drafter, Lookup
from holotron.engine.grammar import GrammarCompiler
from holotron.engine.log import Log
from holotron.engine.sequence import Request
from holotron.errors import ConfigError
from tests.engine.schedules import World
from tests.engine.support import Asked, assert_greedy, byte_model, image_log, make_tile, micro_model, settings
from tests.engine.test_exactness import CONFIGS, OPERATIONS, THOROUGH
from tests.engine.test_sessions import words


class Guesses(Drafter):
    """A few tokens by chance, some of them right: `said` is what the network would say."""

    def __init__(self, dice: random.Random, core: Core) -> None:
        super().__init__(6, core.context_limit)
        self.dice = dice
        self.said: dict[tuple[int, ...], tuple[int, ...]] = {}

    def guess(self, request: Request) -> Draft | None:
        prompt = tuple(request.sequence.log.ids[: request.prompt])
        right = self.said.get(prompt, ())[len(request.events) :][: self.dice.randrange(5)]
        wrong = [self.dice.randrange(40) for _ in range(self.dice.randrange(3))]
        tokens = [*right, *wrong][: request.params.max_tokens - len(request.events) - 1]
        return Draft(tokens, [None] * (len(tokens) + 1)) if tokens and request.matcher is None else None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hybrid", "attention"])
@examples(max_examples=6, **THOROUGH)
@given(config=CONFIGS, operations=OPERATIONS, seed=st.integers(0, 100))
def test_any_schedule_says_what_the_network_alone_says(kind, config, operations, seed) -> None:  # type: ignore[no-untyped-def]
    values = {**vars(config), "overlap": False, "drafts": 6}
    core = Core(micro_model(kind), EngineConfig(**values))
    core.scheduler._drafter = Guesses(random.Random(seed), core)
    world = World(core, 0.0)
    world.run(operations)
    world.tear_down()
    assert core.stats().drafts_kept <= core.stats().drafted_tokens


@pytest.mark.parametrize(
    ("kind", "temperature"), [("hybrid", 0.0), ("hybrid", 1.0), ("attention", 1.0), ("delta", 0.0)]
)
def test_replies_are_the_same_in_fewer_passes(kind: str, temperature: float) -> None:
    """Guesses that are right, wrong, or wrong from some token on; sampled tokens are the same ones too."""

    def said(drafts: int, guesses: dict | None = None) -> tuple[dict, Core]:
        core = Core(micro_model(kind), settings(drafts=drafts, kv_tokens=2000, state_rows=20))
        if guesses is not None:
            core.scheduler._drafter = Guesses(random.Random(3), core)
            core.scheduler._drafter.said = guesses
        found: dict[tuple[int, ...], tuple[int, ...]] = {}
        asked = []
        for n in range(2):
            sequence = core.sessions.open(f"s{n}")
            core.sessions.append(sequence, words(12 + n, n + 1))
            params = SamplingParams(max_tokens=24, temperature=temperature, seed=n, ignore_eos=True)
            asked.append(Asked(core, sequence, params))
        for one in asked:
            result = one.finished(core)
            log = one.request.sequence.log
            found[tuple(log.ids[: one.request.prompt])] = result.tokens
            if temperature == 0:
                assert_greedy(core.model, log, 24)
            core.sessions.append(one.request.sequence, words(3))  # and each goes on from where it stands
            prompt = tuple(log.ids)
            found[prompt] = Asked(core, one.request.sequence, params).finished(core).tokens
        core.check_integrity()
        return found, core

    plain, before = said(0)
    guessed, after = said(6, plain)
    assert guessed == plain
    stats = after.stats()
    assert 0.3 * stats.drafted_tokens < stats.drafts_kept < stats.drafted_tokens
    assert stats.iterations < 0.75 * before.stats().iterations


def test_what_was_said_before_is_looked_up() -> None:
    lookup = Lookup()
    log = Log([1, 2, 3, 4, 5, 6, 7, 9, 1, 2, 3])
    assert lookup.find(log, 4) == [4, 5, 6, 7]
    log.append(4)
    assert lookup.find(log, 3) == [5, 6, 7]
    log.append(8)
    assert lookup.find(log, 3) == []
    log.truncate(3)
    assert lookup.find(log, 3) == []
    log.extend(Log([2, 3]))
    assert lookup.find(log, 3) == [2, 3]  # up to the end there is
    picture = Log([1, 2, 3])
    picture.extend(image_log(make_tile(1)))
    picture.extend(Log([1, 2, 3]))
    assert Lookup().find(picture, 4) == [41]  # the tag; nobody guesses a picture


def test_a_grammar_is_followed_and_its_own_text_comes_with_a_guess() -> None:
    model, processor = byte_model()
    compiler = GrammarCompiler(processor.tokenizer, model.config.decoder.vocab, model.config.tokens.eos)
    grammar = Grammar.regex("((click at|write into) [0-9]{2}[.] )+done")
    plain, guessing = [], []
    for drafts, results in ((0, plain), (8, guessing)):
        core = Core(model, settings(drafts=drafts, kv_tokens=4000, state_rows=40, graphs=False))
        sequence = core.sessions.open("s")
        for turn in range(3):
            core.sessions.append(sequence, words(5, turn + 1))
            params = SamplingParams(max_tokens=60, temperature=turn % 2, seed=turn)
            asked = Asked(core, sequence, params, matcher=compiler.compile(grammar), processor=processor)
            results.append(asked.finished(core))
        core.check_integrity()
        results.append(core.stats())
    for one, other in zip(plain[:3], guessing[:3], strict=True):
        assert (one.tokens, one.forced, one.finish_reason) == (other.tokens, other.forced, other.finish_reason)
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-9)
    assert guessing[3].drafts_kept > 0
    assert guessing[3].iterations < plain[3].iterations


def test_guesses_need_the_last_token() -> None:
    with pytest.raises(ConfigError, match="overlap"):
        EngineConfig(drafts=4, overlap=True)
    core = Core(micro_model(dtype=torch.float32), settings(drafts=4))
    assert core.stats().drafted_tokens == 0
