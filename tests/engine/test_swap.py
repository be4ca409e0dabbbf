"""Places on the host do not overlap, and are used again before more memory is taken."""

from __future__ import annotations

import torch

from holotron.engine.copies import AtOnce
from holotron.engine.core import Core
from holotron.engine.swap import SLAB_BLOCKS, SwapSpace
from tests.engine.support import Asked, assert_greedy, micro_model, settings
from tests.engine.test_sessions import words


def test_places_do_not_overlap_and_come_back() -> None:
    like = [torch.zeros(4, 3, 5), torch.zeros(4, 7, dtype=torch.bfloat16), torch.zeros(4, 0)]
    swap = SwapSpace(like, 1 << 20)
    taken = [place for place, _ in swap.take(SLAB_BLOCKS + 3)]  # more than one slab
    for n, place in enumerate(taken):
        parts = swap.at(place)
        assert [(part.shape, part.dtype) for part in parts] == [((1, *one.shape[1:]), one.dtype) for one in like]
        for part in parts:
            part.fill_(n)
    assert all(bool((part == n).all()) for n, place in enumerate(taken) for part in swap.at(place))
    beside = swap.at(taken[4], 3)
    assert [bool((beside[0][n] == 4 + n).all()) for n in range(3)] == [True] * 3
    for place in taken:
        swap.give(place)
    before = swap.nbytes
    assert {place for place, _ in swap.take(2 * SLAB_BLOCKS)} >= set(taken)
    assert swap.nbytes == before


def test_blocks_that_lie_side_by_side_travel_together() -> None:
    core = Core(micro_model(), settings(kv_tokens=320, page_size=16, state_rows=8, max_running=2, expected_tokens=2))
    pages, copied = core.pools.pages, []
    plain = AtOnce.out

    def counted(self: AtOnce, pairs: list, after: list) -> None:
        copied.append([len(to) for to, _ in pairs])
        plain(self, pairs, after)

    core.pools.copies.out = counted.__get__(core.pools.copies)  # type: ignore[method-assign]
    sequences = [core.sessions.open(name) for name in "ab"]
    for n, sequence in enumerate(sequences):
        core.sessions.append(sequence, words(90, n + 1))
        Asked(core, sequence).finished(core)
    sequences[0].memory.move_out(rows=0, pages=6)
    assert copied == [[6]]
    assert all(not page.on_device for page in sequences[0].memory.pages)
    held = pages.contents(sequences[0].memory.pages)
    for sequence in sequences:
        Asked(core, sequence).finished(core)
        assert_greedy(core.model, sequence.log, 8)
    assert len(held[0]) == 6
    core.check_integrity()
