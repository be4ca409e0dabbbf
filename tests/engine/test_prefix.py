"""Stateless requests resume whatever log they extend."""

from __future__ import annotations

import pytest

from holotron.engine.api import SamplingParams
from holotron.engine.core import Core
from holotron.engine.log import Log
from tests.engine.support import GREEDY, Asked, assert_greedy, image_log, make_tile, micro_model, settings
from tests.engine.test_sessions import words

KINDS = pytest.mark.parametrize("kind", ["hybrid", "attention", "mamba"])


def request(core: Core, prompt: Log, params: SamplingParams = GREEDY) -> Asked:
    return Asked(core, core.sessions.stateless(prompt.copy()), params)


def joined(*logs: Log) -> Log:
    whole = Log()
    for log in logs:
        whole.extend(log)
    return whole


@KINDS
def test_a_conversation_sent_again_and_again_is_computed_once(kind: str) -> None:
    core = Core(micro_model(kind), settings(kv_tokens=4096))
    history = words(70)
    for turn in range(4):
        result = request(core, history).finished(core)
        assert_greedy(core.model, joined(history, Log(result.tokens)), 4)
        if turn:
            assert result.computed_tokens == 10 + 1  # what is new, and the token sampled last
        history = joined(history, Log(result.tokens), words(10, turn + 5))
    assert core.stats().cached_sessions == 1  # continued, not copied
    core.check_integrity()


@KINDS
def test_a_reply_rendered_differently_resumes_before_it(kind: str) -> None:
    """Chat templates drop the reasoning of earlier replies: the logs part at the end of the previous prompt."""
    core = Core(micro_model(kind), settings(kv_tokens=4096))
    prompt = words(70)
    request(core, prompt).finished(core)
    changed = joined(prompt, Log([39, 38]), words(5, 2))
    result = request(core, changed).finished(core)
    assert result.cached_tokens >= 70
    assert_greedy(core.model, joined(changed, Log(result.tokens)), 4)
    # And the first one again, from the same place.
    assert request(core, prompt).finished(core).computed_tokens <= 1


def test_pictures_are_compared_by_content_not_by_placeholder() -> None:
    core = Core(micro_model(), settings(kv_tokens=4096))
    shown = joined(words(66), image_log(make_tile(1)))
    request(core, shown).finished(core)
    same = joined(words(66), image_log(make_tile(1)), words(3, 3))
    other = joined(words(66), image_log(make_tile(2)), words(3, 3))
    assert same.ids == other.ids
    assert request(core, same).finished(core).cached_tokens == len(shown)
    different = request(core, other).finished(core)
    assert different.cached_tokens == 0  # the state cannot be cut back to before the picture
    assert_greedy(core.model, joined(other, Log(different.tokens)), 4)


@KINDS
def test_a_shared_system_prompt_is_found_at_the_second_sight(kind: str) -> None:
    core = Core(micro_model(kind), settings(kv_tokens=4096, state_rows=40))
    system = words(130)
    computed = []
    for n in range(4):
        prompt = joined(system, words(20, n + 2))
        result = request(core, prompt).finished(core)
        assert_greedy(core.model, joined(prompt, Log(result.tokens)), 4)
        computed.append(result.computed_tokens)
    if kind == "attention":
        assert computed[1:] == [20] * 3  # pages can be shared up to any token
    else:
        assert computed[1] == 150  # nobody knew that this is where logs part; now there is a snapshot
        assert computed[2:] == [22, 22]  # at 128, the last whole block


@KINDS
def test_many_at_once_wait_for_the_one_who_computes_their_common_start(kind: str) -> None:
    core = Core(micro_model(kind), settings(kv_tokens=4096, state_rows=40, token_budget=32))
    system = words(130)
    prompts = [joined(system, words(20, n + 2)) for n in range(6)]
    asked = [request(core, prompt) for prompt in prompts]
    results = [one.finished(core) for one in asked]
    for prompt, result in zip(prompts, results, strict=True):
        assert_greedy(core.model, joined(prompt, Log(result.tokens)), 4)
    computed = core.stats().computed_tokens
    # Pages, unlike states, can also be shared up to the exact token, by those who come a little later.
    assert 150 + 5 * 20 <= computed <= 150 + 5 * 22 if kind == "attention" else computed == 150 + 5 * 22
    core.check_integrity()


@KINDS
def test_equal_prompts_are_computed_once_and_sampled_from_many_times(kind: str) -> None:
    core = Core(micro_model(kind), settings(kv_tokens=4096, state_rows=40))
    prompt = words(90)
    warm = [SamplingParams(max_tokens=4, temperature=1.5, seed=seed, ignore_eos=True) for seed in range(5)]
    asked = [request(core, prompt, params) for params in warm]
    results = [one.finished(core) for one in asked]
    assert sum(result.computed_tokens for result in results) == 90
    assert len({result.tokens for result in results}) > 1
    # The same seeds alone, one after the other, in another engine: the same samples.
    other = Core(micro_model(kind), settings(kv_tokens=4096, prefix_cache_bytes=0))
    for params, result in zip(warm, results, strict=True):
        assert request(other, prompt, params).finished(other).tokens == result.tokens


@KINDS
def test_open_sessions_share_a_beginning_too(kind: str) -> None:
    """A hundred agents with one system prompt: its pages exist once, and its tokens are computed once."""
    core = Core(micro_model(kind), settings(kv_tokens=4096, state_rows=40))
    sequences = [core.sessions.open(f"s{n}") for n in range(6)]
    for n, sequence in enumerate(sequences):
        core.sessions.append(sequence, joined(words(130), words(20, n + 2)))
    asked = [Asked(core, sequence) for sequence in sequences]
    for one in asked:
        one.finished(core)
        assert_greedy(core.model, one.request.sequence.log, 4)
    assert core.stats().computed_tokens <= 150 + 5 * 22
    if kind != "mamba":
        assert core.pools.pages.used < 6 * 39 - 5 * 30  # 128 tokens are 32 pages
    for sequence in sequences[1:]:  # the one it began with may leave
        core.close(sequence)
    core.check_integrity()
    assert Asked(core, sequences[0]).finished(core).computed_tokens == 1
    assert_greedy(core.model, sequences[0].log, 8)


def test_a_session_computes_up_to_its_own_marks_even_if_others_know_more() -> None:
    core = Core(micro_model(), settings(kv_tokens=4096, state_rows=40))
    first = core.sessions.open("first")
    core.sessions.append(first, words(100))
    Asked(core, first).finished(core)
    second = core.sessions.open("second")
    core.sessions.append(second, words(80))
    mark = core.sessions.mark(second)
    core.sessions.append(second, Log(first.log.ids[80:]))
    Asked(core, second).finished(core)
    before = core.stats().computed_tokens
    core.sessions.rewind(second, core.sessions.position(second, mark))
    Asked(core, second).finished(core)
    assert core.stats().computed_tokens == before
    assert_greedy(core.model, second.log, 4)


def test_a_stateless_request_may_continue_an_open_session_without_touching_it() -> None:
    core = Core(micro_model(), settings(kv_tokens=4096))
    session = core.sessions.open("s")
    core.sessions.append(session, words(70))
    Asked(core, session).finished(core)
    ids = list(session.log.ids)
    prompt = joined(Log(ids), words(5, 4))
    result = request(core, prompt).finished(core)
    assert result.cached_tokens == len(ids) - 1
    assert session.log.ids == ids
    more = Asked(core, session).finished(core)
    assert more.computed_tokens == 1
    assert_greedy(core.model, session.log, 8)


def test_the_cache_is_limited_in_bytes_and_drops_the_oldest() -> None:
    core = Core(micro_model(), settings(kv_tokens=4096, state_rows=40))
    prompts = [words(70, n + 1) for n in range(4)]
    request(core, prompts[0]).finished(core)
    one = sum(sequence.nbytes for sequence in core.sessions.cached)
    core = Core(micro_model(), settings(kv_tokens=4096, state_rows=40, prefix_cache_bytes=2 * one))
    for prompt in prompts:
        request(core, prompt).finished(core)
    assert core.stats().cached_sessions == 2
    assert request(core, joined(prompts[3], words(2, 9))).finished(core).cached_tokens == 70
    assert request(core, joined(prompts[0], words(2, 9))).finished(core).cached_tokens == 0
    core.check_integrity()


def test_snapshots_of_one_conversation_do_not_pile_up() -> None:
    core = Core(micro_model(), settings(kv_tokens=4096, state_rows=40))
    history = words(70)
    for turn in range(8):
        result = request(core, history).finished(core)
        history = joined(history, Log(result.tokens), words(10, turn + 5))
    assert core.pools.rows.used == 2  # where it stands, and the end of the last prompt
