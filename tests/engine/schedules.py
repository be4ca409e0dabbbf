"""Random schedules of everything that can happen to sessions, carried out with a plain record beside the engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from holotron.engine.api import Mark, SamplingParams, SessionBusy, Span
from holotron.engine.core import Core
from holotron.engine.log import Log
from holotron.engine.sequence import Sequence
from tests.engine.support import Asked, assert_greedy, image_log, make_tile

TILES = [make_tile(n) for n in range(3)]
LOOKS = [make_tile(0, 0, 3), make_tile(0, 0, 1, 2), make_tile(1, 2)]  # two of them at the same tile
LONGEST = 100  # tokens of a log before it generates; with twelve more it still fits the smallest memory tested

NAMES = ["open", "close", "mark", "rewind", "rewind_mark", "compact", "cancel", "image"]
NAMES += 2 * ["append", "fork", "step", "stateless"] + 4 * ["generate"]  # what mostly happens

# A name and three numbers; what they mean is decided when the operation is carried out, so that any list of operations
# is a valid schedule (and shrinks well).
Operation = tuple[str, int, int, int]


@dataclass
class Twin:
    """What a session should be: its log, kept by hand."""

    log: Log
    sequence: Sequence
    marks: list[Mark] = field(default_factory=list)
    asked: Asked | None = None


class World:
    """Carries out a schedule on an engine and keeps a plain record beside it."""

    def __init__(self, core: Core, tolerance: float | None) -> None:
        """Every token is held against the network alone, up to `tolerance`; None: no token is."""
        self.core = core
        self.tolerance = tolerance
        self.tiles = LOOKS if core.model.config.image.sparse else TILES
        self.twins: list[Twin] = []
        self.strays: list[tuple[Log, Asked]] = []  # stateless requests under way
        self.said: list[Log] = []  # logs of finished stateless requests
        self.names = 0

    def run(self, operations: Iterable[Operation]) -> None:
        for n in range(4):  # somebody is always at work beside the operations
            self.open(n, 22 + n, 0)
            self.generate(n, 12, 0)
        for name, a, b, c in operations:
            getattr(self, name)(a, b, c)
        self.come_to_rest()

    def come_to_rest(self) -> None:
        for twin in self.twins:
            self.settle(twin)
        for stray in list(self.strays):
            self.collect(stray, wait=True)
        self.core.check_integrity()

    def tear_down(self) -> None:
        """Close everything; then nothing may be left."""
        for twin in self.twins:
            self.core.close(twin.sequence)
        while self.core.sessions.evict():
            pass
        self.core.check_integrity()
        pools = self.core.pools
        assert pools.rows.used == pools.pages.used == pools.host.used == 0
        assert len(self.core.sessions.index) == 0

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
        self.verify(twin.log, len(result.tokens))
        twin.asked = None

    def verify(self, log: Log, generated: int) -> None:
        if self.tolerance is not None:
            assert_greedy(self.core.model, log, generated, self.tolerance)

    def collect(self, stray: tuple[Log, Asked], wait: bool = False) -> None:
        log, asked = stray
        if asked.result is None and not wait:
            return
        result = asked.finished(self.core)
        assert result.finish_reason == "length", result
        for token in result.tokens:
            log.append(token)
        self.verify(log, len(result.tokens))
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
        self.add(self.idle(a), image_log(self.tiles[b % len(self.tiles)]))

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
        length = len(twin.log)
        self.back_to(twin, b % (length + 1) if c % 2 else max(0, length - b % 4))

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
            prompt = source.cut(0, min(LONGEST - 30, b % (len(source) + 1) if c % 2 else len(source) - b % 3))
        if c % 5 or not len(prompt):
            prompt.extend(self.new_tokens(a, b) if c % 3 else image_log(self.tiles[c % len(self.tiles)]))
        asked = Asked(self.core, self.core.sessions.stateless(prompt.copy()), SamplingParams(c % 5, 0, ignore_eos=True))
        self.strays.append((prompt, asked))
