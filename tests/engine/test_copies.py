"""Blocks that travel beside the computation: whenever a copy happens to run, within what it was told to wait for,
nobody computes with anything but what it should be. On a GPU: `test_gpu.py`."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from holotron.engine.copies import Moment, Pair
from holotron.engine.core import Core
from tests.engine.schedules import World
from tests.engine.support import Asked, assert_greedy, micro_model, settings
from tests.engine.test_exactness import OPERATIONS, THOROUGH
from tests.engine.test_sessions import words


class Late:
    """Two streams of copies that run late: when somebody waits for them, or by chance when somebody asks. (What is
    computed is computed at once, so that a copy comes after it needs no waiting here.)"""

    def __init__(self, dice: random.Random, hurry: float) -> None:
        self.dice = dice
        self.hurry = hurry
        self.streams: dict[str, deque[_Copy]] = {"out": deque(), "back": deque()}
        self.begun = self.settled = 0

    def out(self, pairs: Sequence[Pair], after: Iterable[Moment]) -> _Copy:
        return self._begin("out", pairs, after)

    def back(self, pairs: Sequence[Pair], after: Iterable[Moment]) -> _Copy:
        return self._begin("back", pairs, after)

    def settle(self, moment: Moment) -> None:
        assert isinstance(moment, _Copy)
        self.settled += not moment.done
        moment.force()

    wait = settle

    def computed(self) -> None:
        pass

    def _begin(self, stream: str, pairs: Sequence[Pair], after: Iterable[Moment]) -> _Copy:
        self.begun += 1
        copy = _Copy(self, self.streams[stream], list(pairs), [m for m in after if isinstance(m, _Copy)])
        self.streams[stream].append(copy)
        return copy

    def some_time_passes(self) -> None:
        if self.dice.random() < self.hurry:
            stream = self.streams[self.dice.choice(["out", "back"])]
            if stream and all(moment.done for moment in stream[0].after):
                stream[0].force()


class _Copy:
    def __init__(self, late: Late, stream: deque[_Copy], pairs: list[Pair], after: list[_Copy]) -> None:
        self._late, self._stream, self._pairs, self.after = late, stream, pairs, after
        self.done = False

    def passed(self) -> bool:
        self._late.some_time_passes()
        return self.done

    def force(self) -> None:
        while not self.done:
            first = self._stream[0]
            for moment in first.after:
                moment.force()
            if first.done:
                continue
            assert self._stream.popleft() is first
            for to, source in first._pairs:
                to.copy_(source)
            first.done = True


def late(core: Core, seed: int, hurry: float) -> Late:
    copies = Late(random.Random(seed), hurry)
    core.pools.copies = copies
    for pool in (core.pools.rows, core.pools.pages):
        pool._copies = copies
    return copies


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hybrid", "attention"])
@examples(max_examples=10, **THOROUGH)
@given(
    config=st.builds(
        settings,
        page_size=st.sampled_from([4, 16]),
        kv_tokens=st.sampled_from([128, 200]),
        state_rows=st.sampled_from([2, 3, 6]),
        max_running=st.sampled_from([1, 3, 8]),
        token_budget=st.sampled_from([11, 64]),
        expected_tokens=st.sampled_from([1, 16]),
        host_bytes=st.sampled_from([3000, 1 << 30]),
        prefix_cache_bytes=st.sampled_from([3000, None]),
        overlap=st.booleans(),
        graphs=st.booleans(),
    ),
    hurry=st.sampled_from([0.0, 0.1, 0.7]),
    operations=OPERATIONS,
)
def test_any_schedule_says_what_the_network_alone_says(kind, config, hurry, operations) -> None:  # type: ignore[no-untyped-def]
    core = Core(micro_model(kind), config)
    late(core, len(operations), hurry)
    world = World(core, 0.0)
    world.run(operations)
    world.tear_down()


def crowded(hurry: float, seed: int = 1) -> tuple[Core, Late]:
    """Five sessions in turns, where one or two have room; what they say is checked."""
    core = Core(micro_model(), settings(kv_tokens=64, state_rows=2, page_size=16, max_running=2, expected_tokens=2))
    copies = late(core, seed, hurry)
    sequences = [core.sessions.open(f"s{n}") for n in range(5)]
    for turn in range(3):
        asked = []
        for n, sequence in enumerate(sequences):
            core.sessions.append(sequence, words(6 + seed % 5, 10 * turn + n + seed))
            asked.append(Asked(core, sequence))
        for one in asked:
            one.finished(core)
            assert_greedy(core.model, one.request.sequence.log, 4)
    core.check_integrity()
    assert core.stats().blocks_to_device > 5
    return core, copies


@pytest.mark.parametrize("hurry", [0.0, 0.3])
def test_sessions_in_turns(hurry: float) -> None:
    _, copies = crowded(hurry)
    assert copies.begun > 5


@pytest.mark.parametrize("forgotten", ["settle", "after"])
def test_this_test_would_notice(forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody computes without waiting, or a copy does not wait for another."""
    if forgotten == "settle":
        monkeypatch.setattr(Late, "settle", lambda self, moment: None)
    else:
        plain = Late._begin
        monkeypatch.setattr(Late, "_begin", lambda self, stream, pairs, after: plain(self, stream, pairs, ()))
    with pytest.raises(AssertionError):
        [crowded(0.2, seed) for seed in range(20)]


def test_who_is_on_the_device_does_not_wait_for_who_arrives() -> None:
    core = Core(micro_model(), settings(kv_tokens=400, state_rows=4, page_size=16, max_running=3, expected_tokens=2))
    late(core, 1, hurry=0.0)
    sequences = [core.sessions.open(name) for name in "abcde"]
    for n, sequence in enumerate(sequences):
        core.sessions.append(sequence, words(20, n + 1))
        Asked(core, sequence).finished(core)
    away = next(sequence for sequence in sequences if sequence.memory.away)
    there = next(sequence for sequence in sequences if not sequence.memory.away)
    core.sessions.append(there, words(20, 9))
    core.sessions.append(away, words(5, 8))
    first = Asked(core, there)
    core.step()
    second = Asked(core, away)
    core.step()
    assert second.request in core.scheduler.arriving
    first.finished(core)
    assert second.result is None  # nothing arrives by itself here
    second.finished(core)  # with nobody else to compute for, it is waited for
    for sequence in (away, there):
        assert_greedy(core.model, sequence.log, 4)
    core.check_integrity()
