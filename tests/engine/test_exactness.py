"""Whatever happens to a session, and whoever else is served beside it, it says what the network alone would say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from holotron.engine.api import Mark, SamplingParams, SessionBusy, Span
from holotron.engine.core import Core
from holotron.engine.log import Log
from holotron.engine.sequence import Sequence
from tests.engine.support import Asked, assert_greedy, image_log, make_tile, micro_model, settings

TILES = [make_tile(n) for n in range(3)]
LONGEST = 100  # tokens of a log before it generates; with twelve more it still fits the smallest memory below

# An operation is a name and three numbers; what they mean is decided when it is carried out, so that any list of
# operations is a valid schedule (and shrinks well).
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["open", "close", "append", "append", "append", "image", "generate", "generate", "generate", "step", "step"]
            + ["fork", "mark", "rewind", "rewind_mark", "compact", "cancel", "stateless", "stateless"]
        ),
        st.integers(0, 1000),
        st.integers(0, 1000),
        st.integers(0, 1000),
    ),
    min_size=6,
    max_size=40,
)

CONFIGS = st.builds(
    settings,
    page_size=st.sampled_from([1, 4, 16]),
    kv_tokens=st.sampled_from([128, 200, 2000]),
    state_rows=st.sampled_from([2, 3, 6, 40]),
    max_running=st.sampled_from([1, 3, 8]),
    token_budget=st.sampled_from([8, 11, 64]),
    expected_tokens=st.sampled_from([1, 16]),
    prefix_cache_bytes=st.sampled_from([0, 3000, 1 << 20]),
    vision_cache_bytes=st.sampled_from([0, 1 << 20]),
)


@dataclass
class Twin:
    """What a session should be: its log, kept by hand."""

    log: Log
    sequence: Sequence
    marks: list[Mark] = field(default_factory=list)
    asked: Asked | None = None


class World:
    """Carries out a schedule on an engine and keeps the books beside it."""

    def __init__(self, core: Core, tolerance: float) -> None:
        self.core = core
        self.tolerance = tolerance
        self.twins: list[Twin] = []
        self.strays: list[tuple[Log, Asked]] = []  # stateless requests under way
        self.said: list[Log] = []  # logs of finished stateless requests
        self.names = 0

    def run(self, operations: list[tuple[str, int, int, int]]) -> None:
        for n in range(4):  # somebody is always at work beside the operations
            self.open(n, 22 + n, 0)
            self.generate(n, 12, 0)
        for name, a, b, c in operations:
            getattr(self, name)(a, b, c)
        for twin in self.twins:
            self.settle(twin)
        for stray in list(self.strays):
            self.collect(stray, wait=True)

    def pick(self, a: int) -> Twin:
        if not self.twins:
            self.open(0, 0, 0)
        return self.twins[a % len(self.twins)]

    def idle(self, a: int) -> Twin:
        """A session at rest; rather another one than wait for a busy one."""
        first = self.pick(a)
        turn = self.twins.index(first)
        for twin in self.twins[turn:] + self.twins[:turn]:
            if twin.asked is None or twin.asked.result is not None:
                self.settle(twin)
                return twin
        self.settle(first)
        return first

    def settle(self, twin: Twin) -> None:
        """Wait for its generation and hold it against the specification."""
        if twin.asked is None:
            return
        result = twin.asked.finished(self.core)
        assert result.finish_reason in ("length", "cancelled"), result
        for token in result.tokens:
            twin.log.append(token)
        assert twin.sequence.log.ids == twin.log.ids
        assert_greedy(self.core.model, twin.log, len(result.tokens), self.tolerance)
        twin.asked = None

    def collect(self, stray: tuple[Log, Asked], wait: bool = False) -> None:
        log, asked = stray
        if asked.result is None and not wait:
            return
        result = asked.finished(self.core)
        assert result.finish_reason == "length"
        for token in result.tokens:
            log.append(token)
        assert_greedy(self.core.model, log, len(result.tokens), self.tolerance)
        self.said.append(log)
        self.strays.remove(stray)

    # ------------------------------------------------------------------------------------------------ operations

    def new_tokens(self, a: int, b: int) -> Log:
        return Log([(a * 31 + b * 17 + n * n * 7) % 40 for n in range(b % 30 + 1)])

    def open(self, a: int, b: int, c: int) -> None:
        self.names += 1
        sequence = self.core.sessions.open(f"s{self.names}")
        self.twins.append(Twin(Log(), sequence))
        self.append(len(self.twins) - 1, a, b)

    def append(self, a: int, b: int, c: int) -> None:
        twin = self.idle(a)
        self.add(twin, self.new_tokens(b, c))

    def image(self, a: int, b: int, c: int) -> None:
        self.add(self.idle(a), image_log(TILES[b % len(TILES)]))

    def add(self, twin: Twin, more: Log) -> None:
        if len(twin.log) + len(more) > LONGEST:
            self.back_to(twin, 20)
        self.core.sessions.append(twin.sequence, more)
        twin.log.extend(more)

    def generate(self, a: int, b: int, c: int) -> None:
        twin = self.idle(a)
        if 0 < len(twin.log) <= LONGEST:
            params = SamplingParams(max_tokens=b % 13, temperature=0, ignore_eos=True)
            twin.asked = Asked(self.core, twin.sequence, params)

    def step(self, a: int, b: int, c: int) -> None:
        for _ in range(a % 5):
            self.core.step()

    def fork(self, a: int, b: int, c: int) -> None:
        twin = self.idle(a)
        if len(self.twins) < 8:
            self.names += 1
            [sequence] = self.core.sessions.fork(twin.sequence, [f"s{self.names}"])
            self.twins.append(Twin(twin.log.copy(), sequence, list(twin.marks)))

    def mark(self, a: int, b: int, c: int) -> None:
        twin = self.idle(a)
        if len(twin.marks) < 4:
            twin.marks.append(self.core.sessions.mark(twin.sequence))

    def rewind(self, a: int, b: int, c: int) -> None:
        twin = self.idle(a)
        self.back_to(twin, b % (len(twin.log) + 1))

    def rewind_mark(self, a: int, b: int, c: int) -> None:
        twin = self.idle(a)
        if twin.marks:
            mark = twin.marks[b % len(twin.marks)]
            self.back_to(twin, self.core.sessions.position(twin.sequence, mark))

    def back_to(self, twin: Twin, position: int) -> None:
        self.core.sessions.rewind(twin.sequence, position)
        twin.log.truncate(position)
        twin.marks = [mark for mark in twin.marks if mark.position <= position]

    def compact(self, a: int, b: int, c: int) -> None:
        twin = self.idle(a)
        first, second = b % (len(twin.log) + 1), c % (len(twin.log) + 1)
        keep = [Span(0, min(first, second)), self.new_tokens(a, b), Span(max(first, second), len(twin.log))]
        self.core.sessions.compact(twin.sequence, keep)
        new = Log()
        for part in keep:
            new.extend(twin.log.cut(part.start, part.end) if isinstance(part, Span) else part)
        same = twin.log.common(new)
        twin.log = new
        twin.marks = [mark for mark in twin.marks if mark.position <= same]

    def close(self, a: int, b: int, c: int) -> None:
        if len(self.twins) > 2:
            twin = self.twins.pop(a % len(self.twins))
            self.core.close(twin.sequence)
            assert twin.sequence.closed

    def cancel(self, a: int, b: int, c: int) -> None:
        twin = self.pick(a)
        if twin.asked is not None and twin.asked.result is None:
            with pytest.raises(SessionBusy):
                self.core.settle(twin.sequence)
            self.core.finish(twin.asked.request, "cancelled")
            self.settle(twin)

    def stateless(self, a: int, b: int, c: int) -> None:
        for stray in list(self.strays):
            self.collect(stray)
        known = [*self.said[-6:], *(twin.log for twin in self.twins), *(log for log, _ in self.strays)]
        prompt = Log()
        if known and c % 4:
            source = known[a % len(known)]
            prompt = source.cut(0, min(LONGEST - 30, b % (len(source) + 1) if c % 2 else len(source)))
        prompt.extend(self.new_tokens(a, b) if c % 3 else image_log(TILES[c % len(TILES)]))
        asked = Asked(self.core, self.core.sessions.stateless(prompt.copy()), SamplingParams(c % 5, 0, ignore_eos=True))
        self.strays.append((prompt, asked))


def play(kind: str, dtype: torch.dtype, tolerance: float, config: object, operations: list) -> Core:
    core = Core(micro_model(kind, dtype), config)  # type: ignore[arg-type]
    world = World(core, tolerance)
    world.run(operations)
    core.check_integrity()
    for twin in world.twins:
        core.close(twin.sequence)
    while core.sessions.evict():
        pass
    core.check_integrity()
    assert core.pools.rows.used == core.pools.pages.used == core.pools.host.used == 0
    return core


THOROUGH: dict[str, Any] = {"derandomize": True, "suppress_health_check": list(HealthCheck)}


@pytest.mark.parametrize("kind", ["hybrid", "attention", "mamba"])
@examples(max_examples=200, **THOROUGH)
@given(config=CONFIGS, operations=OPERATIONS)
def test_any_schedule_says_what_the_network_alone_says(kind: str, config: object, operations: list) -> None:
    play(kind, torch.float64, 0.0, config, operations)


@examples(max_examples=100, **THOROUGH)
@given(config=CONFIGS, operations=OPERATIONS)
def test_in_single_precision_too_up_to_near_ties(config: object, operations: list) -> None:
    play("hybrid", torch.float32, 1e-4, config, operations)
