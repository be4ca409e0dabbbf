"""Who runs when: riding along, fairness, yielding, deadlines, cancelling, and what happens when memory is full."""

from __future__ import annotations

import time

import pytest
import torch

from holotron.engine.api import Overloaded, SamplingParams
from holotron.engine.core import Core
from holotron.engine.log import Log
from holotron.errors import HolotronError
from tests.engine.support import Asked, assert_greedy, micro_model, settings
from tests.engine.test_sessions import words


def greedy(count: int) -> SamplingParams:
    return SamplingParams(max_tokens=count, temperature=0, ignore_eos=True)


def ask(core: Core, name: str, prompt: Log, count: int, **options: object) -> Asked:
    sequence = core.sessions.open(name)
    core.sessions.append(sequence, prompt)
    return Asked(core, sequence, greedy(count), **options)  # type: ignore[arg-type]


def test_decodes_ride_along_with_a_long_prompt() -> None:
    core = Core(micro_model(), settings(token_budget=16))
    talker = ask(core, "talker", words(5), 30)
    core.step()
    reader = ask(core, "reader", words(200, 2), 1)
    iterations = 0
    while reader.result is None:
        before = len(talker.events)
        core.step()
        iterations += 1
        assert len(talker.events) == before + 1  # no iteration without a token for the one who speaks
    assert iterations == 200 // 8  # 15 tokens are left beside the decode; pieces end on the scan's grid of 8
    assert core.stats().running == 1


def test_prompts_can_wait_for_decodes_and_be_computed_together() -> None:
    plans = []
    core = Core(micro_model(), settings(gather=3, token_budget=64), on_step=lambda report: plans.append(report))
    talker = ask(core, "talker", words(5), 30)
    core.step()
    readers = [ask(core, "first", words(12, 2), 4)]
    core.step()
    readers.append(ask(core, "second", words(9, 3), 4))
    for _ in range(3):
        core.step()
    # Three iterations of decodes alone, then both prompts at once; whoever speaks gets a token in each of them.
    assert [(plan.decode_tokens, plan.prefill_tokens) for plan in plans] == [(0, 5), (1, 0), (1, 0), (1, 0), (1, 21)]
    assert len(talker.events) == 5
    for one in (talker, *readers):
        one.finished(core)
        log = one.request.sequence.log
        assert_greedy(core.model, log, len(one.events))
    lonely = ask(core, "lonely", words(7, 4), 1)
    core.step()  # nobody decodes: nothing to wait for
    assert lonely.result is not None
    core.check_integrity()


def test_the_least_served_session_goes_first() -> None:
    core = Core(micro_model(), settings(max_running=1, token_budget=32, max_waiting=10))
    veteran = ask(core, "veteran", words(100), 1)
    veteran.finished(core)
    core.sessions.append(veteran.request.sequence, words(40, 2))
    blocker = ask(core, "blocker", words(60, 3), 1)
    core.step()
    second = Asked(core, veteran.request.sequence, greedy(1))
    newcomer = ask(core, "newcomer", words(40, 4), 1)
    order = []
    while len(order) < 3:
        core.step()
        for name, asked in (("blocker", blocker), ("veteran", second), ("newcomer", newcomer)):
            if asked.result is not None and name not in order:
                order.append(name)
    # The newcomer came last but has had nothing so far. The one who had begun was not interrupted.
    assert order == ["blocker", "newcomer", "veteran"]


def test_a_veteran_is_not_starved_by_a_stream_of_newcomers() -> None:
    core = Core(micro_model(), settings(max_running=2, token_budget=16, kv_tokens=2000))
    veteran = ask(core, "veteran", words(60), 20)
    veteran.finished(core)
    core.sessions.append(veteran.request.sequence, words(10, 2))
    again = Asked(core, veteran.request.sequence, greedy(1))
    for n in range(200):
        if again.result is not None:
            break
        if len(core.scheduler.waiting) < 3:
            ask(core, f"newcomer-{n}", words(20, n + 3), 5)
        core.step()
    assert again.result is not None


def test_who_outgrows_the_device_yields_and_continues_exactly() -> None:
    """Admission plans one token ahead here, so all are let in, and then there is not room for all of them."""
    core = Core(micro_model(), settings(kv_tokens=100, state_rows=8, expected_tokens=1))
    asked = [ask(core, f"s{n}", words(16, n + 1), 30) for n in range(5)]
    for one in asked:
        result = one.finished(core)
        assert (result.finish_reason, len(result.tokens)) == ("length", 30)
        assert_greedy(core.model, one.request.sequence.log, 30)
    stats = core.stats()
    assert stats.preemptions > 0
    assert stats.blocks_to_host > 0
    assert stats.blocks_to_device > 0
    assert stats.recomputed_tokens == 0
    assert stats.computed_tokens == 5 * 16  # nobody was computed twice
    core.check_integrity()


def test_idle_sessions_make_room_on_the_host_and_come_back_exactly() -> None:
    core = Core(micro_model(), settings(kv_tokens=48, state_rows=2, max_running=2))
    first = [ask(core, f"s{n}", words(16, n + 1), 4) for n in range(6)]
    for one in first:
        one.finished(core)
    assert core.stats().host_bytes_used > 0
    for one in first:
        sequence = one.request.sequence
        result = Asked(core, sequence, greedy(4)).finished(core)
        assert result.computed_tokens == 1
        assert_greedy(core.model, sequence.log, 4)
    core.check_integrity()


@pytest.mark.parametrize("kind", ["hybrid", "attention", "mamba"])
def test_cancelling_frees_everything_at_once(kind: str) -> None:
    core = Core(micro_model(kind), settings())
    asked = Asked(core, core.sessions.stateless(words(100)), greedy(50))
    for _ in range(6):
        core.step()
    assert len(asked.events) > 0
    assert core.pools.rows.used + core.pools.pages.used > 0
    core.finish(asked.request, "cancelled")
    assert asked.result is not None
    assert asked.result.finish_reason == "cancelled"
    assert core.pools.rows.used == core.pools.pages.used == 0
    core.check_integrity()


def test_a_session_survives_the_cancelling_of_its_generation() -> None:
    core = Core(micro_model(), settings())
    asked = ask(core, "s", words(10), 50)
    for _ in range(4):
        core.step()
    core.finish(asked.request, "cancelled")
    assert asked.result is not None
    said = len(asked.result.tokens)
    assert 0 < said < 50
    again = Asked(core, asked.request.sequence, greedy(3)).finished(core)
    assert again.computed_tokens == 1
    assert_greedy(core.model, asked.request.sequence.log, said + 3)


def test_deadlines_hold_in_the_queue_and_while_running() -> None:
    core = Core(micro_model(), settings(max_running=1))
    soon = time.monotonic() + 0.05
    running = ask(core, "a", words(5), 10_000, deadline=soon)
    queued = ask(core, "b", words(5, 2), 5, deadline=soon)
    core.step()
    time.sleep(0.06)
    core.step()
    for asked in (running, queued):
        assert asked.result is not None
        assert asked.result.finish_reason == "deadline"
    assert running.result is not None
    assert len(running.result.tokens) >= 1
    assert core.stats().running == core.stats().waiting == 0


def test_a_full_queue_refuses_with_a_hint() -> None:
    core = Core(micro_model(), settings(max_running=1, max_waiting=2))
    for n in range(2):
        ask(core, f"s{n}", words(5), 5)
    with pytest.raises(Overloaded, match="2 requests are waiting") as refused:
        ask(core, "late", words(5), 5)
    assert refused.value.retry_after >= 1
    assert len(core.scheduler.waiting) == 2


@pytest.mark.parametrize("kind", ["hybrid", "attention", "mamba"])
def test_full_memory_is_a_delay_and_no_more(kind: str) -> None:
    """No host tier, a device for three sessions of this size, and twelve of them, none of which is ever closed."""
    core = Core(micro_model(kind), settings(kv_tokens=64, state_rows=3, host_bytes=0, max_waiting=20))
    asked = [ask(core, f"s{n}", words(18, n + 1), 3) for n in range(12)]
    for one in asked:
        assert one.finished(core).finish_reason == "length"
        assert_greedy(core.model, one.request.sequence.log, 3)
    core.check_integrity()
    again = Asked(core, asked[0].request.sequence, greedy(3)).finished(core)
    assert again.finish_reason == "length"
    assert_greedy(core.model, asked[0].request.sequence.log, 3)


def test_a_full_host_can_still_exchange_sessions() -> None:
    """Device and host are both full to the last block; a session on the host changes places with one on the device."""
    core = Core(micro_model("mamba"), settings(state_rows=2, host_bytes=10**9, max_running=1))
    sessions = [ask(core, f"s{n}", words(9, n + 1), 2) for n in range(6)]
    for one in sessions:
        one.finished(core)
    core.pools.host.limit = core.pools.host.used
    for one in sessions:
        Asked(core, one.request.sequence, greedy(2)).finished(core)
        assert_greedy(core.model, one.request.sequence.log, 2)
        core.check_integrity()


def test_cached_requests_give_way_to_sessions() -> None:
    core = Core(micro_model(), settings(kv_tokens=64, state_rows=4, host_bytes=0))
    for n in range(4):
        Asked(core, core.sessions.stateless(words(18, n + 1)), greedy(2)).finished(core)
    assert core.stats().cached_sessions > 0
    for n in range(2):
        assert ask(core, f"s{n}", words(20, n + 9), 3).finished(core).finish_reason == "length"
    assert core.stats().evicted_sessions > 0
    core.check_integrity()


def test_a_failing_iteration_costs_its_requests_but_not_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Core(micro_model(), settings())
    victim = ask(core, "victim", words(10), 20)
    core.step()
    core.step()

    def explode(*_: object) -> torch.Tensor:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with monkeypatch.context() as patch:
        patch.setattr(core.runner, "run", explode)
        core.step()
    assert victim.result is not None
    assert victim.result.finish_reason == "error"
    assert isinstance(victim.result.error, HolotronError)
    core.check_integrity()
    # The log is the truth: what the network remembered was in doubt, and is computed again.
    said = len(victim.result.tokens)
    again = Asked(core, victim.request.sequence, greedy(3)).finished(core)
    assert again.cached_tokens == 0
    assert_greedy(core.model, victim.request.sequence.log, said + 3)


def test_not_a_number_ends_the_session_it_happens_to_and_no_other() -> None:
    core = Core(micro_model(), settings())
    healthy, sick = ask(core, "healthy", words(10), 8), ask(core, "sick", words(10, 2), 8)
    core.step()
    core.step()
    row = sick.request.sequence.memory.row
    core.pools.cache.ssm_RLHPN[row] = torch.nan
    assert healthy.finished(core).finish_reason == "length"
    assert_greedy(core.model, healthy.request.sequence.log, 8)
    assert sick.result is not None
    assert isinstance(sick.result.error, HolotronError)
    assert "NaN" in str(sick.result.error)
    again = Asked(core, sick.request.sequence, greedy(3)).finished(core)  # computed anew from its log
    assert_greedy(core.model, sick.request.sequence.log, len(sick.result.tokens) + len(again.tokens))
    core.check_integrity()
