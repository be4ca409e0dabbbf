"""More sessions than device and host can hold: they are late, and nothing else. Every reply is what the network alone
would say."""

from __future__ import annotations

import random
import time

import pytest

from holotron.engine.api import Overloaded, SamplingParams
from holotron.engine.core import Core
from holotron.engine.forgetting import Pauses
from holotron.engine.sequence import Sequence
from tests.engine.schedules import NAMES, World
from tests.engine.support import Asked, assert_greedy, micro_model, settings
from tests.engine.test_sessions import play_in_turns, words

KINDS = pytest.mark.parametrize("kind", ["hybrid", "attention", "mamba", "delta", "experts"])


def tight(kind: str, **changes: object) -> Core:
    """Room for one session of a hundred tokens and little more, and none on the host."""
    given = {"kv_tokens": 128, "state_rows": 3, "host_bytes": 0, "expected_tokens": 2, "prefix_cache_bytes": None}
    return Core(micro_model(kind), settings(**(given | changes)))


@KINDS
@pytest.mark.parametrize("overlap", [False, True])
def test_sessions_that_do_not_fit_together_take_turns(kind: str, overlap: bool) -> None:
    core = tight(kind, overlap=overlap)
    sequences = [core.sessions.open(f"s{n}") for n in range(5)]
    play_in_turns(core, sequences, turns=3)
    stats = core.stats()
    assert stats.forgotten_sessions > 0
    assert stats.recomputed_tokens > 0
    core.check_integrity()


@KINDS
def test_forks_and_marks_are_given_up_before_a_request_is(kind: str) -> None:
    core = tight(kind)
    parent = core.sessions.open("parent")
    core.sessions.append(parent, words(40))
    Asked(core, parent).finished(core)
    mark = core.sessions.mark(parent)
    children = core.sessions.fork(parent, [f"c{n}" for n in range(4)])
    for n, child in enumerate(children):
        core.sessions.append(child, words(15, n + 2))
        core.sessions.mark(child)
        core.sessions.append(child, words(15, n + 7))
    asked = [Asked(core, child) for child in children]
    for one in asked:
        assert one.finished(core).finish_reason == "length"
        assert_greedy(core.model, one.request.sequence.log, 4)
    core.sessions.append(parent, words(30, 9))
    Asked(core, parent).finished(core)
    core.sessions.rewind(parent, core.sessions.position(parent, mark))
    assert Asked(core, parent).finished(core).finish_reason == "length"
    assert_greedy(core.model, parent.log, 4)
    core.check_integrity()


@pytest.mark.parametrize("host", [0, 6000])
@pytest.mark.parametrize("kind", ["hybrid", "attention"])
def test_random_schedules_are_never_refused(kind: str, host: int) -> None:
    for seed in range(3):
        dice = random.Random(f"{kind}/{host}/{seed}")
        core = tight(kind, host_bytes=host, overlap=seed > 0, max_running=4)
        world = World(core, 0.0)
        world.run([(dice.choice(NAMES), *(dice.randrange(1000) for _ in range(3))) for _ in range(40)])  # type: ignore[misc]
        assert core.stats().forgotten_sessions > 0
        world.tear_down()


def test_only_a_session_that_cannot_run_alone_is_refused() -> None:
    core = tight("hybrid")
    with pytest.raises(Exception, match="do not fit"):
        core.sessions.append(core.sessions.open("long"), words(200))
    fits = core.sessions.open("fits")
    core.sessions.append(fits, words(100))
    for n in range(3):
        other = core.sessions.open(f"s{n}")
        core.sessions.append(other, words(60, n + 2))
        Asked(core, other).finished(core)
    result = Asked(core, fits, SamplingParams(max_tokens=20, temperature=0, ignore_eos=True)).finished(core)
    assert not isinstance(result.error, Overloaded)
    assert_greedy(core.model, fits.log, len(result.tokens))


def test_who_is_needed_last_forgets_first() -> None:
    core = tight("hybrid")
    pauses, now = Pauses(), time.monotonic()

    def session(used: float, pause: float | None) -> Sequence:
        sequence = Sequence("s", core.pools)
        sequence.used_at, sequence.pause = now - used, pause
        return sequence

    soon, late, left = session(9, 10), session(2, 10), session(500, 10)
    assert pauses.last_needed([soon, late], now) == [late, soon]  # the least recently used one comes back first
    assert pauses.last_needed([soon, late, left], now) == [left, late, soon]  # nobody is expected back at that one
    assert pauses.last_needed([], now) == []


def test_a_client_that_rewrites_its_history_is_told() -> None:
    from tests.engine.test_window import Client

    core = Core(micro_model(), settings(kv_tokens=4096, state_rows=40))
    client = Client(core)
    told = []
    for _ in range(8):
        asked = client.ask()
        client.heard(asked)
        assert asked.result is not None
        told.append((asked.result.resumed, asked.result.warning is not None))
    assert [how for how, _ in told] == ["nothing", "everything", "everything", *["window"] * 5]
    assert [warned for _, warned in told] == [False] * 5 + [True] * 3
    assert core.stats().resumed_window == 5
