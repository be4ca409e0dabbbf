"""Between rollouts and trainer: finished groups, oldest first, never too many and never too old.

`put` does not wait: when the queue is full the oldest group makes room. `take` waits until an update's worth of groups
is there and none of them is further behind than allowed. So rollouts never stand still for the trainer, and what a slow
trainer cannot use is thrown away and counted, not piled up until it is worthless.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from holotron.training.rl.groups import Group
from holotron.training.rl.tasks import Drawn


class GroupQueue:
    def __init__(self, capacity: int, staleness: int) -> None:
        self._capacity = capacity
        self._staleness = staleness
        self._groups: deque[Group] = deque()
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self.overflowed = 0  # groups that made room for newer ones
        self.stale = 0  # groups that were too far behind
        self.waited = 0.0  # seconds that `take` spent waiting

    def put(self, group: Group) -> None:
        with self._changed:
            self._groups.append(group)
            if len(self._groups) > self._capacity:
                self._groups.popleft()
                self.overflowed += 1
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """No more groups will come."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def failure(self) -> BaseException:
        """Wait until it is known why no more groups will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None)
            assert self._error is not None
            return self._error

    def take(self, count: int, version: int, timeout: float | None = None) -> list[Group]:
        """The next `count` groups for an update of weights number `version`; after `timeout` seconds what is there."""
        began = time.monotonic()
        with self._changed:
            self._discard(version)
            while len(self._groups) < count and self._error is None:
                left = None if timeout is None else timeout - (time.monotonic() - began)
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
                self._discard(version)
            self.waited += time.monotonic() - began
            if self._error is not None:
                raise self._error
            return [self._groups.popleft() for _ in range(min(count, len(self._groups)))]

    def _discard(self, version: int) -> None:
        fresh = [group for group in self._groups if version - group.oldest <= self._staleness]
        self.stale += len(self._groups) - len(fresh)
        self._groups = deque(fresh)

    def __len__(self) -> int:
        return len(self._groups)

    def waiting(self) -> list[Drawn]:
        """What is in it, for a checkpoint."""
        with self._changed:
            return [group.drawn for group in self._groups]
