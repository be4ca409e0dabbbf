"""The forward passes of a step, dealt out to ranks so that their number does not matter.

    lane 0:  draws 0, 3, 6, ...  ->  pass 0 of every step
    lane 1:  draws 1, 4, 7, ...  ->  pass 1                 three lanes: on one rank, or one on each of three
    lane 2:  draws 2, 5, 8, ...  ->  pass 2

A step has `batch.accumulate` passes, or one for every rank if those are more. Each pass has a lane of its own: samples,
chance and replay buffer follow from the lane and the step. Whoever computes it, the same samples are learnt in the same
step, so a run may go on with another number of ranks and its curve is the one it would have had. Where there are more
ranks than passes there are more lanes then; they go on behind the last sample that any lane had reached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holotron.training.batches import Batch, Batches
from holotron.training.distributed import Ranks


def lane_count(accumulate: int, where: Ranks) -> int:
    """As many as the recipe says, rounded up so that every rank has equally many: they work in step."""
    return -(-accumulate // where.count) * where.count


class Lanes:
    """Those of one rank."""

    def __init__(self, open_lane: Callable[[int], Batches], count: int, where: Ranks) -> None:
        self.count = count
        self._where = where
        self._own = {lane: open_lane(lane) for lane in range(where.rank, count, where.count)}

    def step(self, step: int) -> list[tuple[int, Batch]]:
        """Lane and batch of each of this rank's passes."""
        return [(lane, batches.step(step)) for lane, batches in self._own.items()]

    def positions(self) -> list[int]:
        """Of all lanes, on all ranks. Every rank has to ask."""
        found = [self._where.gather(batches.position) for batches in self._own.values()]
        return [position for of_ranks in found for position in of_ranks]

    def seek(self, positions: Sequence[int]) -> None:
        """Go on where a run was, whose lanes may have been more or fewer."""
        mine = redealt(positions, self.count)
        for lane, batches in self._own.items():
            batches.seek(mine[lane])


def redealt(positions: Sequence[int], count: int) -> list[int]:
    """Where each of `count` lanes begins after `len(positions)` lanes have come this far. No draw is used twice; lanes
    that were behind the furthest one leave out what they had not reached."""
    if len(positions) == count:
        return list(positions)
    lanes = len(positions)
    used = max((lane + (position - 1) * lanes + 1 for lane, position in enumerate(positions) if position), default=0)
    return [max(0, -(-(used - lane) // count)) for lane in range(count)]
