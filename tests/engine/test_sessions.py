"""What sessions cost: every token is computed once, and forks, marks and rewinds compute and copy next to nothing."""

from __future__ import annotations

import time

import pytest

from holotron.engine.api import Overloaded, SamplingParams, SessionBusy, Span, UnknownSession
from holotron.engine.core import Core
from holotron.engine.log import Log
from holotron.engine.sequence import Sequence
from holotron.errors import CapacityError, InputError
from tests.engine.support import GREEDY, Asked, assert_greedy, image_log, make_tile, micro_model, settings

KINDS = pytest.mark.parametrize("kind", ["hybrid", "attention", "mamba"])


def words(count: int, seed: int = 1) -> Log:
    return Log([(n * n + 3 * seed * n + seed) % 40 for n in range(count)])


def play_in_turns(core: Core, sequences: list[Sequence], turns: int) -> None:
    """All of them ask at once, in every turn, and hear what the network alone would say."""
    for turn in range(turns):
        asked = []
        for n, sequence in enumerate(sequences):
            core.sessions.append(sequence, words(20, 10 * turn + n + 1))
            asked.append(Asked(core, sequence))
        for one in asked:
            assert one.finished(core).finish_reason == "length"
            assert_greedy(core.model, one.request.sequence.log, 4)


@KINDS
def test_an_append_only_session_computes_the_new_tokens_and_the_last_sampled_one(kind: str) -> None:
    core = Core(micro_model(kind), settings(kv_tokens=1024, token_budget=16))
    sequence = core.sessions.open("agent")
    total = 0
    for turn in range(6):
        screenshot = image_log(make_tile(turn))
        core.sessions.append(sequence, screenshot)
        core.sessions.append(sequence, words(20, turn))
        before = core.stats().computed_tokens
        result = Asked(core, sequence).finished(core)
        new = len(screenshot) + 20 + (1 if turn else 0)  # the last sampled token has not been read yet
        assert core.stats().computed_tokens - before == new
        assert (result.cached_tokens, result.computed_tokens) == (total, new)
        assert result.prompt_tokens == total + new
        total += new + len(result.tokens) - 1
        assert_greedy(core.model, sequence.log, len(result.tokens))
    assert core.stats().recomputed_tokens == 0
    assert core.stats().generated_tokens == 6 * 4


@KINDS
def test_forks_share_their_past_and_nothing_is_computed_again(kind: str) -> None:
    core = Core(micro_model(kind), settings())
    parent = core.sessions.open("parent")
    core.sessions.append(parent, words(42))
    Asked(core, parent, SamplingParams(max_tokens=0)).finished(core)
    stats = core.stats()
    children = core.sessions.fork(parent, ["a", "b", "c"])
    assert (core.pools.rows.used, core.pools.pages.used) == (stats.rows_used, stats.pages_used)  # nothing copied yet
    for n, child in enumerate(children):
        core.sessions.append(child, words(n, 7))
        assert Asked(core, child).finished(core).computed_tokens == n  # the first one samples from what is remembered
        assert_greedy(core.model, child.log, 4)
    after = core.stats()
    assert after.computed_tokens == stats.computed_tokens + 0 + 1 + 2
    if kind != "attention":
        assert after.rows_used == stats.rows_used + 3  # one state each
    if kind != "mamba":
        # 42 tokens are ten full pages of four, shared, and one half-filled, copied; up to two more tokens' pages each.
        assert after.pages_used <= stats.pages_used + 3 * 3
    core.check_integrity()


@KINDS
def test_rewinding_to_a_mark_is_free_and_elsewhere_costs_the_difference(kind: str) -> None:
    core = Core(micro_model(kind), settings())
    sequence = core.sessions.open("s")
    core.sessions.append(sequence, words(30))
    observed = core.sessions.mark(sequence)  # before anything was computed: taken on the way
    first = Asked(core, sequence).finished(core)
    core.sessions.append(sequence, words(11, 3))
    Asked(core, sequence).finished(core)

    core.sessions.rewind(sequence, observed.position)
    assert len(sequence.log) == 30
    again = Asked(core, sequence).finished(core)
    assert again.tokens == first.tokens
    assert again.computed_tokens == 0
    assert core.stats().recomputed_tokens == 0

    before = core.stats()
    core.sessions.rewind(sequence, 32)  # no mark there: from the one at 30
    result = Asked(core, sequence, SamplingParams(max_tokens=1, temperature=0)).finished(core)
    assert result.tokens == first.tokens[2:3]
    assert result.computed_tokens == (1 if kind == "attention" else 2)
    assert core.stats().recomputed_tokens - before.recomputed_tokens == result.computed_tokens


def test_a_mark_in_the_middle_of_appended_tokens_is_taken_as_the_computation_passes() -> None:
    core = Core(micro_model(), settings(token_budget=64))
    sequence = core.sessions.open("s")
    core.sessions.append(sequence, words(10))
    mark = core.sessions.mark(sequence)
    core.sessions.append(sequence, words(10, 2))
    Asked(core, sequence).finished(core)
    before = core.stats().computed_tokens
    core.sessions.rewind(sequence, core.sessions.position(sequence, mark))
    Asked(core, sequence).finished(core)
    assert core.stats().computed_tokens == before
    assert_greedy(core.model, sequence.log, 4)


@KINDS
def test_taking_back_the_last_tokens_says_them_again(kind: str) -> None:
    """Also where the memory ends exactly there, but not with what is needed to sample from."""
    core = Core(micro_model(kind), settings())
    sequence = core.sessions.open("s")
    core.sessions.append(sequence, words(21))
    core.sessions.mark(sequence)  # keeps the vector after token 21, which must not be taken for a later one
    said = Asked(core, sequence).finished(core).tokens
    for back in (1, 2, 3, 4):
        core.sessions.rewind(sequence, 25 - back)
        again = Asked(core, sequence, SamplingParams(max_tokens=back, temperature=0, ignore_eos=True)).finished(core)
        assert again.tokens == said[4 - back :]


def test_unmarking_frees_and_marks_behind_a_rewind_are_gone() -> None:
    core = Core(micro_model(), settings())
    sequence = core.sessions.open("s")
    core.sessions.append(sequence, words(10))
    Asked(core, sequence).finished(core)
    early = core.sessions.mark(sequence)
    Asked(core, sequence).finished(core)
    late = core.sessions.mark(sequence)
    Asked(core, sequence).finished(core)
    assert core.pools.rows.used == 3
    core.sessions.unmark(sequence, late)
    assert core.pools.rows.used == 2
    core.sessions.rewind(sequence, 5)
    with pytest.raises(InputError, match="no such mark"):
        core.sessions.position(sequence, early)
    core.check_integrity()


def test_compacting_keeps_the_beginning_and_recomputes_the_rest() -> None:
    core = Core(micro_model(), settings())
    sequence = core.sessions.open("s")
    core.sessions.append(sequence, words(12))
    core.sessions.mark(sequence)
    core.sessions.append(sequence, image_log(make_tile(1)))
    core.sessions.append(sequence, words(20, 2))
    Asked(core, sequence).finished(core)
    encoded = core.vision.encoded
    core.sessions.compact(sequence, [Span(0, 12), Log([1, 2, 3]), Span(12, 18), Span(30, 42)])
    assert len(sequence.log) == 12 + 3 + 6 + 12
    result = Asked(core, sequence).finished(core)
    assert result.cached_tokens == 12
    assert core.stats().recomputed_tokens == 6 + 11  # the very last token had not been computed
    assert core.vision.encoded == encoded  # the picture is known
    assert_greedy(core.model, sequence.log, 4)
    with pytest.raises(InputError, match="cannot keep"):
        core.sessions.compact(sequence, [Span(0, 999)])


def test_what_cannot_be_done_says_why_and_changes_nothing() -> None:
    core = Core(micro_model(), settings(kv_tokens=64, max_sessions=2))
    sequence = core.sessions.open("s")
    with pytest.raises(InputError, match="nothing to continue"):
        Asked(core, sequence)
    with pytest.raises(InputError, match="already a session"):
        core.sessions.open("s")
    with pytest.raises(UnknownSession, match="nobody"):
        core.sessions.get("nobody")
    with pytest.raises(CapacityError, match=r"61 tokens do not fit: a session may have 60"):
        core.sessions.append(sequence, words(61))
    core.sessions.append(sequence, words(58))
    asked = Asked(core, sequence, SamplingParams(max_tokens=50, temperature=0, ignore_eos=True))
    with pytest.raises(SessionBusy):
        Asked(core, sequence)
    result = asked.finished(core)
    assert (result.finish_reason, len(result.tokens)) == ("length", 2)  # the context is full
    with pytest.raises(CapacityError, match="no room for a reply"):
        Asked(core, sequence)
    core.sessions.open("t")
    with pytest.raises(Overloaded, match="2 sessions are open"):
        core.sessions.open("u")
    with pytest.raises(Overloaded):
        core.sessions.fork(sequence, ["u"])
    core.close(sequence)
    with pytest.raises(UnknownSession, match="closed"):
        Asked(core, sequence)
    core.check_integrity()


def test_unused_sessions_expire() -> None:
    core = Core(micro_model(), settings(session_ttl=0.05))
    sequence = core.sessions.open("s")
    core.sessions.append(sequence, words(5))
    Asked(core, sequence).finished(core)
    time.sleep(0.06)
    core.step()
    assert sequence.closed
    assert not core.sessions.open_ones
    assert core.pools.rows.used == core.pools.pages.used == 0


def test_prefetch_computes_ahead_and_steps_aside() -> None:
    core = Core(micro_model(), settings(prefetch=True, token_budget=8))
    idle, eager = core.sessions.open("idle"), core.sessions.open("eager")
    core.sessions.append(idle, words(30))
    core.prefetch(idle)
    core.step()
    assert idle.memory.length == 8
    core.sessions.append(eager, words(9, 2))
    asked = Asked(core, eager, SamplingParams(max_tokens=1, temperature=0))
    core.step()
    core.step()
    assert asked.result is not None  # nobody waited for the other one's prefetch
    result = Asked(core, idle, GREEDY).finished(core)  # takes over what is there
    assert (result.cached_tokens, result.computed_tokens) == (8, 22)
    assert_greedy(core.model, idle.log, 4)
    while core.step():
        pass
    core.check_integrity()
