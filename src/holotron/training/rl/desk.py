"""Where groups are handed out and taken in: the trainer's side of rollouts, whoever plays them.

Every group is in one place: drawn and being played, or finished and judged. What was drawn by somebody who is gone is
drawn again, before anything else; what a checkpoint finds unfinished is played again by a resumed run.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from holotron.training.rl.counts import Counts
from holotron.training.rl.groups import helpless, judge
from holotron.training.rl.queue import GroupQueue
from holotron.training.rl.recipe import LearnFrom
from holotron.training.rl.record import Rollout
from holotron.training.rl.successes import Successes
from holotron.training.rl.tasks import Drawn, TaskSampler

Members = Sequence[tuple[int, Rollout]]  # of a group, those that came through, with their numbers


class GroupSource(Protocol):
    """What those who play need of the desk, in their event loop."""

    async def draw(self) -> Drawn: ...

    async def finished(self, drawn: Drawn, members: Members) -> None: ...

    def failed(self, error: BaseException) -> None:
        """Nobody plays any more."""


class Desk:
    def __init__(
        self,
        sampler: TaskSampler,
        queue: GroupQueue,
        successes: Successes,
        counts: Counts,
        learn_from: LearnFrom = "success",
    ) -> None:
        self.sampler = sampler
        self.queue = queue
        self.counts = counts
        self._successes = successes
        self._learn_from: LearnFrom = learn_from
        self._drawn: dict[int, Drawn] = {}  # being played
        self._lock = threading.Lock()

    def draw(self) -> Drawn:
        with self._lock:
            drawn = self.sampler.draw()
            self._drawn[drawn.number] = drawn
            return drawn

    def finished(self, drawn: Drawn, members: Members) -> None:
        """Judge a group and queue it if there is something to learn from it. Touches the disk."""
        rollouts = [rollout for _, rollout in members]
        wins = sum(rollout.success for rollout in rollouts)
        with self._lock:
            if self._drawn.pop(drawn.number, None) is None:
                return  # it was taken for lost, and is played again
            self.sampler.note(drawn.name, wins, len(rollouts))
            stored = None
            if helpless(rollouts, self._learn_from):
                stored = self._successes.take(drawn.name)
            elif 0 < wins < len(rollouts):  # of a task that is always solved none will be wanted
                solved = [(member, rollout) for member, rollout in members if rollout.success]
                member, best = max(solved, key=lambda item: item[1].value(self._learn_from))
                self._successes.add(best, drawn.number, member)
            verdict, made = judge(drawn, rollouts, stored, self._learn_from)
            self.counts.groups[verdict] += 1
            if made is not None:
                self.queue.put(made)

    def lost(self, drawn: Iterable[Drawn]) -> None:
        """Whoever played these is gone."""
        with self._lock:
            self.sampler.again([one for one in drawn if self._drawn.pop(one.number, None) is not None])

    def failed(self, error: BaseException) -> None:
        self.queue.fail(error)

    def state(self) -> dict[str, Any]:
        """What a resumed run needs: the sampler's state with all groups that are being played or waiting."""
        with self._lock:
            return self.sampler.state([*self._drawn.values(), *self.queue.waiting()])


class DeskHere:
    """The desk for those who play in its own process."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def draw(self) -> Drawn:
        return self._desk.draw()

    async def finished(self, drawn: Drawn, members: Members) -> None:
        await asyncio.to_thread(self._desk.finished, drawn, members)

    def failed(self, error: BaseException) -> None:
        self._desk.failed(error)
