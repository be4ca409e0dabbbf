"""Launching ahead of the host's knowledge changes when things are known, never what is said."""

from __future__ import annotations

import random

import pytest

from holotron.engine.api import Grammar, Result, SamplingParams
from holotron.engine.core import Core
from holotron.engine.grammar import GrammarCompiler
from holotron.engine.graphs import bucket_sizes
from holotron.engine.iteration import Iteration
from holotron.engine.log import Log
from holotron.engine.pieces import Plan
from tests.engine.support import Asked, assert_greedy, byte_model, image_log, make_tile, micro_model, settings
from tests.engine.test_scheduling import ask, greedy
from tests.engine.test_sessions import words


def everything_at_once(overlap: bool, graphs: bool) -> list[Result]:
    """Requests of all kinds beside each other: some end by a token, some by a string, some follow a grammar."""
    model, processor = byte_model()
    core = Core(model, settings(overlap=overlap, graphs=graphs, kv_tokens=4000, state_rows=40))
    compiler = GrammarCompiler(processor.tokenizer, model.config.decoder.vocab, model.config.tokens.eos)
    dice = random.Random(1)
    asked = []
    for n in range(16):
        sequence = core.sessions.open(f"s{n}")
        core.sessions.append(sequence, Log([dice.randrange(256) for _ in range(dice.randrange(3, 40))]))
        params = SamplingParams(
            max_tokens=dice.randrange(1, 30),
            temperature=dice.choice([0.0, 1.0, 1.5]),
            top_k=dice.choice([0, 5]),
            seed=n,
            stop_token_ids=tuple(range(0, 256, dice.choice([9, 1000]))),
            stop=("a", "q") if n % 5 == 0 else (),
            top_logprobs=n % 3,
        )
        matcher = compiler.compile(Grammar.regex("(abc|abd|x[0-9]+yz)+!")) if n % 4 == 1 else None
        asked.append(Asked(core, sequence, params, matcher=matcher, processor=processor))
    results = [one.finished(core) for one in asked]
    core.check_integrity()
    for one in asked:  # and each goes on from where it stands
        core.sessions.append(one.request.sequence, words(3))
        results.append(Asked(core, one.request.sequence, greedy(3)).finished(core))
    core.check_integrity()
    return results


def test_results_are_the_same_with_and_without_overlap_and_filled_up_batches() -> None:
    plain = everything_at_once(overlap=False, graphs=False)
    assert {result.finish_reason for result in plain} == {"stop", "length"}
    assert any(result.forced and any(result.forced) for result in plain)
    for overlap, graphs in ((True, False), (False, True), (True, True)):
        for one, other in zip(plain, everything_at_once(overlap, graphs), strict=True):
            assert (one.tokens, one.text, one.stop, one.finish_reason) == (
                other.tokens,
                other.text,
                other.stop,
                other.finish_reason,
            )
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-9)
            assert [[id for id, _ in top] for top in one.top_logprobs] == [
                [id for id, _ in top] for top in other.top_logprobs
            ]


def test_the_token_after_the_end_is_dropped_and_its_work_kept() -> None:
    core = Core(micro_model(), settings(overlap=True))
    first = ask(core, "s", words(10), 6).finished(core)
    ending = first.tokens[2]
    expected = first.tokens[: first.tokens.index(ending) + 1]
    sequence = core.sessions.open("t")
    core.sessions.append(sequence, words(10))
    params = SamplingParams(max_tokens=6, temperature=0, stop_token_ids=(ending,))
    result = Asked(core, sequence, params).finished(core)
    assert (result.tokens, result.finish_reason) == (expected, "stop")
    assert sequence.log.ids[-len(expected) :] == list(expected)
    # The network has read the last token already, so the next reply needs no computation before its first token.
    assert sequence.pending == 0
    again = Asked(core, sequence, greedy(3)).finished(core)
    assert again.computed_tokens == 0
    assert_greedy(core.model, sequence.log, len(expected) + 3)
    core.check_integrity()


def test_a_reply_cancelled_with_a_token_on_its_way_goes_on_without_it() -> None:
    core = Core(micro_model(), settings(overlap=True))
    asked = ask(core, "s", words(10), 50)
    for _ in range(4):
        core.step()
    sequence = asked.request.sequence
    assert sequence.promised == 1
    core.finish(asked.request, "cancelled")
    assert asked.result is not None
    said = len(asked.result.tokens)
    assert said == len(sequence.log) - 10
    again = Asked(core, sequence, greedy(3)).finished(core)
    assert again.computed_tokens == 0
    assert_greedy(core.model, sequence.log, said + 3)
    core.check_integrity()


def test_a_broken_device_does_not_keep_a_request_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Core(micro_model(), settings(overlap=True))
    asked = ask(core, "s", words(10), 50)
    for _ in range(4):
        core.step()

    def explode(*_: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with monkeypatch.context() as patch:
        patch.setattr(Iteration, "vector_of", explode)
        core.finish(asked.request, "cancelled")
    assert asked.result is not None
    core.check_integrity()
    sequence = asked.request.sequence
    again = Asked(core, sequence, greedy(3)).finished(core)  # computed anew from its log
    assert again.cached_tokens == 0
    assert_greedy(core.model, sequence.log, len(asked.result.tokens) + 3)


def test_no_iteration_is_wasted_on_replies_that_end_by_their_length() -> None:
    core = Core(micro_model(), settings(overlap=True))
    ask(core, "s", words(10), 6).finished(core)
    while core.step():
        pass
    assert core.stats().iterations == 7  # one for the prompt and five for tokens; the last only reads


def test_single_tokens_of_a_picture_are_not_taken_for_decodes() -> None:
    """One token of the prompt per iteration, beside a decode: batches of single tokens, some of which show a tile."""
    core = Core(micro_model(), settings(graphs=True, token_budget=2, max_running=2))
    talker = ask(core, "talker", words(3), 60)
    core.step()
    prompt = words(3, 2)
    prompt.extend(image_log(make_tile(1)))
    reader = ask(core, "reader", prompt, 4)
    reader.finished(core)
    assert_greedy(core.model, reader.request.sequence.log, 4)
    talker.finished(core)
    assert_greedy(core.model, talker.request.sequence.log, 60)


def count_plans(core: Core, monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Grows by one whenever an iteration is planned."""
    planned: list[Plan] = []
    plan = core.scheduler.plan

    def counted() -> Plan:
        planned.append(plan())
        return planned[-1]

    monkeypatch.setattr(core.scheduler, "plan", counted)
    return planned


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("kind", ["hybrid", "attention", "mamba"])
def test_repeated_iterations_are_not_planned_and_say_the_same(
    kind: str, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replies of different lengths beside each other; one is cancelled, one comes late, one ends by a token."""

    def replies(overlap: bool) -> tuple[list[list[int]], int, int]:
        core = Core(micro_model(kind), settings(overlap=overlap, graphs=overlap, page_size=16))
        planned = count_plans(core, monkeypatch)

        def begin(n: int, stop: tuple[int, ...] = ()) -> Asked:
            sequence = core.sessions.open(f"s{n}")
            core.sessions.append(sequence, words(5 + n, n + 1))
            params = SamplingParams(80 - n, temperature, seed=n, stop_token_ids=stop, ignore_eos=True)
            return Asked(core, sequence, params)

        asked = [begin(n, stop=tuple(range(0, 400, 29)) if n == 3 else ()) for n in range(4)]
        while len(asked[0].request.events) < 30:
            core.step()
        core.finish(asked[1].request, "cancelled")
        asked.append(begin(4))
        for one in asked:
            one.finished(core)
        while core.step():
            pass
        core.check_integrity()
        for one in asked:
            if temperature == 0:
                assert_greedy(core.model, one.request.sequence.log, len(one.request.events))
        said = [[event.token for event in one.request.events] for one in asked]
        return said, len(planned), core.stats().iterations

    plain, planned, iterations = replies(overlap=False)
    assert planned >= iterations
    repeated, planned, iterations = replies(overlap=True)
    assert planned < iterations / 2
    assert repeated[1][:30] == plain[1][:30]  # cancelled at about the thirtieth
    assert [*repeated[:1], *repeated[2:]] == [*plain[:1], *plain[2:]]


def test_pages_are_taken_ahead_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sequences of all lengths one reaches the end of a page in every iteration; yet few iterations are planned."""
    core = Core(micro_model("hybrid"), settings(overlap=True, graphs=True, page_size=16, kv_tokens=4000))
    asked = []
    for n in range(8):
        sequence = core.sessions.open(f"s{n}")
        core.sessions.append(sequence, words(5 + 2 * n, n + 1))
        asked.append(Asked(core, sequence, SamplingParams(90, 0, ignore_eos=True)))
    while not all(one.request.events for one in asked):
        core.step()
    planned = count_plans(core, monkeypatch)
    for _ in range(64):
        core.step()
    assert len(planned) <= 8
    core.finish(asked[0].request, "cancelled")
    for one in asked:
        one.finished(core)
    while core.step():
        pass
    core.check_integrity()
    for one in asked:
        memory = one.request.sequence.memory
        assert len(memory.pages) == -(-memory.length // 16)
        assert_greedy(core.model, one.request.sequence.log, len(one.request.events))


def test_nothing_is_taken_ahead_when_pages_are_short() -> None:
    """All pages there are, and a sequence less than its neighbours would like: nobody has to yield for it."""
    core = Core(
        micro_model("hybrid"), settings(overlap=True, graphs=True, page_size=16, kv_tokens=16 * 8, host_bytes=0)
    )
    asked = []
    for n in range(4):
        sequence = core.sessions.open(f"s{n}")
        core.sessions.append(sequence, words(3 + n, n + 1))
        asked.append(Asked(core, sequence, SamplingParams(24 - n, 0, ignore_eos=True)))
    for one in asked:
        one.finished(core)
        assert_greedy(core.model, one.request.sequence.log, len(one.request.events))
    core.check_integrity()
    assert core.stats().preemptions == 0


def test_batch_sizes() -> None:
    assert bucket_sizes(1) == [1]
    assert bucket_sizes(8) == [1, 2, 4, 8]
    assert bucket_sizes(101) == [1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 101]
    assert bucket_sizes(200)[-4:] == [128, 160, 192, 200]
