"""Ten thousand random operations leak nothing, and the checks that say so can fail."""

from __future__ import annotations

import random

import pytest

from holotron.engine.api import IntegrityError
from holotron.engine.core import Core
from tests.engine.schedules import NAMES, World
from tests.engine.support import Asked, micro_model, settings
from tests.engine.test_sessions import words


@pytest.mark.slow
def test_ten_thousand_random_operations_leak_nothing() -> None:
    core = Core(
        micro_model(),
        settings(kv_tokens=300, state_rows=6, token_budget=64, expected_tokens=2, prefix_cache_bytes=20_000),
    )
    world = World(core, tolerance=None)
    dice = random.Random(0)

    def number() -> int:
        return dice.randrange(1000)

    # Everything as often as anything else, so that little time goes into generating and much into moving references.
    names = sorted(set(NAMES))
    for _ in range(100):
        world.run((dice.choice(names), number(), number(), number()) for _ in range(96))  # and four sessions opened
        for twin in world.twins[6:]:
            core.close(twin.sequence)
        del world.twins[6:], world.said[:-6]
    stats = core.stats()
    assert stats.blocks_to_host > 1000
    assert stats.evicted_sessions > 100
    assert stats.sessions == 6
    world.tear_down()


def test_the_check_finds_what_is_wrong() -> None:
    def rested() -> Core:
        core = Core(micro_model(), settings())
        sequence = core.sessions.open("s")
        core.sessions.append(sequence, words(20))
        Asked(core, sequence).finished(core)
        core.check_integrity()
        return core

    def sequence_of(core: Core):  # type: ignore[no-untyped-def]
        return core.sessions.get("s")

    def spoil(core: Core, how: str) -> None:
        sequence, pools = sequence_of(core), core.pools
        if how == "reference":
            pools.pages.hold(sequence.memory.pages[0])
        elif how == "lost page":
            sequence.memory.pages.pop()
        elif how == "pin":
            pools.rows.pin([sequence.memory.state])
        elif how == "forgotten sequence":
            del core.sessions.open_ones["s"]
        elif how == "host":
            pools.host.used += 1
        elif how == "shared slot":
            sequence.memory.pages[0].slot = sequence.memory.pages[1].slot
        elif how == "twice free":
            pools.pages._free.append(pools.pages._free[0])

    for how in ("reference", "lost page", "pin", "forgotten sequence", "host", "shared slot", "twice free"):
        core = rested()
        spoil(core, how)
        with pytest.raises(IntegrityError):
            core.check_integrity()
