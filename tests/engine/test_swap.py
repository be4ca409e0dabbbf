"""Places on the host do not overlap, and are used again before more memory is taken."""

from __future__ import annotations

import torch

from holotron.engine.swap import SLAB_BLOCKS, SwapSpace


def test_places_do_not_overlap_and_come_back() -> None:
    like = [torch.zeros(4, 3, 5), torch.zeros(4, 7, dtype=torch.bfloat16), torch.zeros(4, 0)]
    swap = SwapSpace(like)
    taken = [swap.take() for _ in range(SLAB_BLOCKS + 3)]  # more than one slab
    for n, parts in enumerate(taken):
        assert [(part.shape, part.dtype) for part in parts] == [(one.shape[1:], one.dtype) for one in like]
        for part in parts:
            part.fill_(n)
    assert all(bool((part == n).all()) for n, parts in enumerate(taken) for part in parts)
    addresses = {parts[0].data_ptr() for parts in taken}
    for parts in taken:
        swap.give(parts)
    assert {swap.take()[0].data_ptr() for _ in range(2 * SLAB_BLOCKS)} >= addresses
